/** Holds a build to its limits, and says which one it went over. */
import { execFile } from 'node:child_process';
import { Transform, type TransformCallback } from 'node:stream';
import { promisify } from 'node:util';
import { pause } from '@flynn/kit/clock';
import { FlynnError } from '@flynn/kit/errors';
import { readTextFile } from '@flynn/kit/files';
import { sizeText } from './output.ts';

const run = promisify(execFile);

export type BuildLimits = {
  diskBytes: number;
  timeoutMs: number;
  outputBytes: number;
  cacheBytes: number;
  slugBytes: number;
};

/** Looking takes time where there are many files: at most this share of it. */
const shareOfTime = 0.1;
const leastPauseMs = 2_000;

/** Those that an app may raise for itself. */
const ownNames: Readonly<Record<string, string>> = {
  FLYNN_BUILD_MEMORY: 'memory',
  FLYNN_BUILD_TIMEOUT: 'time',
  FLYNN_BUILD_DISK: 'disk',
};

export function howToRaise(name: string): string {
  const own = ownNames[name];
  const first =
    own === undefined ? '' : `"flynn limit" tells how far the app may raise it: flynn limit build ${own}=…\n`;
  return `${first}Who runs the cluster can raise it: flynn runner env set ${name}=…`;
}

export function tooLong(timeoutMs: number): FlynnError {
  const minutes = timeoutMs < 120_000 ? `${timeoutMs / 1000} s` : `${Math.round(timeoutMs / 60_000)} minutes`;
  return new FlynnError(
    'timeout',
    `The build took longer than its limit of ${minutes} and was stopped.\nDoes something wait for input, or for a service that is not there? ${howToRaise('FLYNN_BUILD_TIMEOUT')}`,
  );
}

export function tooMuchOutput(limitBytes: number): FlynnError {
  return new FlynnError(
    'exhausted',
    `The build printed more than its limit of ${sizeText(limitBytes)} and was stopped.\nMake its tools say less. ${howToRaise('FLYNN_BUILD_OUTPUT')}`,
  );
}

function tooMuchDisk(usedBytes: number, limitBytes: number): FlynnError {
  return new FlynnError(
    'exhausted',
    `The build wrote ${sizeText(usedBytes)} to the disk; its limit is ${sizeText(limitBytes)}.\nIs something large installed or committed that is not needed? ${howToRaise('FLYNN_BUILD_DISK')}`,
  );
}

/** Ends the work with `timeout` or `exhausted` once it takes longer, or the folders have more on the disk, than they may. */
export async function withinLimits<T>(
  { timeoutMs, diskBytes }: Pick<BuildLimits, 'timeoutMs' | 'diskBytes'>,
  dirs: readonly string[],
  signal: AbortSignal,
  work: (limited: AbortSignal) => Promise<T>,
): Promise<T> {
  const ending = new AbortController();
  const timer = setTimeout(() => ending.abort(tooLong(timeoutMs)), timeoutMs);
  const limited = AbortSignal.any([signal, ending.signal]);
  const watching = watchDisk(dirs, diskBytes, limited).catch((error: unknown) => ending.abort(error));
  try {
    return await work(limited);
  } catch (error) {
    limited.throwIfAborted();
    throw error;
  } finally {
    clearTimeout(timer);
    ending.abort();
    await watching;
  }
}

/** `exhausted` once the folders have more on the disk than they may; else resolves when the signal aborts. */
export async function watchDisk(dirs: readonly string[], limitBytes: number, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const begunMs = performance.now();
    const usedBytes = await diskUse(dirs, signal);
    if (usedBytes > limitBytes) throw tooMuchDisk(usedBytes, limitBytes);
    await pause(Math.max(leastPauseMs, (performance.now() - begunMs) / shareOfTime), signal);
  }
}

/** Files that come and go while they are counted are no failure. */
async function diskUse(dirs: readonly string[], signal: AbortSignal): Promise<number> {
  try {
    return totalOf((await run('du', ['-sxB1', '--total', ...dirs], { signal, maxBuffer: 1024 ** 2 })).stdout);
  } catch (error) {
    const said = error instanceof Error && 'stdout' in error && typeof error.stdout === 'string' ? error.stdout : '';
    return totalOf(said);
  }
}

function totalOf(text: string): number {
  return Number(/^(\d+)\ttotal$/m.exec(text)?.[1] ?? 0);
}

/** Passes bytes on until there are more than there may be: then the stream fails with that error. */
export function limitBytes(limit: number, error: () => FlynnError): Transform {
  let seen = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback) {
      seen += chunk.length;
      if (seen > limit) done(error());
      else done(null, chunk);
    },
  });
}

export function slugTooLarge(limit: number): FlynnError {
  return new FlynnError(
    'exhausted',
    `The slug is larger than its limit of ${sizeText(limit)}.\nKeep what does not run out of it with a .slugignore. ${howToRaise('FLYNN_SLUG_SIZE')}`,
  );
}

export function imageTooLarge(limit: number): FlynnError {
  return new FlynnError(
    'exhausted',
    `The image is larger than its limit of ${sizeText(limit)}.\nBuild in one stage and copy what runs into another. ${howToRaise('FLYNN_SLUG_SIZE')}`,
  );
}

/** Its layers are laid on the disk to be packed: of one that could run nowhere not all is. */
export function imageBeyondHosts(limit: number): FlynnError {
  return new FlynnError(
    'exhausted',
    `The image has more than ${sizeText(limit)} unpacked, with that of its base, and no host takes so much.\nBuild in one stage and copy what runs into another.`,
  );
}

export function cacheTooLarge(limit: number): FlynnError {
  return new FlynnError('exhausted', `it is larger than its limit of ${sizeText(limit)}, and was forgotten`);
}

/** Files of this container's control group, of either version, that count how often a limit was met; and the limits. */
const counters = {
  memory: {
    events: ['memory.events', 'memory/memory.oom_control'],
    pattern: /^oom_kill (\d+)$/m,
    limit: ['memory.max', 'memory/memory.limit_in_bytes'],
  },
  processes: {
    events: ['pids.events', 'pids/pids.events'],
    pattern: /^max (\d+)$/m,
    limit: ['pids.max', 'pids/pids.max'],
  },
} as const;

/** Which limit of its container the build met: undefined if none, or if that cannot be seen. */
export async function limitMet(root = '/sys/fs/cgroup'): Promise<string | undefined> {
  const memory = await met(root, counters.memory);
  if (memory !== undefined) {
    return `The build needed more memory than its limit of ${sizeText(memory)}: a process of it was ended.\n${howToRaise('FLYNN_BUILD_MEMORY')}`;
  }
  const processes = await met(root, counters.processes);
  if (processes === undefined) return undefined;
  return `The build started more processes than its limit of ${processes}.\nHave its tools do less at once. ${howToRaise('FLYNN_BUILD_PIDS')}`;
}

async function met(root: string, counter: (typeof counters)[keyof typeof counters]): Promise<number | undefined> {
  const events = await firstOf(root, counter.events);
  if (Number(counter.pattern.exec(events)?.[1] ?? 0) === 0) return undefined;
  return Number((await firstOf(root, counter.limit)).trim());
}

async function firstOf(root: string, names: readonly string[]): Promise<string> {
  for (const name of names) {
    const text = await readTextFile(`${root}/${name}`);
    if (text !== undefined) return text;
  }
  return '';
}
