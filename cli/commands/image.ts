import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { operations } from '@flynn/controller/operations/api';
import { layers } from '@flynn/controller/collection/api-layers';
import { readArchivedImage } from '@flynn/controller/images/archived-image';
import { resultOf } from '@flynn/controller/images/image-result';
import { type BlobTarget, type Sent, storeImage, storeText } from '@flynn/controller/images/stored-image';
import type { Operation } from '@flynn/controller/model';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { newId } from '@flynn/kit/ids';
import { processType } from '@flynn/kit/names';
import { usageError } from '../arguments.ts';
import type { Context } from '../context.ts';
import { readEngineImage, readFileImage } from '../image-source.ts';
import { addCommand, type Parent } from './command.ts';
import { parseLabels } from '../runner-env.ts';
import { parseExpiry, readLog } from './operation.ts';

type PushOptions = { file?: string; engine: string; process: string[]; deploy: boolean; expires?: string };

const expires = ['--expires <time>', 'fail if no runner has begun it by then, as 60s or 10m; else it waits'] as const;

export function addImageCommands(parent: Parent): void {
  const image = addCommand(parent, {
    name: 'image',
    summary: 'images: push one that was built elsewhere and roll it out, without a registry',
    async run(context) {
      if (context.options.json === true) {
        throw usageError(
          '"flynn image" alone tells only its help, of which there is no JSON: write "flynn image push"',
        );
      }
      context.print(image.helpInformation());
    },
  });

  addCommand<PushOptions>(parent, {
    under: image,
    name: 'push',
    summary: "send an image's layers that the cluster lacks, make a release of it and roll it out",
    arguments: [['[image]', 'a name or an id that the engine on this machine knows']],
    options: {
      file: ['-f, --file <path>', 'an archive instead: of "docker save", or an OCI layout; - is standard input'],
      engine: ['--engine <program>', 'what "PROGRAM image save" is asked of', 'docker'],
      process: ['-p, --process <type=line>', 'a process type and its command line; can be given again', []],
      deploy: ['--no-deploy', 'only store it; "flynn deploy --image" rolls it out'],
      expires,
    },
    run: pushImage,
  });

  addCommand<{ image?: string; expires?: string; runner?: string }>(parent, {
    name: 'deploy',
    summary: 'make a release of an image and roll it out',
    options: {
      image: ['-i, --image <image>', 'sha256:… as "flynn image push" told it, or REGISTRY/NAME:TAG'],
      runner: [
        '--runner <runner>',
        'who fetches it from its registry: a runner by its id, or any with labels, as zone=a',
      ],
      expires,
    },
    async run(context, { image: wanted, expires: time, runner }) {
      const wait = waitOf(time);
      const target = runner === undefined ? undefined : targetOf(runner);
      if (wanted === undefined) {
        throw usageError(
          'deploy what? --image sha256:… names an image that was pushed, --image REGISTRY/NAME:TAG one to be fetched; "git push flynn main" deploys code, "flynn rollback" an earlier release',
        );
      }
      return deployImage(context, wanted, { wait, target });
    },
  });
}

async function pushImage(context: Context, options: PushOptions, [name]: string[]): Promise<number | void> {
  const { file, engine } = options;
  if ((name === undefined) === (file === undefined)) {
    throw usageError('push which image? Name one that the engine here has, or give --file PATH');
  }
  const lines = processLines(options.process);
  const wait = waitOf(options.expires);
  if (!options.deploy && options.expires !== undefined) {
    throw usageError('--expires is for rolling it out: leave --no-deploy away, or give it to "flynn deploy --image"');
  }
  // Before anything is sent.
  const app = options.deploy ? await context.appName() : undefined;
  const ending = new AbortController();
  const stop = () => ending.abort(new FlynnError('cancelled', 'stopped: what was sent is not sent again'));
  const offSignals = (['SIGINT', 'SIGTERM'] as const).map((signal) => context.io.onSignal(signal, stop));
  const { signal } = ending;
  const folder = await mkdtemp(join(tmpdir(), 'flynn-image-'));
  let pushed: { image: string; layers: Sent[] };
  try {
    const archive = await context.progress(`reading ${name ?? file}`, () => {
      const from = { io: context.io, folder, signal };
      return name === undefined ? readFileImage(file ?? '-', from) : readEngineImage(engine, name, from);
    });
    const image = await readArchivedImage(archive);
    const target = await blobTargetOf(context);
    const sent: Sent[] = [];
    const stored = await context.progress('sending', () =>
      storeImage(image, target, {
        signal,
        onLayer(layer) {
          sent.push(layer);
          if (context.options.json !== true) context.print(layerText(layer, sent.length, image.layers.length));
        },
      }),
    );
    const result = resultOf(image, stored, lines, { name });
    pushed = { image: (await storeText(JSON.stringify(result), target, signal)).digest, layers: sent };
  } finally {
    for (const off of offSignals) off();
    await rm(folder, { recursive: true, force: true });
  }
  const { image: resultDigest } = pushed;
  if (app === undefined) return context.show(pushed, () => `image ${resultDigest}`);
  if (context.options.json !== true) context.print(`image ${resultDigest}`);
  return rollOut(context, app, { resultDigest }, { wait, pushed });
}

function layerText({ sizeBytes, isSent }: Sent, place: number, count: number): string {
  const size = `${(sizeBytes / 1_000_000).toFixed(1)} MB`;
  return `layer ${place}/${count}  ${size}  ${isSent ? 'sent' : 'there already'}`;
}

function processLines(texts: readonly string[]): Record<string, string> {
  const lines: Record<string, string> = {};
  for (const text of texts) {
    const at = text.indexOf('=');
    const type = text.slice(0, Math.max(0, at));
    const line = text.slice(at + 1).trim();
    if (!processType.safeParse(type).success || line === '') {
      throw usageError(`--process "${text}" is not understood: write TYPE="COMMAND", as in web="bin/serve --fast"`);
    }
    lines[type] = line;
  }
  return lines;
}

async function blobTargetOf(context: Context): Promise<BlobTarget> {
  const client = await context.client();
  return {
    stat: (digest, options) => client.call(layers.stat, { params: { digest } }, options),
    put: (body, { digest, ...limits }) => client.call(layers.put, { query: { digest }, body }, limits),
  };
}

type Target = NonNullable<Operation['target']>;

function targetOf(runner: string): Target {
  return runner.includes('=') ? { labels: parseLabels(runner, '--runner') } : { runnerId: runner };
}

async function deployImage(
  context: Context,
  wanted: string,
  { wait, target }: { wait: Wait; target: Target | undefined },
): Promise<number> {
  const app = await context.appName();
  if (!/^sha256:[0-9a-f]{64}$/.test(wanted)) {
    // What it has to be, the runner says that fetches it.
    if (wanted.includes('/')) {
      return rollOut(context, app, { imageRef: wanted }, { wait, target, pushed: { image: wanted } });
    }
    throw new FlynnError(
      'invalid',
      `"${wanted}" is no image: sha256:… as "flynn image push" told it, or REGISTRY/NAME:TAG, as in registry.example.com/team/app:1.4`,
    );
  }
  if (target !== undefined) throw usageError('--runner is for an image that is fetched: one that was pushed is here');
  const client = await context.client();
  try {
    await client.call(layers.stat, { params: { digest: wanted } });
  } catch (error) {
    if (!hasCode(error, 'not_found')) throw error;
    throw new FlynnError('not_found', `the cluster has no image ${wanted}: push it with "flynn image push"`);
  }
  return rollOut(context, app, { resultDigest: wanted }, { wait, pushed: { image: wanted } });
}

type Wait = { expiresInMs?: number };

function waitOf(time: string | undefined): Wait {
  return time === undefined ? {} : { expiresInMs: parseExpiry(time) };
}

/**
 * The same operations as a push of code ends with, and so the same lines; as JSON they and what was pushed are one value, and the
 * lines are told beside it. Answers the exit code.
 */
async function rollOut(
  context: Context,
  app: string,
  source: { resultDigest: string } | { imageRef: string },
  { wait, target, pushed }: { wait: Wait; target?: Target | undefined; pushed: { image: string; layers?: Sent[] } },
): Promise<number> {
  const client = await context.client();
  const [build, release, deploy] = [newId(), newId(), newId()];
  const isFetched = 'imageRef' in source;
  const chain = [
    ...(isFetched ? [{ id: build, kind: 'build' as const, input: source, target }] : []),
    {
      id: release,
      kind: 'release' as const,
      ...(isFetched ? { dependsOn: [build] } : {}),
      input: isFetched ? {} : source,
    },
    { id: deploy, kind: 'deploy' as const, dependsOn: [release], input: {} },
  ];
  // Once the first has begun, the rest waits for it and for no runner; if it has not, they are cancelled with it.
  const asked = chain.map((one, index) => (index === 0 ? { ...one, ...wait } : one));
  await client.call(operations.create, { params: { app }, body: { operations: asked } });
  const ended: Operation[] = [];
  let exitCode = 0;
  const isJson = context.options.json === true;
  const take = (text: string) => context.pass(`${text}\n`, isJson ? context.io.stderr : context.io.stdout);
  for (const { id } of chain) {
    const { code, operation } = await readLog(context, id, { isFollowed: true, take });
    if (operation !== undefined) ended.push(operation);
    exitCode = code;
    if (code !== 0) break;
  }
  if (isJson) context.show({ ...pushed, operations: ended }, () => '');
  return exitCode;
}
