import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { createLogger, silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import type { Announcer } from '../discovery/announcer.ts';
import { AnnouncerProbe, jobOf } from '../host-fixture.ts';
import { JobMonitor } from './monitor.ts';

/** A job that is to listen where another does already, and answers well: it shares the port. */
async function watched(options: { startTimeoutMs: number }) {
  const it = { listens: false, asked: 0, answered: 0 };
  const before = createServer((_request, response) => {
    it.answered += 1;
    response.end('from the one before');
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => before.once('listening', resolve));
  const { port } = before.address() as AddressInfo;
  const check = { type: 'http' as const, path: '/ping', timeoutMs: 60_000, ...options };
  const service = { name: 'router', check };
  const told: string[] = [];
  const announcer = new AnnouncerProbe();
  const monitor = new JobMonitor({
    job: jobOf('next', { hostNetwork: true, ports: [{ port, service }] }),
    address: '127.0.0.1',
    hostId: 'h1',
    mayBeAnnounced: false,
    listensItself: (asked) => {
      assert.equal(asked, port);
      it.asked += 1;
      return it.listens;
    },
    announcer,
    events: {
      onUp: () => told.push('up'),
      onDown: (message) => told.push(message),
      onNeverUp: (message) => told.push(message),
      onAstray: (message) => told.push(message),
      onHung: (message) => told.push(message),
      onGoesLast: () => told.push('goes last'),
    },
    log: silentLogger(),
  });
  return Object.assign(it, {
    port,
    told,
    announcer,
    async [Symbol.asyncDispose]() {
      await monitor.stop({ keepAnnounced: false });
      await new Promise((resolve) => before.close(resolve));
    },
  });
}

test('a job is not up by the answers of the one whose port it is to share', async () => {
  await using it = await watched({ startTimeoutMs: 60_000 });
  await waitFor(() => it.asked >= 3, { what: 'three looks', deadlineMs: 30_000, intervalMs: 5 });
  assert.deepEqual([it.told, it.announcer.calls], [[], []]);
  it.listens = true;
  await waitFor(() => it.told.length > 0, { what: 'the job to be up', deadlineMs: 30_000, intervalMs: 5 });
  assert.deepEqual(it.told, ['up']);
  const { asked, answered } = it;
  it.listens = false;
  await waitFor(() => it.answered > answered, { what: 'the next look', deadlineMs: 30_000, intervalMs: 5 });
  assert.deepEqual([it.told, it.asked], [['up'], asked], 'once it has been up its answers are its own');
});

test('one that never listens itself is told so, though its port answers', async () => {
  await using it = await watched({ startTimeoutMs: 150 });
  await waitFor(() => it.told.length > 0, { what: 'the end of patience', deadlineMs: 30_000, intervalMs: 5 });
  assert.deepEqual(it.told, [
    `not healthy 0 s after its start: something answers on port ${it.port} of this host, but the job does not listen there`,
  ]);
});

/** An app that is up until it is told to hang: then it only answers that it cannot. */
async function hanging(options: { restartAfterMs: number; wasUp?: boolean; isReachable?: () => Promise<boolean> }) {
  const it = { hangs: options.wasUp === true, asked: 0 };
  const app = createServer((_request, response) => {
    it.asked += 1;
    response.writeHead(it.hangs ? 503 : 200).end();
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => app.once('listening', resolve));
  const { port } = app.address() as AddressInfo;
  const { restartAfterMs } = options;
  const startTimeoutMs = options.wasUp === true ? 1 : 600_000;
  const check = { type: 'http' as const, path: '/', intervalMs: 5, timeoutMs: 60_000, startTimeoutMs, restartAfterMs };
  const told: string[] = [];
  const announcer = new AnnouncerProbe();
  const monitor = new JobMonitor({
    job: jobOf('a', { ports: [{ port, service: { name: 'web', check: { threshold: 2, ...check } } }] }),
    address: '127.0.0.1',
    hostId: 'h1',
    mayBeAnnounced: options.wasUp === true,
    ...(options.wasUp === undefined ? {} : { wasUp: options.wasUp }),
    random: () => 1,
    ...(options.isReachable === undefined ? {} : { isReachable: options.isReachable }),
    announcer,
    events: {
      onUp: () => told.push('up'),
      onDown: () => told.push('down'),
      onNeverUp: (message) => told.push(`never up: ${message}`),
      onAstray: (message) => told.push(message),
      onHung: (message, wellMs) => told.push(`${wellMs > 0 ? 'hung' : 'never well'}: ${message}`),
      onGoesLast: () => told.push('goes last'),
    },
    log: silentLogger(),
  });
  const until = (what: string, test: () => boolean) => waitFor(test, { what, deadlineMs: 60_000, intervalMs: 5 });
  return Object.assign(it, {
    port,
    told,
    announcer,
    until,
    async [Symbol.asyncDispose]() {
      await monitor.stop({ keepAnnounced: false });
      app.closeAllConnections();
      await new Promise((resolve) => app.close(resolve));
    },
  });
}

test('a job that was up and fails without a break, for longer than it may, is said to hang', async () => {
  await using it = await hanging({ restartAfterMs: 100 });
  await it.until('it to be up', () => it.told.length === 1);
  it.hangs = true;
  await it.until('it to be down', () => it.told.length === 2);
  await it.until('it to be told of', () => it.told.length === 3);
  assert.deepEqual(it.told.slice(0, 2), ['up', 'down']);
  const why = `GET / on port ${it.port} answered 503`;
  assert.match(it.told[2] ?? '', new RegExp(`^hung: its check failed for \\d+ s, so it was stopped: ${why}$`));
  assert.equal(it.announcer.instances.size, 0);
});

test('without a limit a job that hangs is only taken out of discovery, and may come back', async () => {
  await using it = await hanging({ restartAfterMs: 0 });
  await it.until('it to be up', () => it.told.length === 1);
  it.hangs = true;
  await it.until('it to be down', () => it.told.length === 2);
  const { asked } = it;
  await it.until('ten more looks', () => it.asked >= asked + 10);
  it.hangs = false;
  await it.until('it to be back', () => it.told.length === 3);
  assert.deepEqual(it.told, ['up', 'down', 'up']);
});

test('a job whose address does not answer at all is not stopped for it: the network is what fails', async () => {
  let asked = 0;
  let isReachable = false;
  await using it = await hanging({ restartAfterMs: 1, isReachable: async () => ((asked += 1), isReachable) });
  await it.until('it to be up', () => it.told.length === 1);
  it.hangs = true;
  await it.until('three looks at the network', () => asked >= 3);
  assert.deepEqual(it.told, ['up', 'down']);
  isReachable = true;
  await it.until('it to be told of', () => it.told.length === 3);
  assert.match(it.told[2] ?? '', /^hung: /);
});

test('a job that an agent before saw up has the limit of one that hangs, not of one that starts', async () => {
  await using it = await hanging({ restartAfterMs: 50, wasUp: true });
  await it.until('it to be told of', () => it.told.length === 2);
  assert.equal(it.told[0], 'down');
  assert.match(it.told[1] ?? '', /^hung: its check failed/);
});

/** An app that is not up before it is told so, and what the log says of it. */
async function slow(
  options: {
    isPassed?: boolean;
    wasUp?: boolean;
    announcer?: Announcer;
    astray?: string;
    startTimeoutMs?: number;
  } = {},
) {
  const it = { isPassed: options.isPassed === true, asked: 0, isTimed: false };
  const app = createServer((_request, response) => {
    it.asked += 1;
    response.writeHead(it.isPassed ? 200 : 503).end();
  });
  await new Promise<void>((resolve) => app.listen(0, '127.0.0.1', resolve));
  const { port } = app.address() as AddressInfo;
  const { startTimeoutMs = 60_000 } = options;
  const check = { type: 'http' as const, path: '/', intervalMs: 5, timeoutMs: 60_000, startTimeoutMs };
  const said: Said[] = [];
  const told: string[] = [];
  const time = Promise.withResolvers<void>();
  const monitor = new JobMonitor({
    job: jobOf('a', { ports: [{ port, service: { name: 'web', check } }] }),
    address: '127.0.0.1',
    hostId: 'h1',
    mayBeAnnounced: options.wasUp === true,
    wasUp: options.wasUp === true,
    untilSlow: (signal) => {
      it.isTimed = true;
      signal.addEventListener('abort', () => time.resolve(), { once: true });
      return time.promise;
    },
    listensElsewhere: (asked) => (asked === port ? options.astray : undefined),
    announcer: options.announcer ?? new AnnouncerProbe(),
    events: {
      onUp: () => told.push('up'),
      onDown: () => told.push('down'),
      onNeverUp: (message) => told.push(`never up: ${message}`),
      onAstray: (message) => told.push(message),
      onHung: () => told.push('hung'),
      onGoesLast: () => told.push('goes last'),
    },
    log: createLogger('test', { destination: { write: (line) => said.push(JSON.parse(line) as Said) } }),
  });
  const until = (what: string, test: () => boolean) => waitFor(test, { what, deadlineMs: 60_000, intervalMs: 5 });
  return Object.assign(it, {
    port,
    said,
    told,
    until,
    /** Its time to come up is over, and what follows from that has happened. */
    async isLate() {
      time.resolve();
      await setImmediate();
    },
    async [Symbol.asyncDispose]() {
      await monitor.stop({ keepAnnounced: false });
      app.closeAllConnections();
      await new Promise((resolve) => app.close(resolve));
    },
  });
}

type Said = { level: string; jobId?: string; address?: string; msg: string };

test('the log says once what a job waits for that takes its time to come up', async () => {
  await using it = await slow();
  await it.until('the first look to be through', () => it.asked >= 2);
  assert.deepEqual(it.said, []);
  await it.isLate();
  const waitsFor = `web on port ${it.port}: GET / on port ${it.port} answered 503`;
  assert.deepEqual(
    it.said.map(({ level, jobId, address, msg }) => ({ level, jobId, address, msg })),
    [
      {
        level: 'warn',
        jobId: 'h1-a',
        address: '127.0.0.1',
        msg: `its container has been up for 15 s and the job is not: ${waitsFor}`,
      },
    ],
  );
  it.isPassed = true;
  await it.until('it to be up', () => it.told.includes('up'));
  assert.equal(it.said.length, 1);
});

test('what waits for discovery alone is told as that', async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  let isAsked = false;
  const register = (): Promise<void> => {
    isAsked = true;
    return promise;
  };
  await using it = await slow({
    isPassed: true,
    announcer: { register, deregister: async () => undefined, vouchFor: () => undefined },
  });
  await it.until('discovery to be told', () => isAsked);
  await it.isLate();
  assert.match(it.said[0]?.msg ?? '', /: its check is passed, discovery has not taken it yet$/);
  resolve();
  await it.until('it to be up', () => it.told.includes('up'));
});

test('one that listens where nobody reaches it is told so, then and when it is given up', async () => {
  await using it = await slow({ astray: 'it listens on port 3000' });
  await it.until('the first look to be through', () => it.asked >= 2);
  await it.isLate();
  assert.deepEqual(it.told, [`nobody reaches it on port ${it.port} yet: it listens on port 3000`]);
  await using other = await slow({ astray: 'it listens on port 3000', startTimeoutMs: 150 });
  await other.until('it to be given up', () => other.told.length > 0);
  assert.match(
    other.told[0] ?? '',
    /^never up: not healthy 0 s after its start: .* answered 503; it listens on port 3000$/,
  );
});

test('of a job that is up in time, or was up before, no such thing is said', async () => {
  await using inTime = await slow({ isPassed: true });
  await using wasUp = await slow({ wasUp: true });
  await inTime.until('it to be up', () => inTime.told.includes('up'));
  await wasUp.until('it to be down', () => wasUp.told.includes('down'));
  for (const one of [inTime, wasUp]) {
    await one.isLate();
    assert.ok(one.said.every(({ msg }) => !msg.includes('has been up for')));
  }
  assert.deepEqual([inTime.isTimed, wasUp.isTimed], [true, false]);
});
