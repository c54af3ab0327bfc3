import assert from 'node:assert/strict';
import { fork, spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { HttpClient } from '@flynn/kit/http-client';
import { startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { z } from 'zod';
import { routes } from '../api.ts';
import { ControlPlane, ask, startBackend } from '../testing.ts';
import { CertificatePlane } from '../tls/testing.ts';

const soon = { deadlineMs: 60_000, intervalMs: 20 };
const program = new URL('../main.ts', import.meta.url).pathname;
const loader = new URL('./load.ts', import.meta.url).pathname;
const key = 'the-key-of-this-test';

async function freePort(): Promise<number> {
  const server = createServer();
  server.listen({ port: 0, host: '127.0.0.1' });
  await once(server, 'listening');
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === 'object' && address !== null ? address.port : 0;
}

type Place = {
  plane: ControlPlane;
  port: number;
  start(): Promise<RunningRouter>;
  load(clients: number): Promise<Load>;
};
type RunningRouter = { process: ChildProcess; client: HttpClient; workers(): Promise<number[]> };

/** A control plane and a backend, and ports for routers that are replaced. */
async function setUp(t: TestContext, workers: number): Promise<Place> {
  const plane = new ControlPlane();
  plane.setRoute({ id: 'r1', domain: 'app.test' });
  const handlers = [...plane.handlers, ...new CertificatePlane().handlers];
  const server = await startServer({ name: 'plane', handlers, host: '127.0.0.1', port: 0, log: silentLogger() });
  t.after(() => server.close());
  plane.up('controller', `127.0.0.1:${server.port}`);
  const backend = await startBackend(t, (_incoming, response) => response.end('ok'));
  plane.up('web', backend.address);
  const [port, httpsPort] = [await freePort(), await freePort()];
  return {
    plane,
    port,
    async start() {
      const statusPort = await freePort();
      const child = spawn(process.execPath, [program], {
        env: {
          PATH: process.env.PATH,
          FLYNN_KEY: key,
          FLYNN_DISCOVERY_URL: server.url,
          FLYNN_HTTP_PORT: String(port),
          FLYNN_HTTPS_PORT: String(httpsPort),
          FLYNN_ROUTER_WORKERS: String(workers),
          PORT: String(statusPort),
        },
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      t.after(async () => {
        child.kill('SIGKILL');
        if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
      });
      const lines: string[] = [];
      child.stdout.on('data', (bytes: Buffer) => lines.push(bytes.toString()));
      const client = new HttpClient({ baseUrl: `http://127.0.0.1:${statusPort}`, name: 'the router', key });
      t.after(() => client.close());
      await waitFor(
        () => {
          assert.equal(child.exitCode, null, lines.join(''));
          return lines.join('').includes('all workers serve');
        },
        { what: 'the router to serve', ...soon },
      );
      return { process: child, client, workers: async () => childrenOf(child.pid ?? 0) };
    },
    async load(clients) {
      const child = fork(loader, [String(port), String(clients)]);
      t.after(() => void child.kill('SIGKILL'));
      const load = new Load(child);
      await load.more(50);
      return load;
    },
  };
}

const tallySchema = z.object({ answered: z.int(), failed: z.record(z.string(), z.int()) });
const progressSchema = z.object({ asked: z.int(), tally: tallySchema.optional() });

class Load {
  readonly #child: ChildProcess;
  #last: z.output<typeof progressSchema> = { asked: 0 };

  constructor(child: ChildProcess) {
    this.#child = child;
    child.on('message', (message) => (this.#last = progressSchema.parse(message)));
  }

  async more(requests: number): Promise<void> {
    const until = this.#last.asked + requests;
    await waitFor(() => this.#last.asked >= until, { what: 'more requests', ...soon });
  }

  async stop(): Promise<z.output<typeof tallySchema>> {
    this.#child.send('stop');
    return waitFor(() => this.#last.tally, { what: 'the end of the load', ...soon });
  }
}

/** Linux tells it so. */
async function childrenOf(pid: number): Promise<number[]> {
  const { readFile } = await import('node:fs/promises');
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '');
  return text
    .trim()
    .split(' ')
    .filter((one) => one !== '')
    .map(Number);
}

describe('the router as several processes', () => {
  test('speaks with one voice, loses nobody but a dead worker’s own clients, and ends whole', async (t) => {
    const place = await setUp(t, 2);
    const router = await place.start();
    const before = await router.workers();
    assert.equal(before.length, 2);
    for (let i = 0; i < 40; i += 1) assert.equal((await ask(place.port)).statusCode, 200);
    const status = await router.client.call(routes.status, {});
    assert.equal(status.hasRoutes, true);
    assert.equal(status.counters.requests, 40);
    assert.equal(status.backends.filter(({ service }) => service === 'web').length, 1);
    const known = await router.client.call(routes.word, { body: { routes: [{ id: 'r1' }], waitMs: 0 } });
    assert.equal(known.isSo, false);
    const waiting = router.client.call(routes.word, { body: { routes: [{ id: 'r1' }], waitMs: 20_000 } });
    place.plane.removeRoute('r1');
    assert.equal((await waiting).isSo, true);
    place.plane.setRoute({ id: 'r1', domain: 'app.test' });
    await waitFor(async () => (await ask(place.port)).statusCode === 200, { what: 'the route again', ...soon });
    const load = await place.load(8);
    const [victim = 0, other = 0] = before;
    process.kill(victim, 'SIGKILL');
    await waitFor(
      async () => {
        const now = await router.workers();
        return now.length === 2 && !now.includes(victim) && now.includes(other);
      },
      { what: 'another worker', ...soon },
    );
    await load.more(500);
    const { answered, failed } = await load.stop();
    // Eight clients have one connection each, so that is what the dead one can have had.
    const lost = Object.values(failed).reduce((sum, count) => sum + count, 0);
    assert.ok(lost <= 8, JSON.stringify(failed));
    assert.ok(answered > 500);
    router.process.kill('SIGTERM');
    await once(router.process, 'exit');
    assert.equal(router.process.exitCode, 0);
  });

  test('is replaced by another under load, and not one request is lost', async (t) => {
    const place = await setUp(t, 2);
    let current = await place.start();
    const load = await place.load(8);
    for (let i = 0; i < 3; i += 1) {
      const next = await place.start();
      current.process.kill('SIGTERM');
      await once(current.process, 'exit');
      assert.equal(current.process.exitCode, 0);
      await load.more(100);
      current = next;
    }
    const { answered, failed } = await load.stop();
    assert.deepEqual(failed, {});
    assert.ok(answered > 300);
  });
});
