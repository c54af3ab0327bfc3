/**
 * For tests, while every request comes over a new connection: a router replaced by another one, again and again, or one that gets
 * another worker and lets it go.
 */
import { fork } from 'node:child_process';
import { createDiscoveryClient } from '@flynn/discovery/client';
import { HttpClient } from '@flynn/kit/http-client';
import { startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { z } from 'zod';
import { startRouter } from '../router.ts';
import { ControlPlane, startBackend } from '../testing.ts';
import { Load, Place, soon } from './testing.ts';
import { lastSchema } from './past.ts';
import { Workers } from './workers.ts';

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
      const router = await place.start('2');
      return () => router.stop();
    },
  };
}

/** What workers said of themselves, in all: those that left with their last word, the one that stayed when it was asked. */
const counted = { requests: 0, answers: 0 };

function count({ status, stats }: z.output<typeof lastSchema>): void {
  counted.requests += status.counters.requests;
  for (const { answers } of stats.flatMap(({ backends }) => backends)) counted.answers += answers['2xx'];
}

/** One and the same router, of one process and of two in turns. */
async function startWorkers(): Promise<{ port: number; start: () => Promise<Stop> }> {
  const place = await Place.create(owner);
  const workers = await Workers.start({
    count: 1,
    spawn: (index, count) => place.forkWorker(index, count),
    startDeadlineMs: 60_000,
    onLast: (counts) => count(lastSchema.parse(counts)),
    log: silentLogger(),
  });
  owner.after(() => workers.stop({ deadlineMs: 30_000 }));
  owner.after(async () => {
    // The last one that was started may serve still.
    const [status, stats] = await Promise.all([workers.ask('status'), workers.ask('stats', {})]);
    for (const [index, one] of status.entries()) count(lastSchema.parse({ status: one, stats: stats[index] }));
  });
  return {
    port: place.port,
    async start() {
      await workers.grow();
      return async () => {
        await waitFor(async () => (await workers.shrink()) === 'left', {
          what: 'a moment with nothing to do',
          ...soon,
        });
        await waitFor(() => workers.pids.length === 1, { what: 'one to be left', ...soon });
      };
    },
  };
}

const ends: (() => Promise<void>)[] = [];
const owner = { after: (end: () => Promise<void>) => void ends.push(end) };
const [, , asked, times = '1'] = process.argv;
const what = z.enum(['routers', 'programs', 'workers']).parse(asked);
const { port, start } = await { routers: startHere, programs: startPrograms, workers: startWorkers }[what]();
let stop = await start();
const load = new Load(fork(new URL('./load.ts', import.meta.url), [String(port), '8']));
await load.more(100);
for (let i = 0; i < Number(times); i += 1) {
  if (what === 'workers') {
    await load.more(20);
    await stop();
    await load.more(20);
    stop = await start();
  } else {
    const next = await start();
    await load.more(20);
    await stop();
    stop = next;
  }
}
await load.more(100);
const tally = await load.stop();
for (const end of ends.toReversed()) await end();
process.stdout.write(`${JSON.stringify({ ...tally, counted })}\n`, () => process.exit(0));
