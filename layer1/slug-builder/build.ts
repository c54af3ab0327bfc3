/**
 * The whole of a build: source blob in, slug layers and a result out.
 *
 * INVARIANT: this process holds the cluster's key, so it never reads or writes a file that the app's code may have made;
 * it passes bytes between the blob store and steps that run as the app's user.
 */
import { chown, mkdir, rm } from 'node:fs/promises';
import { Readable, pipeline } from 'node:stream';
import type { BlobClient } from '@flynn/blobstore/client';
import { maxRecordBytes } from '@flynn/controller/images/build-record';
import { type BuildResult, buildResultSchema } from '@flynn/controller/model';
import { fromZstd, toZstd } from '@flynn/kit/compression';
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import { retry } from '@flynn/kit/retry';
import { z } from 'zod';
import type { Layout } from './buildpack.ts';
import { slugPlanSchema } from './compile.ts';
import { type BuildLimits, cacheTooLarge, limitBytes, slugTooLarge, withinLimits } from './limits.ts';
import { type Output, sizeText } from './output.ts';
import { slugDir } from './runtime-env.ts';
import { type Step, StepFailure, appUserId, runStep, streamStep } from './user.ts';

export type BuildJob = {
  operationId: string;
  sourceDigest: string;
  commit: string;
  appId: string;
  appEnv: Readonly<Record<string, string>>;
};

export type BuildDeps = {
  blobs: BlobClient;
  layout: Layout;
  /** Runs a step of main.ts: the program and its first arguments. */
  self: readonly [string, ...string[]];
  env: Readonly<Record<string, string>>;
  out: Output;
  nowMs: number;
  limits: BuildLimits;
  /** How long the end of a build may wait for its cache to be stored, beyond its limit too. */
  keepCacheMs?: number;
};

/** Longer than it takes the blob store to be replaced. */
const awayMs = 60_000;
/** Who waits for a build waits for the storing of its cache, too. */
const keepCacheMs = 60_000;

type Layer = { digest: string; sizeBytes: number };

/** What `unpack` and `compile` are told on their input. */
export const compileInputSchema = z.object({
  layout: z.object({
    appDir: z.string(),
    cacheDir: z.string(),
    envDir: z.string(),
    runtimeDir: z.string(),
    scratchDir: z.string(),
  }),
  appEnv: z.record(z.string(), z.string()),
  nowMs: z.number(),
  outputBytes: z.int().positive(),
});

/** What `unpack` answers, before anything of the app has run. */
export const unpackedSchema = z.object({ timeS: z.int().nonnegative() });

/** What a compile that failed answers, where the cache has something new that is good all the same. */
export const keptCache = { isCacheChanged: true };

type MakeStep = (...command: readonly [string, ...string[]]) => Step;

function stepsOf({ layout, env, limits }: BuildDeps, signal: AbortSignal): MakeStep {
  return (...command) => ({ command, cwd: layout.scratchDir, env, signal, fileBytes: limits.diskBytes });
}

const cacheNotStored = 'The build cache could not be stored, so the next build will take longer';

const layersSchema = z.record(z.string(), z.object({ digest: z.string(), sizeBytes: z.int() }));

/**
 * Idempotent: asked again for the same operation it makes the same names point to the new result. `timeout` or `exhausted`
 * when the build goes over a limit.
 */
export async function build(job: BuildJob, deps: BuildDeps, signal: AbortSignal): Promise<BuildResult> {
  const { limits, layout } = deps;
  const dirs = [...Object.values(layout), ...(layout.appDir === slugDir ? ['/tmp', '/var/tmp', '/dev/shm'] : [])];
  const begunMs = performance.now();
  let built: Built;
  try {
    built = await withinLimits(limits, dirs, signal, (limited) => buildWithin(job, deps, limited));
  } catch (error) {
    // What was installed is good: the next push, with what was wrong put right, need not fetch it again.
    if (error instanceof StepFailure && error.answer === JSON.stringify(keptCache)) await keepCache(job, deps, signal);
    throw error;
  }
  const leftMs = limits.timeoutMs - (performance.now() - begunMs);
  if (built.isCacheChanged) await keepCache(job, deps, signal, leftMs);
  signal.throwIfAborted();
  return built.result;
}

/**
 * After the build's limits, which would be told in the place of why it failed, or of its result: no failure, and never for long,
 * but for as long as a build that succeeded has left.
 */
async function keepCache(job: BuildJob, deps: BuildDeps, signal: AbortSignal, leftMs = 0): Promise<void> {
  const mostMs = Math.max(Math.ceil(leftMs), deps.keepCacheMs ?? keepCacheMs);
  const limited = AbortSignal.any([signal, AbortSignal.timeout(mostMs)]);
  await storeCache(job, deps, limited).catch((error: unknown) => {
    if (!signal.aborted) deps.out.warn(`${cacheNotStored}: ${messageOf(error)}`);
  });
}

type Built = { result: BuildResult; isCacheChanged: boolean };

async function buildWithin(job: BuildJob, deps: BuildDeps, signal: AbortSignal): Promise<Built> {
  const { blobs, layout, self, out, nowMs, limits } = deps;
  const step = stepsOf(deps, signal);

  for (const dir of Object.values(layout)) {
    await mkdir(dir, { recursive: true });
    if (process.getuid?.() === 0) await chown(dir, appUserId, appUserId);
  }
  const source = await blobs.get(job.sourceDigest, { signal });
  const unpacked = Promise.all([
    runStep(step(...self, 'unpack', layout.appDir), source),
    restoreCache(job, deps, step('tar', '-xf', '-', '-C', layout.cacheDir), signal),
  ]);
  const input: z.input<typeof compileInputSchema> = {
    layout,
    appEnv: job.appEnv,
    nowMs,
    outputBytes: limits.outputBytes,
  };
  // Loads meanwhile, and begins when it is told.
  const compiling = runStep(step(...self, 'compile'), Readable.from(after(unpacked, JSON.stringify(input))), {
    bytes: maxRecordBytes,
    error: recordTooLarge,
  });
  const [known, answer, [told]] = await Promise.all([readLayers(job.appId, blobs, signal), compiling, unpacked]);
  const plan = slugPlanSchema.parse(JSON.parse(answer));

  const runtimes: Record<string, Layer> = {};
  let roomBytes = limits.slugBytes;
  const within = (): Limit => ({ bytes: roomBytes, error: () => slugTooLarge(limits.slugBytes) });
  for (const name of plan.runtimes) {
    const pack = step(...tar(layout.runtimeDir, 's,^,opt/flynn/,S', name));
    const layer = (await stillThere(known[name], blobs, signal)) ?? (await store(pack, 3, blobs, signal, within()));
    runtimes[name] = layer;
    roomBytes -= layer.sizeBytes;
  }
  // Web servers tell by a file's time whether a browser has it already.
  const { timeS } = unpackedSchema.parse(JSON.parse(told));
  const pack = step(...tar(layout.appDir, String.raw`s,^\.,app,S`, '.', timeS));
  const app = await store(pack, 3, blobs, signal, within());
  const layers = [...Object.values(runtimes), app];
  const result = buildResultSchema.parse({
    layers,
    sizeBytes: layers.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
    processTypes: plan.processTypes,
    buildpack: plan.buildpack,
    ...(plan.appJson === undefined ? {} : { appJson: plan.appJson }),
    meta: job.commit === '' ? {} : { 'git.commit': job.commit },
  });
  await putRecord(`builds/${job.operationId}`, result, blobs, signal);
  out.topic(`Compiled slug size is ${sizeText(result.sizeBytes)}`);

  try {
    if (plan.runtimes.some((name) => known[name]?.digest !== runtimes[name]?.digest)) {
      await putRecord(`layers/${job.appId}`, runtimes, blobs, signal);
    }
  } catch (error) {
    if (signal.aborted) throw error;
    out.warn(`${cacheNotStored}: ${messageOf(error)}`);
  }
  return { result, isCacheChanged: plan.isCacheChanged };
}

/** What cannot be stored only costs time. */
async function storeCache(job: BuildJob, deps: BuildDeps, signal: AbortSignal): Promise<void> {
  const { blobs, layout, limits, out } = deps;
  const step = stepsOf(deps, signal);
  try {
    const within = { bytes: limits.cacheBytes, error: () => cacheTooLarge(limits.cacheBytes) };
    const pack = step(...tar(layout.cacheDir, String.raw`s,^\.,.,S`, '.'));
    const cache = await store(pack, 1, blobs, signal, within);
    await blobs.putName(`cache/${job.appId}`, cache.digest, { signal });
  } catch (error) {
    if (signal.aborted) throw error;
    if (hasCode(error, 'exhausted')) await blobs.removeName(`cache/${job.appId}`, { signal });
    out.warn(`${cacheNotStored}: ${messageOf(error)}`);
  }
}

/** Sorted, with one time and one owner: the same files are the same bytes, and so the same blob. */
function tar(dir: string, rename: string, member: string, timeS = 0): [string, ...string[]] {
  const sameBytes = ['--format=gnu', '--sort=name', `--mtime=@${timeS}`, '--numeric-owner', '--hard-dereference'];
  const owner = [`--owner=${appUserId}`, `--group=${appUserId}`];
  return ['tar', '-C', dir, ...sameBytes, ...owner, `--transform=${rename}`, '-cf', '-', '--', member];
}

async function* after(ready: Promise<unknown>, text: string): AsyncGenerator<string> {
  await ready;
  yield text;
}

type Limit = { bytes: number; error: () => FlynnError };

/** Packs again when an upload breaks. Nothing is left of what is larger than it may be. */
async function store(pack: Step, level: number, blobs: BlobClient, signal: AbortSignal, limit: Limit): Promise<Layer> {
  let exceeded: FlynnError | undefined;
  const storing = retry(
    async (limited) => {
      const compressed = pipeline(
        Readable.from(inBlocks(streamStep({ ...pack, signal: limited }))),
        toZstd(level),
        limitBytes(limit.bytes, () => (exceeded = limit.error())),
        () => {
          // The upload reads the failure from the stream.
        },
      );
      return blobs.put(compressed, { signal: limited });
    },
    {
      what: 'storing the slug',
      signal,
      deadlineMs: 15 * 60_000,
      isRetryable: (error) => exceeded === undefined && isAway(error),
    },
  );
  return storing.catch((error: unknown) => {
    throw exceeded ?? error;
  });
}

const blockBytes = 128 * 1024;

/**
 * The same bytes in blocks of the same size. How a pipe happens to cut them differs from run to run, and zstd's output
 * depends on it; the same files would be another blob.
 */
export async function* inBlocks(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let block = Buffer.allocUnsafe(blockBytes);
  let used = 0;
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length;) {
      const copied = chunk.copy(block, used, at);
      at += copied;
      used += copied;
      if (used < blockBytes) continue;
      yield block;
      block = Buffer.allocUnsafe(blockBytes);
      used = 0;
    }
  }
  if (used > 0) yield block.subarray(0, used);
}

/** A cache that cannot be had only costs time. */
async function restoreCache(job: BuildJob, deps: BuildDeps, unpack: Step, signal: AbortSignal): Promise<void> {
  const { blobs, out, layout } = deps;
  try {
    const cache = await blobs.getName(`cache/${job.appId}`, { signal });
    if (cache === undefined) return;
    const packed = await blobs.get(cache.digest, { signal });
    const bytes = pipeline(packed, fromZstd(), () => {
      // The step reads the failure from the stream.
    });
    await runStep(unpack, bytes);
  } catch (error) {
    if (signal.aborted) throw error;
    await rm(layout.cacheDir, { recursive: true, force: true });
    await mkdir(layout.cacheDir, { recursive: true });
    if (process.getuid?.() === 0) await chown(layout.cacheDir, appUserId, appUserId);
    out.warn(`The build cache could not be restored, so this build takes longer: ${messageOf(error)}`);
  }
}

/**
 * Layers of the app's build before. Kept apart from the cache, which the app's code can write; like it they only save time,
 * so what cannot be read is as if there were none.
 */
export async function readLayers(
  appId: string,
  blobs: BlobClient,
  signal: AbortSignal,
): Promise<Record<string, Layer>> {
  try {
    const named = await blobs.getName(`layers/${appId}`, { signal });
    if (named === undefined) return {};
    const chunks = await (await blobs.get(named.digest, { signal })).toArray();
    return layersSchema.parse(JSON.parse(Buffer.concat(chunks).toString()));
  } catch (error) {
    if (signal.aborted) throw error;
    // They are packed and stored again: the same bytes, the same blobs.
    return {};
  }
}

async function stillThere(
  layer: Layer | undefined,
  blobs: BlobClient,
  signal: AbortSignal,
): Promise<Layer | undefined> {
  if (layer === undefined) return undefined;
  try {
    return await blobs.stat(layer.digest, { signal });
  } catch (error) {
    if (hasCode(error, 'not_found')) return undefined;
    throw error;
  }
}

/** Under that name, whatever had it before. */
export async function putRecord(name: string, value: unknown, blobs: BlobClient, signal: AbortSignal): Promise<void> {
  const text = JSON.stringify(value);
  if (Buffer.byteLength(text) > maxRecordBytes) throw recordTooLarge();
  const put = async (limited: AbortSignal): Promise<void> => {
    const { digest } = await blobs.put(text, { signal: limited });
    await blobs.putName(name, digest, { signal: limited });
  };
  await retry(put, { what: 'storing the result', signal, deadlineMs: awayMs, isRetryable: isAway });
}

function recordTooLarge(): FlynnError {
  return new FlynnError(
    'invalid',
    `what the app says of itself is more than ${maxRecordBytes / 2 ** 20} MiB: shorten its Procfile, its app.json, or the commands and labels of its image`,
  );
}

/** A blob store that is being replaced. */
export function isAway(error: unknown): boolean {
  return hasCode(error, 'unavailable', 'timeout');
}

/** For people: what a step did not tell itself. */
export function failureText(error: unknown): string {
  if (error instanceof FlynnError && error.code === 'internal') return `The builder failed: ${error.message}`;
  return messageOf(error);
}
