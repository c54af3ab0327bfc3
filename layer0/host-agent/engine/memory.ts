/** The Engine port in memory: for tests, and for clusters of pretend hosts. Its "programs" are in memory-shell.ts. */
import { Readable } from 'node:stream';
import { systemClock } from '@flynn/kit/clock';
import type { Clock } from '@flynn/kit/clock';
import { FlynnError } from '@flynn/kit/errors';
import { AsyncQueue } from '@flynn/kit/queue';
import { newId } from '@flynn/kit/ids';
import type { Image } from '@flynn/scheduler/job-template';
import type { CallOptions, Engine, EngineEvent, ImageInfo, Labels, VolumeInfo } from './engine.ts';
import { MemoryContainer } from './memory-container.ts';
import { label } from './labels.ts';

/** Containers in memory write no files: what Docker's volumes have in them at first. */
const emptyFolderBytes = 4_096;

export type MemoryEngine = Engine & {
  /** While it is away every call is `unavailable` and event streams break. Its containers go on. */
  setAvailable(isAvailable: boolean): void;
  /** The machine loses power: everything ends, nothing is said. */
  losePower(): void;
};

export function createMemoryEngine(
  options: {
    cluster?: string;
    clock?: Clock;
    /** Images that exist by name; by default every name does. */
    images?: readonly string[];
    capacity?: { memoryBytes: number; cores: number };
    /** Where containers seem to be: a loopback address lets tests listen in their place. */
    address?: string;
  } = {},
): MemoryEngine {
  const { clock = systemClock, cluster = 'test', address = '127.0.0.1' } = options;
  const containers = new Map<string, MemoryContainer>();
  const networks = new Map<string, string>();
  const volumes = new Map<string, VolumeInfo>();
  const images = new Map<string, ImageInfo>();
  const listeners = new Set<AsyncQueue<EngineEvent>>();
  let isAvailable = true;

  const emit = (event: EngineEvent) => {
    for (const queue of listeners) queue.push(event);
  };

  async function enter({ signal }: CallOptions = {}): Promise<void> {
    await Promise.resolve();
    if (signal?.aborted === true) throw new FlynnError('cancelled', 'the call was cancelled');
    if (!isAvailable) throw new FlynnError('unavailable', 'the container engine does not answer: is it running?');
  }

  function find(idOrName: string): MemoryContainer {
    const found = containers.get(idOrName) ?? [...containers.values()].find((c) => c.spec.name === idOrName);
    if (found === undefined) throw new FlynnError('not_found', `no container ${idOrName}`);
    return found;
  }

  function makeVolume(name: string, given: Labels = {}): void {
    const labels = { ...given, [label.cluster]: cluster };
    if (!volumes.has(name)) volumes.set(name, { name, labels, createdAtMs: clock.now() });
  }

  async function ensureImage(image: Image, call?: CallOptions): Promise<string> {
    await enter(call);
    if ('config' in image) return loaded(`flynn-${cluster}/image:${image.config.digest.slice(7, 19)}`);
    const base = 'name' in image ? image.name : image.base;
    if (options.images !== undefined && !options.images.includes(base)) {
      throw new FlynnError('not_found', `could not pull ${base}: there is no such image`);
    }
    if ('name' in image) return base;
    return loaded(`flynn-${cluster}/stack:${image.layers.map((l) => l.digest.slice(7, 19)).join('-')}`);
  }

  function loaded(ref: string): string {
    const labels = { [label.cluster]: cluster };
    images.set(ref, { id: ref, refs: [ref], labels, createdAtMs: clock.now(), sizeBytes: 0 });
    return ref;
  }

  return {
    async info(call) {
      await enter(call);
      return { memoryBytes: 8 * 2 ** 30, cores: 4, version: 'memory', ...options.capacity };
    },
    async checkLocks(call) {
      await enter(call);
    },
    async ensureNetwork({ name, subnet }, call) {
      await enter(call);
      const found = networks.get(name) ?? subnet;
      if (found !== subnet)
        throw new FlynnError('conflict', `the network ${name} has subnet ${found}, wanted is ${subnet}`);
      networks.set(name, subnet);
    },
    async removeNetwork(name, call) {
      await enter(call);
      networks.delete(name);
    },
    ensureImage,
    async imageEnv(ref, call) {
      await enter(call);
      if (options.images?.includes(ref) === false) throw new FlynnError('not_found', `there is no image ${ref}`);
      return { PATH: '/bin' };
    },
    async buildImage(build, call) {
      await enter(call);
      build.context.destroy();
      throw new FlynnError('invalid', 'this engine builds no images');
    },
    async removeBuildsLeft(call) {
      await enter(call);
    },
    async exportImages(names, call) {
      await enter(call);
      const missing = names.find((name) => options.images?.includes(name) === false);
      if (missing !== undefined) throw new FlynnError('not_found', `there is no image ${missing}`);
      return Readable.from([Buffer.from(names.join('\n'))]);
    },
    async prefetchImages(names, call) {
      for (const name of names) await ensureImage({ name }, call);
    },
    async listImages(call) {
      await enter(call);
      return [...images.values()];
    },
    async removeImage(id, call) {
      await enter(call);
      if ([...containers.values()].some((c) => c.spec.imageRef === id)) {
        throw new FlynnError('conflict', `image ${id} is in use`);
      }
      images.delete(id);
    },
    async create(spec, call) {
      await enter(call);
      if ([...containers.values()].some((c) => c.spec.name === spec.name)) {
        throw new FlynnError('conflict', `the container name ${spec.name} is taken`);
      }
      for (const volume of spec.volumes) makeVolume(volume.name, volume.labels);
      const id = newId();
      const labels = { ...spec.labels, [label.cluster]: cluster };
      containers.set(id, new MemoryContainer({ id, spec: { ...spec, labels }, address, clock, emit }));
      return id;
    },
    async start(id, call) {
      await enter(call);
      find(id).start();
      return find(id).view();
    },
    async stop(id, call) {
      await enter(call);
      await find(id).stop(call.timeoutMs);
    },
    async signal(id, signal, call) {
      await enter(call);
      const container = find(id);
      if (!container.isRunning) throw new FlynnError('conflict', `container ${id} is not running`);
      container.signal(signal);
    },
    async remove(id, call) {
      await enter(call);
      const container = containers.get(id);
      await container?.stop(0);
      if (containers.delete(id)) emit({ type: 'removed', containerId: id });
    },
    async inspect(id, call) {
      await enter(call);
      return find(id).view();
    },
    async states(call) {
      await enter(call);
      return new Map([...containers].map(([id, container]) => [id, container.view().state]));
    },
    async list(call) {
      await enter(call);
      return [...containers.values()].map((container) => container.view());
    },
    async *events({ signal }) {
      await enter();
      const queue = new AsyncQueue<EngineEvent>();
      listeners.add(queue);
      const end = () => queue.end();
      signal.addEventListener('abort', end, { once: true });
      try {
        yield* queue;
      } finally {
        signal.removeEventListener('abort', end);
        listeners.delete(queue);
      }
    },
    async *logs(id, { follow, sinceNs = 0n, tail, signal }) {
      await enter();
      const container = find(id);
      const live = follow ? container.follow() : undefined;
      const past = container.log.filter((record) => record.timestampNs >= sinceNs);
      const end = () => live?.end();
      signal?.addEventListener('abort', end, { once: true });
      yield* tail === undefined ? past : past.slice(Math.max(0, past.length - tail));
      if (live !== undefined) yield* live;
      signal?.removeEventListener('abort', end);
    },
    async attach(id, { logs, signal }) {
      await enter(signal === undefined ? {} : { signal });
      return find(id).attach(logs);
    },
    async exec(id, execution) {
      await enter(execution);
      const container = find(id);
      if (!container.isRunning) throw new FlynnError('conflict', `container ${id} is not running`);
      return container.exec(execution);
    },
    async resize(id, size, call) {
      await enter(call);
      find(id).size = size;
    },
    async usage(id, call) {
      await enter(call);
      return find(id).isRunning
        ? { memoryBytes: 1_000_000, cpuNanoseconds: 1, pids: 1 }
        : { memoryBytes: 0, cpuNanoseconds: 0, pids: 0 };
    },
    async diskUse(id, call) {
      await enter(call);
      return { writableBytes: find(id).writtenBytes, writableFiles: 0, volumeBytes: 0 };
    },
    async ensureVolume(name, { labels, ...call } = {}) {
      await enter(call);
      makeVolume(name, labels);
    },
    async listVolumes(call) {
      await enter(call);
      return [...volumes.values()];
    },
    async hasVolume(name, call) {
      await enter(call);
      return volumes.has(name);
    },
    async volumeBytes(name, call) {
      await enter(call);
      if (!volumes.has(name)) throw new FlynnError('not_found', `no volume ${name}`);
      return emptyFolderBytes;
    },
    async removeVolume(name, call) {
      await enter(call);
      if ([...containers.values()].some((c) => c.spec.volumes.some((v) => v.name === name))) {
        throw new FlynnError('conflict', `volume ${name} is in use`);
      }
      volumes.delete(name);
    },
    setAvailable(value) {
      isAvailable = value;
      if (value) return;
      for (const queue of listeners) queue.end(new FlynnError('unavailable', 'the container engine went away'));
      listeners.clear();
    },
    losePower() {
      listeners.clear();
      for (const container of containers.values()) container.signal('SIGKILL');
    },
  };
}
