/**
 * A build of a repository with a Dockerfile: the engine of this host builds it, at the host agent's hands, and what comes
 * out is stored as an image.
 *
 * INVARIANT: this process holds the cluster's key. Of the repository it reads texts and hands bytes on; it lays nothing of it
 * on the disk (of submodules a step does, as the app's user), and nothing of it runs here.
 */
import { createHash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream';
import { text } from 'node:stream/consumers';
import type { BlobClient } from '@flynn/blobstore/client';
import { parseAppJson } from '@flynn/controller/apps/app-json';
import { layers as layerRoutes } from '@flynn/controller/collection/api-layers';
import { Archive } from '@flynn/controller/images/archive';
import { readArchivedImage } from '@flynn/controller/images/archived-image';
import {
  type ImageConfig,
  commandOf,
  hasCommand,
  parseJsonAs,
  startsPrompt,
} from '@flynn/controller/images/image-config';
import { resultOf } from '@flynn/controller/images/image-result';
import { type StoredImage, storeImage } from '@flynn/controller/images/stored-image';
import { type BuildResult, buildResultSchema } from '@flynn/controller/model';
import { routes } from '@flynn/host-agent/api';
import { imageLimits } from '@flynn/host-agent/images/room';
import { type BuildEvent, buildEventSchema, buildRoutes } from '@flynn/host-agent/builds/api';
import { FlynnError, asFlynnError, ifFound } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { LineSplitter } from '@flynn/kit/lines';
import { retry } from '@flynn/kit/retry';
import type { Image } from '@flynn/scheduler/job-template';
import { type BuildJob, isAway, putRecord, readLayers } from './build.ts';
import type { BuildWords } from './build-words.ts';
import { type SourceTexts, packContext, readTexts, usualDockerfile } from './build-context.ts';
import { proxiesOf } from './added-addresses.ts';
import { type SubmodulesDeps, layOutSubmodules } from './context-submodules.ts';
import { withoutBuildKit } from './buildkit.ts';
import { type Staged, basesOfCopies, withCopyStages } from './copy-stages.ts';
import { argsOf, basesOf, ownImagesOf, platformArgs, saysCommand, withImages, withPlainBases } from './dockerfile.ts';
import { givenEnv } from './environment.ts';
import { withPlaces } from './heredocs.ts';
import {
  type BuildLimits,
  howToRaise,
  imageBeyondHosts,
  imageTooLarge,
  limitBytes,
  tooMuchOutput,
  withinLimits,
} from './limits.ts';
import { pointerWarning } from './lfs-pointers.ts';
import { type Output, sizeText } from './output.ts';
import { OutOfReach, withoutRegistry } from './out-of-reach.ts';
import { markOf, withoutMark } from './own-cache.ts';
import { parseProcfile } from './procfile.ts';

export type ImageBuildJob = BuildJob & {
  /** Its path in the source, which is the context. */
  dockerfile: string;
};

export type ImageBuildDeps = {
  blobs: BlobClient;
  /** This host's. */
  agent: HttpClient;
  /** Says what the build may be made of. */
  controller: HttpClient;
  out: Output;
  limits: BuildLimits & {
    memoryBytes: number;
    pids: number;
    /** Of all of the image, unpacked. Default: what hosts take. */
    imageBytes?: number;
  };
  steps: SubmodulesDeps;
  /** The app's, and nobody's to guess: what earlier builds left on the host is called by it. */
  cache: string;
  /** What the platform's images are called on this cluster. */
  ownImages: Readonly<Record<string, string | undefined>>;
};

/** Running apps come first. */
const cpuMillis = 100;
/** Longer than it takes the controller or the blob store to be replaced. */
const awayMs = 60_000;
/** All of a source, which may be gigabytes. */
const sourceMs = 15 * 60_000;
const maxEventBytes = 64 * 1024;

/** Idempotent: asked again for the same operation it makes the same name point to the new result. */
export async function buildImage(job: ImageBuildJob, deps: ImageBuildDeps, signal: AbortSignal): Promise<BuildResult> {
  const { appDir, scratchDir } = deps.steps.layout;
  return withinLimits(deps.limits, [appDir, scratchDir], signal, (limited) => buildWithin(job, deps, limited));
}

async function buildWithin(job: ImageBuildJob, deps: ImageBuildDeps, signal: AbortSignal): Promise<BuildResult> {
  const { blobs, out } = deps;
  const read = async (limited: AbortSignal) =>
    readTexts(await blobs.get(job.sourceDigest, { signal: limited }), job.dockerfile);
  const source = await retry(read, { what: 'reading the source', signal, deadlineMs: sourceMs, isRetryable: isAway });
  if (source.dockerfile === undefined) throw new FlynnError('invalid', `There is no ${job.dockerfile} in the source.`);
  const processTypes = source.procfile === undefined ? {} : parseProcfile(source.procfile);
  const appJson = source.appJson === undefined ? undefined : parseAppJson(source.appJson);
  const understood = withoutBuildKit(source.dockerfile);
  out.topic(`Dockerfile app detected${job.dockerfile === usualDockerfile ? '' : `: ${job.dockerfile}`}`);
  for (const note of understood.notes) out.line(note);
  const warning = pointerWarning(source.pointers);
  if (warning !== undefined) out.warn(warning);
  const args = argsOf(understood.dockerfile, { ...platformArgs(), ...givenEnv(deps.steps.env), ...job.appEnv });
  const plain = withPlainBases(understood.dockerfile, args);
  const { documents } = understood;
  const bases = await envsOf(basesOfCopies(plain, documents), job, deps, signal);
  const fetching = { build: buildIdOf(job), proxies: proxiesOf(deps.steps.env) };
  const staged = withCopyStages(plain, { documents, args, bases, fetching, mark: markOf(deps.cache) });
  for (const note of staged.notes) out.line(note);
  const names = await namesHere(job, staged.dockerfile, deps, signal);
  const dockerfile = withImages(staged.dockerfile, names);
  const begun = basesOf(staged.dockerfile).filter(({ name }) => !names.has(name));
  await bringBases(begun, deps, signal);
  const contextDigest = await storeContext(job, { ...source, dockerfile }, deps, signal);
  out.topic('Building image');
  const name = await buildOnHost(job, { contextDigest, args, bases: begun, plain, staged }, deps, signal);

  out.topic('Storing image');
  const { image, stored } = await storeBuilt(job, name, deps, signal);
  const isOfBase = !saysCommand(plain) && namesTypes(processTypes);
  const isCommandMeant = !isOfBase || !startsPrompt(image.config);
  if (isOfBase && processTypes['web'] === undefined && hasCommand(image.config)) out.line(webOfBase(image.config));
  const hint = 'give the Dockerfile a CMD, or commit a Procfile';
  const result = buildResultSchema.parse({
    ...resultOf(image, stored, processTypes, { hint, isCommandMeant }),
    buildpack: 'dockerfile',
    ...(appJson === undefined ? {} : { appJson }),
    meta: job.commit === '' ? {} : { 'git.commit': job.commit },
  });
  await putRecord(`builds/${job.operationId}`, result, blobs, signal);
  out.topic(`Image size is ${sizeText(result.sizeBytes)}`);
  return result;
}

/** `release` is a step of deployments, and no type. */
function namesTypes(processTypes: Readonly<Record<string, string>>): boolean {
  return Object.keys(processTypes).some((type) => type !== 'release');
}

const mostOfCommand = 200;

/** What becomes of the command that the base has, where neither the Dockerfile nor the Procfile says what web is. */
function webOfBase(config: ImageConfig): string {
  const whole = commandOf(config).join(' ').replace(/\s+/g, ' ');
  const command = whole.length > mostOfCommand ? `${whole.slice(0, mostOfCommand)}…` : whole;
  return startsPrompt(config)
    ? `There is no web: the Procfile names none, and "${command}", which the base starts, ends at once without a terminal. If there is to be one, give the Dockerfile a CMD or the Procfile a line "web: COMMAND"`
    : `web is what the base starts: "${command}". If it is to be another, give the Dockerfile a CMD or the Procfile a line "web: COMMAND"`;
}

/** What the engine is given to build of: packed again when an upload breaks. */
async function storeContext(
  job: ImageBuildJob,
  { dockerfile, dockerignore, told, modules }: SourceTexts,
  { blobs, steps, limits }: ImageBuildDeps,
  signal: AbortSignal,
): Promise<string> {
  const ofStep = { fileBytes: limits.diskBytes, signal };
  const submodules =
    told === undefined ? undefined : await layOutSubmodules({ told, modules }, job.appEnv, steps, ofStep);
  const put = async (limited: AbortSignal): Promise<string> => {
    const source = await blobs.get(job.sourceDigest, { signal: limited });
    const archives = submodules === undefined ? [source] : [source, submodules(limited)];
    return (
      await blobs.put(packContext(archives, { dockerfile, dockerignore, path: job.dockerfile }), { signal: limited })
    ).digest;
  };
  return retry(put, { what: 'storing the source', signal, deadlineMs: sourceMs, isRetryable: isAway });
}

async function namesHere(
  job: BuildJob,
  dockerfile: string,
  deps: ImageBuildDeps,
  signal: AbortSignal,
): Promise<Map<string, string>> {
  const names = new Map<string, string>();
  for (const name of ownImagesOf(dockerfile)) {
    const image = await imageNamed(name, job, deps, signal);
    if (image === undefined) continue;
    names.set(name, (await ensureImage(image, deps, signal)).name);
  }
  return names;
}

async function ensureImage(image: Image, { agent }: ImageBuildDeps, signal: AbortSignal) {
  try {
    return await agent.call(buildRoutes.ensureImage, { body: { image } }, { signal, timeoutMs: 15 * 60_000 });
  } catch (error) {
    const { code, message } = asFlynnError(error);
    const hint =
      code === 'not_found' && 'name' in image ? withoutRegistry(message, `Step 1/1 : FROM ${image.name}`) : '';
    if (hint === '') throw error;
    throw new FlynnError(code, message + hint, { cause: error });
  }
}

/** What comes of another platform the agent brings itself. */
async function bringBases(bases: Asked['bases'], deps: ImageBuildDeps, signal: AbortSignal): Promise<void> {
  const own = platformArgs()['TARGETPLATFORM'];
  for (const { name, platform = own } of bases) if (platform === own) await ensureImage({ name }, deps, signal);
}

/** Of images, by the names that FROM has for them: as far as the host's agent tells. */
async function envsOf(
  names: readonly string[],
  job: BuildJob,
  deps: ImageBuildDeps,
  signal: AbortSignal,
): Promise<Map<string, Record<string, string>>> {
  const envs = new Map<string, Record<string, string>>();
  for (const name of names) {
    const image = (await imageNamed(name, job, deps, signal)) ?? { name };
    const { env } = await ensureImage(image, deps, signal);
    if (env !== undefined) envs.set(name, env);
  }
  return envs;
}

/**
 * Undefined for one that has to be in a registry, as any other. A number is a digest of what anybody may have written: who
 * asked for the build has to have a right to it, and to each layer it names.
 */
async function imageNamed(
  name: string,
  job: BuildJob,
  { blobs, ownImages, controller }: ImageBuildDeps,
  signal: AbortSignal,
): Promise<Image | undefined> {
  const own = ownImages[name];
  if (own !== undefined) return { name: own };
  const hex = /^flynn\/image:([0-9a-f]{64})$/.exec(name)?.[1];
  if (hex === undefined) return undefined;
  const mayHave = async (digests: string[]): Promise<boolean> => {
    const asked = { params: { operation: job.operationId }, query: { digests: digests.join(',') } };
    const ask = (limited: AbortSignal) => controller.call(layerRoutes.missing, asked, { signal: limited });
    const { missing } = await retry(ask, { what: `asking for ${name}`, deadlineMs: awayMs, signal });
    return missing.length === 0;
  };
  const number = `sha256:${hex}`;
  if (!(await mayHave([number]))) throw noImage(name);
  const record = await ifFound(blobs.get(number, { signal }));
  if (record === undefined) throw noImage(name);
  const { image, layers } = parseJsonAs(buildResultSchema, await text(record), name);
  if (image === undefined) throw new FlynnError('invalid', `${name} is no image, but a slug.`);
  if (!(await mayHave([image.config, ...layers].map(({ digest }) => digest)))) throw noImage(name);
  return { config: image.config, layers };
}

/** Nobody learns what is there of others. */
function noImage(name: string): FlynnError {
  return new FlynnError(
    'invalid',
    `The cluster has no image ${name} that you brought today, or that an app has which you are a developer of: "flynn image push" stores one and says its number.`,
  );
}

type Asked = {
  contextDigest: string;
  args: Record<string, string>;
  bases: ReturnType<typeof basesOf>;
  /** As people know it, and as the engine has it. */
  plain: string;
  staged: Staged;
};

function buildIdOf({ operationId }: BuildJob): string {
  return createHash('sha256').update(operationId).digest('hex').slice(0, 24);
}

async function buildOnHost(
  job: ImageBuildJob,
  { contextDigest, args, bases, plain, staged }: Asked,
  { agent, out, limits, cache, steps }: ImageBuildDeps,
  signal: AbortSignal,
): Promise<string> {
  const build = buildIdOf(job);
  const { memoryBytes, pids, diskBytes } = limits;
  const body = {
    contextDigest,
    args,
    dockerfile: job.dockerfile,
    bases,
    cache,
    limits: { memoryBytes, cpuMillis, pids, diskBytes },
  };
  const events = await agent.stream(buildRoutes.build, { params: { build }, body }, { signal });
  const words = staged.words();
  const reach = new OutOfReach();
  let step = '';
  const splitter = new LineSplitter({ maxBytes: maxEventBytes });
  let printedBytes = 0;
  for await (const chunk of events) {
    for (const line of splitter.push(chunk)) {
      const event = buildEventSchema.parse(JSON.parse(line));
      if ('image' in event) return event.image;
      if ('error' in event) {
        const failure = failureOf(event.error, { plain, words });
        const { code, message } = failure;
        if (code === 'exhausted') throw failure;
        reach.hear(message);
        // What the host's engine fetches does not go by the proxies of builds.
        const hint = withoutRegistry(message, step) || reach.hint(steps.env);
        throw new FlynnError(code, message + hint);
      }
      const told = words.told(event.line);
      if (told === undefined) continue;
      reach.hear(told);
      if (told.startsWith('Step ')) step = told;
      printedBytes += told.length + 1;
      if (printedBytes > limits.outputBytes) throw tooMuchOutput(limits.outputBytes);
      out.line(told);
    }
  }
  throw new FlynnError('unavailable', 'The host stopped building without saying why: push again.');
}

/** Which limit it was is for people to read, and what to do about it with it. */
function failureOf(
  { code, message }: Extract<BuildEvent, { error: unknown }>['error'],
  { plain, words }: { plain: string; words: BuildWords },
): FlynnError {
  if (code !== 'exhausted') return new FlynnError(code, withPlaces(words.failure(message), plain));
  const variable = message.includes('memory') ? 'FLYNN_BUILD_MEMORY' : 'FLYNN_BUILD_DISK';
  return new FlynnError(code, `${message}.\n${howToRaise(variable)}`);
}

async function storeBuilt(
  job: BuildJob,
  name: string,
  { blobs, agent, out, limits }: ImageBuildDeps,
  signal: AbortSignal,
) {
  const folder = await mkdtemp(join(tmpdir(), 'flynn-image-'));
  try {
    const { slugBytes, imageBytes = imageLimits.imageBytes } = limits;
    const archive = await agent.stream(routes.image, { query: { name } }, { signal });
    const bounded = limitBytes(imageBytes, () => imageBeyondHosts(imageBytes));
    const input = pipeline(archive, bounded, () => {
      // Whoever reads it is told of any failure.
    });
    const archived = await readArchivedImage(await Archive.unpack(input, folder, signal));
    const image = { ...archived, configText: withoutMark(archived.configText) };
    // Those of the image below need not be packed again.
    const known = await readLayers(job.appId, blobs, signal);
    const stored: StoredImage = await storeImage(
      image,
      { ...blobs, put: (body, options) => blobs.put(body, options) },
      {
        signal,
        known: new Map(Object.entries(known)),
        limit: { bytes: slugBytes, error: () => imageTooLarge(slugBytes) },
        onLayer: ({ sizeBytes, isSent }) =>
          out.line(`layer of ${sizeText(sizeBytes)}${isSent ? '' : ': there already'}`),
      },
    );
    const layers = Object.fromEntries(image.layers.map(({ diffId }, place) => [diffId, stored.layers[place]]));
    await putRecord(`layers/${job.appId}`, layers, blobs, signal);
    return { image, stored };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
