/** The Engine port on Docker. */
import Docker from 'dockerode';
import { hasCode } from '@flynn/kit/errors';
import { KeyedMutex } from '@flynn/kit/queue';
import { SharedWork } from '@flynn/kit/shared-work';
import type { Image } from '@flynn/scheduler/job-template';
import type { FetchImages } from '../cluster/peer-images.ts';
import type { CallOptions, Container, Engine, EngineInfo, FetchBlob, ImageOptions } from '../engine/engine.ts';
import { buildImage, removeBuildsLeft } from './builds.ts';
import {
  createContainer,
  inspectContainer,
  listContainers,
  listStates,
  removeContainer,
  startContainer,
  stopContainer,
} from './containers.ts';
import { engineInfo } from './engine-info.ts';
import { engineCall } from './errors.ts';
import { ImageDisks, disksAt } from '../images/disks.ts';
import { isLocalName, localNameRefusal, nameNotId } from '../images/names.ts';
import { ImageTurns } from '../images/turns.ts';
import {
  ensureNamedImage,
  exportImages,
  imageEnv,
  imageIfThere,
  listImages,
  prefetchImages,
  removeImage,
} from './images.ts';
import { ensureLoadedImage, loadedTag } from './loading.ts';
import { mendLog, readLogs } from './logs.ts';
import { dockerNetworks } from './networks.ts';
import { ensureStack, stackIfThere } from './stacks.ts';
import { openAttachment, openExec, readEvents } from './streams.ts';
import { DockerUsage } from './usage.ts';
import { ownVolumes } from './volume-owner.ts';
import { dockerVolumes } from './volumes.ts';

export type DockerOptions = {
  socketPath: string;
  cluster: string;
  fetchBlob: FetchBlob;
  /** Where layers are unpacked while a stack is built; emptied afterwards. */
  scratchDir: string;
  onPulled?: (name: string) => void;
  /** Images from elsewhere, asked for before a registry is. */
  fetchImages?: FetchImages;
  /** Images by name that every host is to have: they wait for nobody's. */
  isOfPlatform?: (name: string) => boolean;
  pullSilenceMs?: number;
};

export function connectDocker(options: DockerOptions): Engine {
  const docker = new Docker({ socketPath: options.socketPath });
  let engineDir: string | undefined;
  const disks = new ImageDisks(disksAt(options.scratchDir, async () => (engineDir ??= (await info()).rootDir)));
  const context = { docker, transfers: new KeyedMutex(), builds: new Set<string>(), disks, ...options };
  const wanted = new SharedWork<string>();
  const turns = new ImageTurns();
  const building = new KeyedMutex();
  /** Images found to be there: looking again on every start would cost a call. One that is missed after all makes us forget. */
  const known = new Map<string, string>();
  /** Which containers have a terminal never changes, and decides how their streams are read. */
  const terminals = new Map<string, boolean>();
  /** Containers of ours that certainly have no volumes: nothing has to be looked at before their start. */
  const volumeless = new Set<string>();
  /** Containers of ours that certainly have not run yet. */
  const fresh = new Set<string>();

  const usage = new DockerUsage(context);

  function note(container: Container): Container {
    terminals.set(container.id, container.tty);
    return container;
  }

  async function hasTerminal(id: string, options: CallOptions): Promise<boolean> {
    return terminals.get(id) ?? note(await inspectContainer(context, id, options)).tty;
  }

  const info = (options: CallOptions = {}): Promise<EngineInfo> => engineInfo(context, options);

  async function ensureImage(given: Image, options: ImageOptions = {}): Promise<string> {
    const image = withNamesNotIds(given);
    const name = 'name' in image ? image.name : 'base' in image ? image.base : undefined;
    if (name !== undefined && isLocalName(name, context.cluster)) throw localNameRefusal(name);
    const key = keyOf(image);
    const isOfPlatform = 'name' in image && context.isOfPlatform?.(image.name) === true;
    const group = isOfPlatform ? undefined : options.group;
    // Of each group one by itself: else somebody's would come in the turn of another's.
    const asked = JSON.stringify([group ?? null, key]);
    return known.get(key) ?? (await wanted.run(asked, (signal) => bring(image, key, { group, signal }), options));
  }

  /** What is here waits for nothing that is not. */
  async function bring(
    image: Image,
    key: string,
    options: { group: string | undefined; signal: AbortSignal },
  ): Promise<string> {
    const { signal } = options;
    const there = await refIfThere(image, { signal });
    if (there !== undefined) {
      known.set(key, there);
      return there;
    }
    // In its own turn: no layers wait for a registry.
    if ('base' in image) await ensureImage({ name: image.base }, options);
    return turns.run(image, () => ensureOne(image, { signal }), options);
  }

  async function refIfThere(image: Image, options: CallOptions): Promise<string | undefined> {
    if ('base' in image) return stackIfThere(context, image, options);
    const ref = 'name' in image ? image.name : loadedTag(context.cluster, image);
    return (await imageIfThere(context, ref, options)) === undefined ? undefined : ref;
  }

  /** Whoever has a turn: what is below a stack is made within that of the stack, and may be below others too. */
  function ensureOne(image: Image, options: { signal: AbortSignal }): Promise<string> {
    const key = keyOf(image);
    const ensure = async (): Promise<string> => {
      const ref = known.get(key) ?? (await ensureAny(image, options));
      known.set(key, ref);
      return ref;
    };
    return building.run(key, ensure, options);
  }

  async function ensureAny(image: Image, options: { signal: AbortSignal }): Promise<string> {
    if ('config' in image) return ensureLoadedImage(context, image, options);
    if ('base' in image) return ensureStack(context, image, ensureOne, options);
    await ensureNamedImage(context, image.name, options);
    return image.name;
  }

  return {
    info,
    ...dockerNetworks(context),
    ...dockerVolumes(context),
    ensureImage,
    async imageEnv(ref, options = {}) {
      try {
        return await imageEnv(context, ref, options);
      } catch (error) {
        if (hasCode(error, 'not_found')) known.clear();
        throw error;
      }
    },
    buildImage: (build, options = {}) => buildImage(context, usage, build, options),
    removeBuildsLeft: (options = {}) => removeBuildsLeft(context, options),
    exportImages: (names, options = {}) => exportImages(context, names, options),
    prefetchImages: (names, options = {}) => prefetchImages(context, names, options),
    listImages: (options = {}) => listImages(context, options),
    removeImage(id, options = {}) {
      known.clear();
      return removeImage(context, id, options);
    },
    async create(spec, options = {}) {
      try {
        const id = await createContainer(context, spec, options);
        terminals.set(id, spec.tty);
        if (spec.volumes.length === 0) volumeless.add(id);
        fresh.add(id);
        return id;
      } catch (error) {
        if (hasCode(error, 'not_found')) known.clear();
        throw error;
      }
    },
    async start(id, options = {}) {
      // Not with `create`: a container that an agent made before it died is started by the next one.
      if (!volumeless.has(id)) await ownVolumes(context, id, options);
      if (!fresh.delete(id)) await mendLog(context, id, options);
      await startContainer(context, id, options);
      return note(await inspectContainer(context, id, options));
    },
    stop: (id, options) => stopContainer(context, id, options),
    async signal(id, signal, options = {}) {
      await engineCall(
        `signalling container ${id}`,
        (abortSignal) => {
          const request = { signal, abortSignal };
          return docker.getContainer(id).kill(request);
        },
        options,
      );
    },
    async remove(id, options = {}) {
      await removeContainer(context, id, options);
      terminals.delete(id);
      volumeless.delete(id);
      fresh.delete(id);
      usage.forget(id);
    },
    inspect: (id, options = {}) => inspectContainer(context, id, options),
    states: (options = {}) => listStates(context, options),
    list: async (options = {}) => (await listContainers(context, options)).map(note),
    events: ({ signal }) => readEvents(context, signal),
    async *logs(id, options) {
      yield* readLogs(context, id, await hasTerminal(id, options), options);
    },
    async attach(id, options) {
      return openAttachment(context, id, { ...options, tty: await hasTerminal(id, options) });
    },
    exec: (id, options) => openExec(context, id, options),
    async resize(id, { columns, rows }, options = {}) {
      await engineCall(
        `resizing the terminal of ${id}`,
        (abortSignal) => docker.getContainer(id).resize({ w: columns, h: rows, abortSignal }),
        options,
      );
    },
    usage: (id, options = {}) => usage.usage(id, options),
    diskUse: (id, options = {}) => usage.diskUse(id, options),
    volumeBytes: (name, options = {}) => usage.volumeBytes(name, options),
  };
}

function withNamesNotIds(image: Image): Image {
  if ('name' in image) return { ...image, name: nameNotId(image.name) };
  return 'base' in image ? { ...image, base: nameNotId(image.base) } : image;
}

function keyOf(image: Image): string {
  if ('name' in image) return JSON.stringify(image.name);
  return JSON.stringify(['config' in image ? image.config.digest : image.base, ...image.layers.map((l) => l.digest)]);
}
