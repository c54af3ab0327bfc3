/** Rendered configuration with a real HAProxy and a real nginx: backends come and go under load, and no request fails. */
import { silentLogger } from '@flynn/kit/log';
import { freePort } from '@flynn/kit/testing-ports';
import { startServer } from '@flynn/kit/http-server';
import { waitFor } from '@flynn/kit/retry';
import { testLabel } from '@flynn/kit/testing-label';
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, get } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { createMemoryRegistry } from './memory-registry.ts';
import { discoveryHandlers } from './server.ts';

const run = promisify(execFile);
const log = silentLogger();
const image = process.env['FLYNN_TEST_PROXIES_IMAGE'] ?? '';

type Proxy = {
  name: string;
  template: string;
  command: (config: string) => string[];
  check: string;
  exec: string;
};

const haproxy: Proxy = {
  name: 'haproxy',
  template: `global
  stats socket {{env "DIR"}}/haproxy.sock mode 600 level admin expose-fd listeners
defaults
  mode http
  timeout connect 2s
  timeout client 10s
  timeout server 10s
frontend all
  bind 127.0.0.1:{{env "PORT"}}
  default_backend web
backend web
{{#each (instances "web")}}
  server {{id}} {{address}}
{{/each}}
`,
  command: (config) => ['haproxy', '-W', '-db', '-f', config],
  check: 'docker exec $CONTAINER haproxy -c -f {}',
  exec: 'docker kill --signal USR2 $CONTAINER',
};

const nginx: Proxy = {
  name: 'nginx',
  template: `worker_processes 2;
pid {{env "DIR"}}/nginx.pid;
error_log stderr;
events {}
http {
  access_log off;
  upstream web {
{{#each (instances "web")}}
    server {{address}}; # {{id}}
{{/each}}
  }
  server {
    listen 127.0.0.1:{{env "PORT"}};
    proxy_next_upstream off;
    location / { proxy_pass http://web; }
  }
}
`,
  command: (config) => ['nginx', '-c', config, '-g', 'daemon off;'],
  check: 'docker exec $CONTAINER nginx -t -c {}',
  exec: 'docker exec $CONTAINER nginx -c $DIR/conf -s reload',
};

async function startBackend(id: string) {
  const state = { requests: 0 };
  const server = createServer((_request, response) => {
    state.requests += 1;
    setTimeout(() => response.end(id), 20);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { id, state, address: `127.0.0.1:${portOf(server.address())}`, close: () => server.close() };
}

function portOf(address: ReturnType<ReturnType<typeof createServer>['address']>): number {
  assert.ok(address !== null && typeof address === 'object');
  return address.port;
}

/** A connection for each request: every one may meet the moment of a reload. */
function ask(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const request = get({ port, host: '127.0.0.1', agent: false, timeout: 60_000 }, (response) => {
      let body = '';
      response.setEncoding('utf8').on('data', (chunk: string) => (body += chunk));
      response.on('end', () =>
        response.statusCode === 200 ? resolve(body) : reject(new Error(`${response.statusCode}`)),
      );
      response.on('error', reject);
    });
    request.on('error', reject).on('timeout', () => request.destroy(new Error('no answer in 10 s')));
  });
}

function startLoad(port: number, lanes: number) {
  const stop = new AbortController();
  const answers = new Map<string, number>();
  const failures: string[] = [];
  /** Of each lane. */
  const rounds = Array.from({ length: lanes }, () => 0);
  const lane = async (at: number) => {
    for (; !stop.signal.aborted; rounds[at] = (rounds[at] ?? 0) + 1) {
      try {
        const id = await ask(port);
        answers.set(id, (answers.get(id) ?? 0) + 1);
      } catch (error) {
        failures.push(String(error));
      }
    }
  };
  const running = Promise.all(rounds.map((_, at) => lane(at)));
  /** Until each lane has ended so many requests more. */
  const goOn = async (count: number) => {
    const before = [...rounds];
    const isDone = () => rounds.every((ended, at) => ended >= (before[at] ?? 0) + count);
    await waitFor(isDone, { what: `${count} requests of each lane`, deadlineMs: 60_000, intervalMs: 5 });
  };
  return { answers, failures, goOn, stop: () => (stop.abort(), running) };
}

for (const proxy of [haproxy, nginx]) {
  test(`${proxy.name} follows instances that come and go, and no request fails`, { timeout: 300_000 }, async () => {
    const stop = new AbortController();
    await using registry = createMemoryRegistry({ log });
    const handlers = discoveryHandlers(registry, { signal: stop.signal });
    await using discovery = await startServer({ handlers, log, host: '127.0.0.1', port: 0, name: 'discovery' });
    const dir = await mkdtemp(path.join(tmpdir(), 'flynn-proxy-'));
    const config = path.join(dir, 'conf');
    const port = await freePort();
    const container = `flynn-test-${path.basename(dir).toLowerCase()}`;
    const env = { ...process.env, DIR: dir, PORT: String(port), CONTAINER: container };
    await writeFile(path.join(dir, 'template'), proxy.template);
    const render = (...more: string[]) => [
      '--disable-warning=ExperimentalWarning',
      path.join(import.meta.dirname, 'cli.ts'),
      `--url=${discovery.url}`,
      'render',
      path.join(dir, 'template'),
      config,
      ...more,
    ];

    await using cleanup = new AsyncDisposableStack();
    cleanup.defer(() => rm(dir, { recursive: true, force: true }));
    cleanup.defer(() => stop.abort());
    const backends = [await startBackend('first'), await startBackend('second')];
    cleanup.defer(() => backends.forEach((backend) => backend.close()));
    const announce = ({ id, address }: (typeof backends)[number]) => registry.register({ service: 'web', id, address });
    for (const backend of backends) await announce(backend);
    await run(process.execPath, render('--once'), { env, timeout: 60_000 });
    await run('docker', [
      'run',
      '--detach',
      `--label=${testLabel}`,
      '--network=host',
      `--name=${container}`,
      `--volume=${dir}:${dir}`,
      image,
      ...proxy.command(config),
    ]);
    cleanup.defer(async () => void (await run('docker', ['rm', '--force', '--volumes', container])));
    // The copy is what the program was last told of.
    const kept = spawn(
      process.execPath,
      render('--check', proxy.check, '--exec', `${proxy.exec} && cp ${config} ${dir}/told && echo >> ${dir}/reloads`),
      { env, stdio: ['ignore', 'ignore', 'pipe'] },
    );
    let said = '';
    kept.stderr.setEncoding('utf8').on('data', (chunk: string) => (said += chunk));
    const ended = once(kept, 'exit');
    cleanup.defer(async () => {
      kept.kill('SIGTERM');
      await ended;
    });
    const told = () => readFile(path.join(dir, 'told'), 'utf8');
    await waitFor(() => ask(port), { what: proxy.name, deadlineMs: 60_000 });
    const load = startLoad(port, 6);
    cleanup.defer(async () => void (await load.stop()));
    const { answers } = load;
    for (let round = 0; round < 5; round += 1) {
      const fresh = await startBackend(`round-${round}`);
      backends.push(fresh);
      await announce(fresh);
      await waitFor(() => answers.has(fresh.id), { what: `answers of ${fresh.id}`, deadlineMs: 60_000 });
      const old = backends.shift();
      assert.ok(old !== undefined);
      await registry.deregister('web', old.id);
      await waitFor(async () => !(await told()).includes(old.address), { what: `no ${old.id}`, deadlineMs: 60_000 });
      // The workers of before finish what they have: nothing of many requests is for it any more.
      for (let requests = -1; requests !== old.state.requests;) {
        ({ requests } = old.state);
        await load.goOn(10);
      }
      old.close();
    }
    await load.goOn(40);
    await load.stop();
    const requests = [...answers.values()].reduce((sum, count) => sum + count, 0);
    assert.deepEqual(load.failures, []);
    assert.ok(requests > 500, `only ${requests} requests`);
    assert.equal(answers.size, 7, 'every backend answered');
    const reloads = (await readFile(path.join(dir, 'reloads'), 'utf8')).length;
    assert.ok(reloads >= 5 && reloads <= 10, `${reloads} reloads`);

    // An instance the program cannot live with is kept out by the check, and what runs runs on.
    const before = await readFile(config, 'utf8');
    await registry.register({ service: 'web', id: 'bad', address: 'no.such.host.invalid:1' });
    await waitFor(() => said.includes('no.such.host.invalid'), { what: 'the check to fail', deadlineMs: 60_000 });
    assert.equal(await readFile(config, 'utf8'), before);
    assert.ok(await ask(port));
    await registry.deregister('web', 'bad');
    await registry.register({ service: 'web', id: 'good', address: backends[0]?.address ?? '' });
    await waitFor(async () => (await told()).includes('good'), { what: 'the next good one', deadlineMs: 60_000 });
    kept.kill('SIGTERM');
    assert.deepEqual(await ended, [0, null]);
  });
}
