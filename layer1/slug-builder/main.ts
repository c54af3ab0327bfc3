import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { createBlobClient } from '@flynn/blobstore/client';
import { createDiscoveryClient } from '@flynn/discovery/client';
import { partOf } from '@flynn/discovery/parts';
import { pause } from '@flynn/kit/clock';
import { loadConfig } from '@flynn/kit/config';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import { RenewedIdentity, readIdentity } from '@flynn/kit/identity';
import { agentClient } from '@flynn/host-agent/agent-client';
import { build, compileInputSchema, failureText, keptCache, unpackedSchema } from './build.ts';
import type { Layout } from './buildpack.ts';
import { compileSlug } from './compile.ts';
import { configSchema } from './config.ts';
import { runSubmodules, submodulesInputSchema } from './context-submodules.ts';
import { baseEnv } from './environment.ts';
import { buildImage } from './image-build.ts';
import { pointerWarning } from './lfs-pointers.ts';
import { limitMet, tooMuchOutput } from './limits.ts';
import { OutOfReach } from './out-of-reach.ts';
import { createOutput } from './output.ts';
import { unpackSource } from './unpack.ts';
import { StepFailure } from './user.ts';

const layout: Layout = {
  appDir: '/app',
  cacheDir: '/tmp/flynn/cache',
  envDir: '/tmp/flynn/env',
  runtimeDir: '/opt/flynn',
  scratchDir: '/tmp/flynn/scratch',
};

const agentPort = 1113;
const gibibyte = 1024 ** 3;
/** So long whoever reads may take to read what was said. */
const saidMs = 10_000;

const out = createOutput((text) => void process.stdout.write(text));
const stopping = new AbortController();
const { signal } = stopping;
for (const name of ['SIGTERM', 'SIGINT'] as const) {
  process.once(name, () => stopping.abort(new FlynnError('cancelled', 'The build was cancelled.')));
}
process.umask(0o022);

const [program = '', ...rest] = process.argv.slice(1);
const [step, argument] = rest;
try {
  if (step === undefined) await runBuild();
  else if (step === 'unpack' && argument !== undefined) await runUnpack(argument);
  else if (step === 'compile') await runCompile();
  else if (step === 'submodules') await runSubmodulesStep();
  else throw new FlynnError('invalid', `there is no step ${step}`);
} catch (error) {
  // Why a step of it is ended is told by the build.
  const isOfBuild = step === undefined;
  const met = isOfBuild && !hasCode(error, 'timeout', 'exhausted', 'cancelled') ? await limitMet() : undefined;
  if (met !== undefined) out.warn(`\n${met}\n`);
  else if (!(error instanceof StepFailure) && (isOfBuild || !signal.aborted)) out.warn(`\n${failureText(error)}\n`);
  // What was said last may wait behind much else: ending now would lose it.
  await Promise.race([
    new Promise((resolve) => process.stdout.write('', resolve)),
    pause(saidMs, new AbortController().signal),
  ]);
  // What was started may go on for ever: it ends with this process, the first of its container.
  process.exit(1);
}

async function runBuild(): Promise<void> {
  const config = loadConfig(configSchema, process.env);
  // Good for longer than any build may take.
  const identity =
    config.FLYNN_IDENTITY_DIR === undefined
      ? undefined
      : new RenewedIdentity(await readIdentity(config.FLYNN_IDENTITY_DIR));
  const discovery = createDiscoveryClient({ url: config.FLYNN_DISCOVERY_URL });
  const limited = { resolve: (service: string) => discovery.resolve(service, { signal }) };
  const blobs = createBlobClient({
    ...partOf(limited, 'blobstore', identity),
    key: config.FLYNN_KEY,
  });
  const job = {
    operationId: config.FLYNN_OPERATION_ID,
    sourceDigest: config.FLYNN_SOURCE_DIGEST,
    commit: config.FLYNN_COMMIT,
    appId: config.FLYNN_APP_ID,
    appEnv: config.FLYNN_APP_ENV,
  };
  const limits = {
    diskBytes: config.FLYNN_BUILD_DISK,
    timeoutMs: config.FLYNN_BUILD_TIMEOUT,
    outputBytes: config.FLYNN_BUILD_OUTPUT,
    cacheBytes: config.FLYNN_BUILD_CACHE,
    slugBytes: config.FLYNN_SLUG_SIZE,
  };
  const env = baseEnv(process.env, { home: layout.appDir, commit: job.commit });
  const self = [process.execPath, ...process.execArgv, program] as const;
  if (config.FLYNN_BUILD_KIND === 'dockerfile') {
    const agent = agentClient(
      {
        id: config.FLYNN_HOST_ID,
        address: new URL(config.FLYNN_DISCOVERY_URL).hostname,
        apiPort: agentPort,
        // Who gave this job its certificate has one itself.
        ...(identity === undefined ? {} : { mutual: { withoutIdentity: 0 } }),
      },
      { key: config.FLYNN_KEY, identity },
    );
    const controller = new HttpClient({
      ...partOf(limited, 'controller', identity),
      key: config.FLYNN_KEY,
      name: 'the controller',
    });
    const ownImages = {
      'flynn/slug-runner': config.FLYNN_SLUG_RUNNER_IMAGE,
      'flynn/slug-builder': config.FLYNN_SLUG_BUILDER_IMAGE,
    };
    const cache = createHmac('sha256', config.FLYNN_KEY).update(`build ${job.appId}`).digest('hex').slice(0, 32);
    const ofSteps = { memoryBytes: config.FLYNN_BUILD_MEMORY ?? gibibyte, pids: config.FLYNN_BUILD_PIDS };
    try {
      const steps = { layout, self, env };
      const deps = { steps, blobs, agent, controller, out, limits: { ...limits, ...ofSteps }, cache, ownImages };
      await buildImage({ ...job, dockerfile: config.FLYNN_BUILD_DOCKERFILE }, deps, signal);
    } finally {
      await Promise.all([blobs.close(), discovery.close(), agent.close(), controller.close()]);
    }
    return;
  }
  try {
    await build(job, { blobs, layout, self, env, out, nowMs: Date.now(), limits }, signal);
  } finally {
    await blobs.close();
    await discovery.close();
  }
}

async function runUnpack(dir: string): Promise<void> {
  const { pointers, timeS } = await unpackSource(process.stdin, dir, { signal });
  const warning = pointerWarning(pointers);
  if (warning !== undefined) out.warn(warning);
  await answer(unpackedSchema.parse({ timeS }));
}

async function runSubmodulesStep(): Promise<void> {
  const told = Buffer.concat(await process.stdin.toArray()).toString();
  const input = submodulesInputSchema.parse(JSON.parse(told));
  const env = baseEnv(process.env, { home: input.layout.appDir, commit: '' });
  await runSubmodules(input, { baseEnv: env, out, signal });
}

/** Told what to do on its input; its answer goes to file descriptor 3, where nothing the app prints can get into it. */
async function runCompile(): Promise<void> {
  const text = Buffer.concat(await process.stdin.toArray()).toString();
  // There is nothing to compile: what was to come before has failed, and told why.
  if (text === '') process.exit(1);
  const { outputBytes, ...input } = compileInputSchema.parse(JSON.parse(text));
  const env = baseEnv(process.env, { home: input.layout.appDir, commit: process.env['SOURCE_VERSION'] ?? '' });
  const ending = new AbortController();
  let printedBytes = 0;
  const reach = new OutOfReach();
  const counted = createOutput((line) => {
    reach.hear(line.trimEnd());
    printedBytes += Buffer.byteLength(line);
    if (printedBytes <= outputBytes) process.stdout.write(line);
    else ending.abort(tooMuchOutput(outputBytes));
  });
  const limited = AbortSignal.any([signal, ending.signal]);
  let isCacheKept = false;
  const compiling = compileSlug({ ...input, baseEnv: env, out: counted, signal: limited }, (isGood) => {
    isCacheKept = isGood;
  });
  const plan = await compiling
    .finally(() => ending.signal.throwIfAborted())
    .catch(async (error: unknown) => {
      if (isCacheKept) await answer(keptCache);
      if (!hasCode(error, 'invalid', 'unavailable')) throw error;
      reach.hear(error.message);
      const hint = reach.hint({ ...env, ...input.appEnv });
      if (hint === '') throw error;
      throw new FlynnError(error.code, error.message + hint, { cause: error });
    });
  await answer(plan);
}

async function answer(value: unknown): Promise<void> {
  const stream = createWriteStream('', { fd: 3 });
  stream.end(JSON.stringify(value));
  await once(stream, 'finish');
}
