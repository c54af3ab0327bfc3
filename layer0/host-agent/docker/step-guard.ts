/** The containers of a build's steps, which the engine makes by itself: they are held to what a build may take. */
import type Docker from 'dockerode';
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import { pause, systemClock } from '@flynn/kit/clock';
import { LineSplitter } from '@flynn/kit/lines';
import { z } from 'zod';
import type { CallOptions, ImageBuild } from '../engine/engine.ts';
import type { DockerContext } from './containers.ts';
import { engineCall } from './errors.ts';
import type { DockerUsage } from './usage.ts';

const diskLookMs = 2_000;

const engineEvent = z.object({
  Action: z.string(),
  Actor: z.object({
    ID: z.string(),
    Attributes: z.object({ name: z.string().optional(), container: z.string().optional() }),
  }),
});

export type StepUsage = Pick<DockerUsage, 'besideBytes' | 'forget'>;

/** Looks after the containers of one build's steps while it goes on. */
export class StepGuard {
  readonly #context: DockerContext;
  readonly #network: string;
  readonly #usage: StepUsage;
  readonly #limits: ImageBuild['limits'];
  readonly #listening = Promise.withResolvers<void>();
  /** Rejects when a step runs without its limit of processes. */
  readonly #unlimited = Promise.withResolvers<never>();
  readonly #ids = new Set<string>();
  readonly #outOfMemory = Promise.withResolvers<void>();
  wasOutOfMemory = false;

  constructor(context: DockerContext, network: string, usage: StepUsage, { limits }: ImageBuild) {
    this.#context = context;
    this.#network = network;
    this.#usage = usage;
    this.#limits = limits;
  }

  /** A step that starts before would have no limit of processes. */
  get isListening(): Promise<void> {
    return this.#listening.promise;
  }

  /** Resolves once it is. */
  get outOfMemory(): Promise<void> {
    return this.#outOfMemory.promise;
  }

  /** Until the signal aborts; throws `exhausted` when the steps have written too much. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.race([Promise.all([this.#follow(signal), this.#measure(signal)]), this.#unlimited.promise]);
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const filters = JSON.stringify({ type: ['container', 'network'], event: ['connect', 'start', 'oom'] });
    // The engine answers a moment before it subscribes. What it says of another build of that name is not looked back at.
    const since = systemClock.now() / 1_000;
    try {
      const request = { filters, since, abortSignal: signal };
      const stream = await this.#context.docker.getEvents(request);
      this.#listening.resolve();
      const lines = new LineSplitter({ maxBytes: 1024 ** 2 });
      for await (const chunk of stream) {
        for (const line of lines.push(Buffer.from(chunk))) if (line.trim() !== '') this.#take(line, signal);
      }
    } catch (error) {
      if (signal.aborted) return;
      this.#listening.resolve();
      throw new FlynnError('unavailable', `the engine cannot be followed while it builds: ${messageOf(error)}`);
    }
  }

  /** A container is in its network before it starts. Nothing is waited for: the next line may say that memory ran out. */
  #take(line: string, signal: AbortSignal): void {
    const { Action, Actor } = engineEvent.parse(JSON.parse(line));
    if (Action === 'connect') {
      const { name, container } = Actor.Attributes;
      if (name === this.#network && container !== undefined) this.#ids.add(container);
    } else if (this.#ids.has(Actor.ID)) {
      if (Action === 'oom') {
        this.wasOutOfMemory = true;
        this.#outOfMemory.resolve();
      } else this.#limit(Actor.ID, signal).catch(this.#unlimited.reject);
    }
  }

  async #limit(id: string, signal: AbortSignal): Promise<void> {
    const container = this.#context.docker.getContainer(id);
    const request = { PidsLimit: this.#limits.pids };
    try {
      await engineCall('limiting a step', (abortSignal) => container.update({ ...request, abortSignal }), { signal });
    } catch (error) {
      // It has ended.
      if (!hasCode(error, 'not_found', 'conflict', 'internal', 'cancelled')) throw error;
    }
  }

  async #measure(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await pause(diskLookMs, signal);
      if (signal.aborted) return;
      const rows = await stepContainers(this.#context, this.#network, { signal, size: true });
      const written = rows.reduce((sum, row) => sum + ('SizeRw' in row ? Number(row.SizeRw ?? 0) : 0), 0);
      const beside = await besideOf(
        this.#usage,
        rows.map(({ Id }) => Id),
        { signal },
      );
      const bytes = written + beside;
      if (bytes <= this.#limits.diskBytes) continue;
      const size = (value: number): string => `${Math.round(value / 1024 ** 2)} MB`;
      throw new FlynnError(
        'exhausted',
        `a step of the build wrote ${size(bytes)} to the disk; the limit is ${size(this.#limits.diskBytes)}`,
      );
    }
  }
}

/** What steps have in volumes, as VOLUME gives them, and in files of the engine's: their own sizes say nothing of it. */
async function besideOf(usage: StepUsage, ids: readonly string[], options: CallOptions): Promise<number> {
  let bytes = 0;
  for (const id of ids) {
    try {
      bytes += await usage.besideBytes(id, options);
    } catch (error) {
      // It has ended, or has more files than can be counted in time: its own size still holds it.
      if (!hasCode(error, 'not_found', 'conflict', 'timeout')) throw error;
    } finally {
      usage.forget(id);
    }
  }
  return bytes;
}

export async function stepContainers(
  { docker }: DockerContext,
  network: string,
  { size = false, ...options }: CallOptions & { size?: boolean },
): Promise<Docker.ContainerInfo[]> {
  const rows = await engineCall(
    'listing the steps of a build',
    (abortSignal) => docker.listContainers({ all: true, size, filters: { network: [network] }, abortSignal }),
    options,
  );
  return rows.filter((row) => row.HostConfig.NetworkMode === network);
}
