/** nginx and HAProxy as judges: from this machine, or from the tests' image where that is named. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { shortId } from '@flynn/kit/ids';
import { waitFor } from '@flynn/kit/retry';
import { freePort } from '@flynn/kit/testing-ports';
import { testLabel } from '@flynn/kit/testing-label';
import { LlhttpServer, judgeOn } from './judge.ts';
import type { Judge } from './judge.ts';
import { talk } from './talk.ts';

const run = promisify(execFile);

type Program = {
  name: string;
  config: (ports: { port: number; backend: number; dir: string }) => string;
  argv: (file: string) => string[];
};

const programs: readonly Program[] = [
  {
    name: 'nginx',
    config: ({ port, backend, dir }) => `daemon off;
worker_processes 1;
pid ${dir}/nginx.pid;
error_log /dev/null;
events {}
http {
  access_log off;
  client_body_temp_path ${dir}/body;
  proxy_temp_path ${dir}/proxy;
  fastcgi_temp_path ${dir}/fastcgi;
  uwsgi_temp_path ${dir}/uwsgi;
  scgi_temp_path ${dir}/scgi;
  server {
    listen 127.0.0.1:${port};
    location / { proxy_pass http://127.0.0.1:${backend}; proxy_http_version 1.1; proxy_set_header Host $host; proxy_set_header Connection close; }
  }
}
`,
    argv: (file) => ['nginx', '-e', '/dev/null', '-c', file],
  },
  {
    name: 'HAProxy',
    config: ({ port, backend }) => `global
  nbthread 1
defaults
  mode http
  timeout connect 2s
  timeout client 10s
  timeout server 10s
frontend all
  bind 127.0.0.1:${port}
  default_backend one
backend one
  http-reuse never
  server one 127.0.0.1:${backend}
`,
    argv: (file) => ['haproxy', '-db', '-f', file],
  },
];

export type Judges = AsyncDisposable & { readonly judges: readonly Judge[] };

/** llhttp alone: needs nothing. */
export async function openLlhttp(): Promise<Judges> {
  const server = new LlhttpServer();
  const port = await server.listen();
  return {
    judges: [judgeOn('llhttp', port, () => server.take())],
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

/** All three. `image`: the one that has the programs; without it they are this machine's. */
export async function openJudges(options: { image?: string } = {}): Promise<Judges> {
  await using opening = new AsyncDisposableStack();
  const llhttp = opening.use(await openLlhttp());
  const dir = await mkdtemp(join(tmpdir(), 'flynn-judges-'));
  opening.defer(() => rm(dir, { recursive: true, force: true }));
  const judges: Judge[] = [...llhttp.judges];
  for (const { name, config, argv } of programs) {
    const behind = opening.use(new LlhttpServer());
    const backend = await behind.listen();
    const port = await freePort();
    const file = join(dir, `${name}.conf`);
    await writeFile(file, config({ port, backend, dir }));
    await start(opening, argv(file), { dir, ...options });
    await waitFor(async () => (await talk(port, ['GET / HTTP/1.0\r\n\r\n'], { quietMs: 1_000 })).answer !== '', {
      what: `${name} to answer`,
      deadlineMs: 20_000,
    });
    judges.push(judgeOn(name, port, () => behind.take()));
  }
  const open = opening.move();
  return { judges, [Symbol.asyncDispose]: () => open.disposeAsync() };
}

async function start(
  stack: AsyncDisposableStack,
  argv: string[],
  options: { dir: string; image?: string },
): Promise<void> {
  const container = `flynn-judge-${shortId()}`;
  const carried = [
    'run',
    '--rm',
    '--network=host',
    `--label=${testLabel}`,
    `--name=${container}`,
    `-v=${options.dir}:${options.dir}`,
  ];
  const [program = '', ...args] = options.image === undefined ? argv : ['docker', ...carried, options.image, ...argv];
  const child = spawn(program, args, { stdio: 'ignore' });
  const ended = once(child, 'exit');
  stack.defer(async () => {
    if (options.image === undefined) child.kill('SIGTERM');
    else await run('docker', ['rm', '--force', container]);
    await ended;
  });
}
