/** For tests: a router replaced by another one, again and again, while every request comes over a new connection. */
import { fork } from 'node:child_process';
import { createDiscoveryClient } from '@flynn/discovery/client';
import { HttpClient } from '@flynn/kit/http-client';
import { startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { startRouter } from '../router.ts';
import { ControlPlane, startBackend } from '../testing.ts';
import { Load, Place } from './testing.ts';

type Stop = () => Promise<unknown>;

/** The kernel's part, many times: routers in this process. */
async function startHere(): Promise<{ port: number; start: () => Promise<Stop> }> {
  const log = silentLogger();
  const plane = new ControlPlane();
  plane.setRoute({ id: 'r1', domain: 'app.test' });
  const server = await startServer({ name: 'plane', handlers: plane.handlers, host: '127.0.0.1', port: 0, log });
  const backend = await startBackend(owner, (_incoming, response) => response.end('ok'));
  plane.up('web', backend.address);
  const controller = new HttpClient({ baseUrl: server.url, name: 'the controller' });
  const discovery = createDiscoveryClient({ url: server.url });
  const common = { controller, discovery, host: '127.0.0.1', clusterKey: 'k', log };
  const first = await startRouter({ ...common, httpPort: 0 });
  let unused: Stop | undefined = () => first.stop({ drainMs: 10_000 });
  return {
    port: first.httpPort,
    async start() {
      const stop = unused;
      unused = undefined;
      if (stop !== undefined) return stop;
      const router = await startRouter({ ...common, httpPort: first.httpPort });
      return () => router.stop({ drainMs: 10_000 });
    },
  };
}

/** As it is replaced on a host: programs, each with two workers. */
async function startPrograms(): Promise<{ port: number; start: () => Promise<Stop> }> {
  const place = await Place.create(owner);
  return {
    port: place.port,
    async start() {
      const router = await place.start(2);
      return () => router.stop();
    },
  };
}

const ends: (() => Promise<void>)[] = [];
const owner = { after: (end: () => Promise<void>) => void ends.push(end) };
const [, , what, times = '1'] = process.argv;
const { port, start } = what === 'programs' ? await startPrograms() : await startHere();
let stop = await start();
const load = new Load(fork(new URL('./load.ts', import.meta.url), [String(port), '8']));
await load.more(100);
for (let i = 0; i < Number(times); i += 1) {
  const next = await start();
  await load.more(20);
  await stop();
  stop = next;
}
await load.more(100);
const tally = await load.stop();
for (const end of ends.toReversed()) await end();
process.stdout.write(`${JSON.stringify(tally)}\n`, () => process.exit(0));
