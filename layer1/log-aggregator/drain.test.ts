import assert from 'node:assert/strict';
import { mkdir, rm, truncate } from 'node:fs/promises';
import { createServer as createHttpServer } from 'node:http';
import { createServer as createTcpServer } from 'node:net';
import type { AddressInfo, Server, Socket } from 'node:net';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { createServer as createTlsServer } from 'node:tls';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { fakeClock } from '@flynn/kit/clock';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { Slots } from '@flynn/kit/slots';
import { createAuthority, issueCertificate } from '@flynn/kit/tls';
import { freePort } from '@flynn/kit/testing-ports';
import type { Drain, DrainStatus } from './api.ts';
import { DrainStates } from './drain-state.ts';
import { openTransport } from './drain-transport.ts';
import { DrainRunner } from './drain.ts';
import { Drains } from './drains.ts';
import type { DrainPlaces } from './drains.ts';
import type { History } from './history.ts';
import { syslogMessage } from './syslog.ts';
import { encoded, line, openTestHistory, testLimits } from './testing.ts';
import type { TestHistory } from './testing.ts';
import { bornMsOf, keepBornMs } from './volume.ts';

const deadlineMs = 60_000;
const range = (from: number, to: number): string[] =>
  Array.from({ length: to - from }, (_, index) => `m${from + index}`);

async function listen(server: Server, port = 0): Promise<number> {
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

/** A syslog server; takes octet-counted messages apart. */
async function startSyslog(t: TestContext, options: { port?: number; tls?: { key: string; cert: string } } = {}) {
  const texts: string[] = [];
  const sockets = new Set<Socket>();
  const serve = (socket: Socket) => {
    sockets.add(socket);
    let rest = Buffer.alloc(0);
    socket.on('error', () => {});
    socket.on('data', (chunk: Buffer) => {
      rest = Buffer.concat([rest, chunk]);
      for (;;) {
        const [, count] = /^(\d+) /.exec(rest.toString('latin1', 0, 20)) ?? [];
        const head = (count ?? '').length + 1;
        if (count === undefined || rest.length < head + Number(count)) return;
        texts.push(rest.toString('utf8', head, head + Number(count)));
        rest = rest.subarray(head + Number(count));
      }
    });
  };
  const server = options.tls === undefined ? createTcpServer(serve) : createTlsServer(options.tls, serve);
  // Some come back where they were: nobody is to have taken that port meanwhile.
  const port = await listen(server, options.port ?? (await freePort()));
  const close = async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  };
  t.after(close);
  const messages = () => texts.map((text) => text.replace(/^(?:\S+ ){7}/, ''));
  /** What is certain for a drain may be on its way here. */
  const has = (count: number) => waitFor(() => texts.length >= count, { what: `${count} messages`, deadlineMs });
  return { texts, messages, has, port, close };
}

async function startDrains(
  t: TestContext,
  env: TestHistory,
  { history = env.history, bornMs = 0, ...limits }: { history?: History; bornMs?: number; places?: DrainPlaces } = {},
) {
  const appName = (app: string) => `name-of-${app}`;
  const drains = new Drains({ dir: env.dir, history, bornMs, ...limits, appName, log: silentLogger() });
  t.after(() => drains.close());
  const statusOf = (id: string): DrainStatus => {
    const status = drains.status.find((each) => each.id === id);
    assert.ok(status);
    return status;
  };
  return { drains, statusOf };
}

const drain = (changes: Partial<Drain>): Drain => ({ id: 'd1', url: '', ...changes });

test('a line as a syslog message has its length, severity, time, host, app, process and stream in front', () => {
  const message = syslogMessage(line(1, { stream: 'stderr', message: 'käse', hostId: 'h 1' }), 'shop').toString();
  assert.equal(message, '64 <11>1 2030-01-01T00:00:00.000000Z h?1 shop web.j1 stderr - käse');
  const [, count, rest = ''] = /^(\d+) (.*)$/.exec(message) ?? [];
  assert.equal(Buffer.byteLength(rest), Number(count));
});

test('a syslog drain gets what its app writes from then on, and nothing of other apps', async (t) => {
  await using env = await openTestHistory();
  const { history } = env;
  await history.append('a', encoded(0, 5));
  const server = await startSyslog(t);
  const { drains, statusOf } = await startDrains(t, env);
  await drains.add(drain({ appId: 'a', url: `syslog+tcp://127.0.0.1:${server.port}` }));
  await history.append('b', encoded(100, 5));
  await history.append('a', encoded(5, 5));
  await waitFor(() => statusOf('d1').sent === 5, { what: 'five lines to be certain', deadlineMs });
  await server.has(5);
  assert.deepEqual(server.messages(), range(5, 10));
  assert.match(server.texts[0] ?? '', /^<14>1 2030-01-01T00:00:00\.000000Z h1 name-of-a web\.j1 stdout - m5$/);
  assert.deepEqual(statusOf('d1'), { id: 'd1', sent: 5, failed: 0, skipped: 0, waiting: 0 });
  await drains.close();
});

test('a drain of somebody without a say in the cluster connects to nothing inside it, by address or by name', async (t) => {
  await using env = await openTestHistory();
  const server = await startSyslog(t);
  const { drains, statusOf } = await startDrains(t, env);
  for (const [id, url] of [
    ['address', `syslog+tcp://127.0.0.1:${server.port}`],
    ['name', `syslog+tcp://localhost:${server.port}`],
    ['http', `http://[::1]:${server.port}/in`],
    ['http-name', `http://localhost:${server.port}/in`],
  ] as const)
    await drains.add(drain({ id, url, isOutside: true }));
  await env.history.append('a', encoded(0, 3));
  for (const { id } of drains.status) {
    await waitFor(() => statusOf(id).error !== undefined, { what: `the refusal of ${id}`, deadlineMs });
    assert.match(statusOf(id).error ?? '', /is inside the cluster/, id);
    assert.equal(statusOf(id).waiting, 3);
  }
  assert.deepEqual(server.messages(), []);
  await drains.close();
});

test('a drain of an admin leads into the cluster, but to no link-local address, nor by a name to this machine', async (t) => {
  await using env = await openTestHistory();
  const server = await startSyslog(t);
  const { drains, statusOf } = await startDrains(t, env);
  await drains.add(drain({ id: 'inside', url: `syslog+tcp://127.0.0.1:${server.port}` }));
  for (const [id, url] of [
    ['link', 'http://169.254.169.254/latest'],
    ['link-syslog', 'syslog+tcp://[fe80::1]:514'],
    ['name', `syslog+tcp://localhost:${server.port}`],
  ] as const)
    await drains.add(drain({ id, url }));
  await env.history.append('a', encoded(0, 3));
  for (const id of ['link', 'link-syslog', 'name']) {
    await waitFor(() => statusOf(id).error !== undefined, { what: `the refusal of ${id}`, deadlineMs });
    assert.match(statusOf(id).error ?? '', /is inside the cluster/, id);
  }
  await server.has(3);
  assert.deepEqual(server.messages(), range(0, 3));
  await drains.close();
});

test('a drain that is older than the volume gets what hosts told again since; one that is not begins at the end', async (t) => {
  await using env = await openTestHistory();
  const server = await startSyslog(t);
  const now = Date.now();
  const volume = join(env.dir, 'volume');
  await mkdir(volume);
  const born = { bornMs: now, isKept: true };
  assert.deepEqual(await bornMsOf(volume, { now, log: silentLogger() }), born);
  assert.deepEqual(await bornMsOf(volume, { now: now + 1, log: silentLogger() }), born, 'it is kept');
  const { bornMs } = born;
  const { drains, statusOf } = await startDrains(t, env, { bornMs });
  await env.history.append('a', encoded(0, 5));
  const made = (afterMs: number) => new Date(bornMs + afterMs).toISOString();
  const url = `syslog+tcp://127.0.0.1:${server.port}`;
  await drains.add(drain({ id: 'older', url, createdAt: made(-86_400_000) }));
  await drains.add(drain({ id: 'clock-behind', url, createdAt: made(1_000) }));
  await drains.add(drain({ id: 'later', url, createdAt: made(600_000) }));
  await drains.add(drain({ id: 'untold', url }));
  await env.history.append('a', encoded(5, 1));
  const ids = ['older', 'clock-behind', 'later', 'untold'];
  await waitFor(() => ids.every((id) => statusOf(id).waiting === 0), { what: 'all lines', deadlineMs });
  assert.deepEqual(
    ids.map((id) => statusOf(id).sent),
    [6, 6, 1, 1],
  );
  await drains.close();
});

test('a volume that a version before has filled is older than any drain', async () => {
  await using env = await openTestHistory();
  const born = { bornMs: 0, isKept: true };
  assert.deepEqual(await bornMsOf(env.dir, { now: 1_000, log: silentLogger() }), born);
});

test('where it cannot be written since when a volume is there, that keeps nobody from its lines, and is tried again', async (t) => {
  await using env = await openTestHistory();
  const log = silentLogger();
  // A name that is no file's, as if there were no room for one.
  const inTheWay = join(env.dir, 'volume.json');
  await mkdir(join(inTheWay, 'x'), { recursive: true });
  const born = await bornMsOf(env.dir, { now: 1_000, log });
  assert.deepEqual(born, { bornMs: 1_000, isKept: false });
  const stop = new AbortController();
  t.after(() => stop.abort());
  const keeping = keepBornMs(env.dir, born.bornMs, { signal: stop.signal, log, everyMs: 10 });
  await rm(inTheWay, { recursive: true });
  await keeping;
  assert.deepEqual(await bornMsOf(env.dir, { now: 2_000, log }), { bornMs: 1_000, isKept: true });
});

test('over TLS only who is trusted gets anything', async (t) => {
  await using env = await openTestHistory();
  const authority = await createAuthority('test');
  const issued = await issueCertificate(authority, { name: '127.0.0.1', addresses: ['127.0.0.1'] });
  const server = await startSyslog(t, { tls: { key: issued.privateKey, cert: issued.certificate } });
  const { drains, statusOf } = await startDrains(t, env);
  const url = `syslog+tls://127.0.0.1:${server.port}`;
  await drains.add(drain({ id: 'trusting', url, ca: authority.certificate }));
  await drains.add(drain({ id: 'wary', url }));
  await env.history.append('a', encoded(0, 3));
  await waitFor(() => server.messages().length === 3, { what: 'the lines', deadlineMs });
  await waitFor(() => statusOf('wary').error !== undefined, { what: 'the refusal', deadlineMs });
  assert.match(statusOf('wary').error ?? '', /certificate/);
  assert.deepEqual(server.messages(), range(0, 3));
  assert.equal(statusOf('wary').waiting, 3);
  await drains.close();
});

test('what an outage held up is sent from disk afterwards, in order, and over a restart of the aggregator', async (t) => {
  await using env = await openTestHistory();
  const { history } = env;
  const server = await startSyslog(t);
  const { drains, statusOf } = await startDrains(t, env);
  const wanted = drain({ url: `syslog+tcp://127.0.0.1:${server.port}` });
  await drains.add(wanted);
  await history.append('a', encoded(0, 10));
  await waitFor(() => statusOf('d1').sent === 10, { what: 'the first lines', deadlineMs });
  await server.close();
  await history.append('a', encoded(10, 10));
  await waitFor(() => statusOf('d1').error !== undefined, { what: 'the outage to be seen', deadlineMs });
  assert.equal(statusOf('d1').waiting, 10);
  const { since } = statusOf('d1');
  assert.ok(since !== undefined && Date.parse(since) <= Date.now());
  await drains.close();
  await history.close();
  const reopened = await env.reopen();
  await reopened.append('a', encoded(20, 10));
  const back = await startSyslog(t, { port: server.port });
  const again = await startDrains(t, env, { history: reopened });
  await again.drains.add(wanted);
  await waitFor(() => again.statusOf('d1').sent === 30, { what: 'all of it', deadlineMs });
  await back.has(20);
  assert.deepEqual(back.messages(), range(10, 30));
  assert.equal(again.statusOf('d1').since, undefined);
  await again.drains.close();
});

test('lines handed to a connection that broke before they were certain are sent again', async (t) => {
  await using env = await openTestHistory();
  const server = await startSyslog(t);
  await env.history.append('a', encoded(0, 5));
  const clock = fakeClock(1_000_000);
  const wanted = drain({ url: `syslog+tcp://127.0.0.1:${server.port}` });
  const transport = openTransport(wanted);
  const runner = new DrainRunner({
    drain: wanted,
    history: env.history,
    transport,
    places: { large: new Slots(1), keptForQuick: 0, little: new Slots(1), failing: new Slots(1) },
    state: { positions: {}, sent: 0, failed: 0, skipped: 0 },
    save: async () => {},
    appName: (app) => app,
    log: silentLogger(),
    clock,
  });
  const stop = new AbortController();
  t.after(() => stop.abort());
  const running = runner.run(stop.signal);
  // Its clock stands still: nothing becomes certain before the connection is broken.
  await server.has(5);
  await server.close();
  await waitFor(() => transport.isBroken, { what: 'the break to be seen', deadlineMs });
  const back = await startSyslog(t, { port: server.port });
  const isCertain = async () => {
    await clock.advance(500);
    return runner.status.sent === 5;
  };
  await waitFor(isCertain, { what: 'certainty', deadlineMs });
  await back.has(5);
  assert.deepEqual(back.messages(), range(0, 5));
  stop.abort();
  await running;
});

test('how far a drain is gets to the disk after the lines that were sent, so that a power cut takes none from it', async (t) => {
  await using env = await openTestHistory();
  const server = await startSyslog(t);
  const { drains, statusOf } = await startDrains(t, env);
  await drains.add(drain({ url: `syslog+tcp://127.0.0.1:${server.port}` }));
  const states = new DrainStates(env.dir);
  const written = Promise.withResolvers<void>();
  const sync = t.mock.method(env.history, 'sync', () => written.promise);
  await env.history.append('a', encoded(0, 5));
  await waitFor(() => statusOf('d1').sent === 5 && sync.mock.callCount() === 1, { what: 'the lines', deadlineMs });
  assert.deepEqual((await states.read('d1'))?.positions, {});
  written.resolve();
  const saved = async (): Promise<boolean> => (await states.read('d1'))?.sent === 5;
  await waitFor(saved, { what: 'the place to be saved', deadlineMs });
  await drains.close();
});

test('what was deleted to make room before it could be sent is counted', async (t) => {
  const limits = { ...testLimits, bytes: 3_000, segmentBytes: 500 };
  await using env = await openTestHistory({ limits });
  const server = await startSyslog(t);
  await server.close();
  const { drains, statusOf } = await startDrains(t, env);
  await env.history.append('a', encoded(100, 1));
  await drains.add(drain({ url: `syslog+tcp://127.0.0.1:${server.port}` }));
  for (let at = 101; at < 200; at += 1) await env.history.append('a', encoded(at));
  const back = await startSyslog(t, { port: server.port });
  await waitFor(() => statusOf('d1').waiting === 0, { what: 'the rest', deadlineMs });
  const { sent, skipped, lost } = statusOf('d1');
  assert.equal(lost?.count, skipped);
  assert.equal(sent + skipped, 99);
  await back.has(sent);
  assert.ok(skipped > 50 && sent > 5, `${sent} sent, ${skipped} skipped`);
  assert.deepEqual(back.messages().slice(-3), range(197, 200));
  await drains.close();
});

test('a batch that is too large for the other side goes in smaller ones; a line that is too large alone is given up and counted', async (t) => {
  await using env = await openTestHistory();
  const limitBytes = 2_000;
  const got: string[] = [];
  let refusals = 0;
  const server = createHttpServer(async (request, response) => {
    const body = Buffer.concat(await Array.fromAsync(request)).toString();
    const isTooLarge = Buffer.byteLength(body) > limitBytes;
    if (isTooLarge) refusals += 1;
    else
      got.push(
        ...body
          .trimEnd()
          .split('\n')
          .map((text) => (JSON.parse(text) as { message: string }).message),
      );
    response.writeHead(isTooLarge ? 413 : 200).end();
  });
  const port = await listen(server);
  t.after(() => server.close());
  const { drains, statusOf } = await startDrains(t, env);
  await drains.add(drain({ url: `http://127.0.0.1:${port}/in` }));
  const giant = encoded(0, 1, { message: 'x'.repeat(limitBytes) });
  await env.history.append('a', [...encoded(0, 40), ...giant, ...encoded(40, 40)]);
  await waitFor(() => statusOf('d1').sent + statusOf('d1').failed === 81, { what: 'all lines', deadlineMs });
  assert.deepEqual(got, range(0, 80));
  assert.deepEqual([statusOf('d1').sent, statusOf('d1').failed], [80, 1]);
  assert.equal(statusOf('d1').error, undefined, 'it takes lines');
  assert.equal(statusOf('d1').gaveUp?.count, 1);
  assert.match(statusOf('d1').gaveUp?.why ?? '', /answered 413$/);
  const before = refusals;
  await env.history.append('a', encoded(80, 40));
  await waitFor(() => statusOf('d1').sent === 120, { what: 'the rest', deadlineMs });
  assert.equal(refusals, before, 'how much it takes is known by then');
  await drains.close();
});

test('an https drain gets batches with a key, again after a failure; what is refused for good is given up and counted', async (t) => {
  await using env = await openTestHistory();
  const answers = [503, 200, 400, 200];
  const bodies: { body: string; authorization: string | undefined; type: string | undefined }[] = [];
  const server = createHttpServer(async (request, response) => {
    const body = Buffer.concat(await Array.fromAsync(request)).toString();
    bodies.push({ body, authorization: request.headers.authorization, type: request.headers['content-type'] });
    response.writeHead(answers.shift() ?? 200).end('thanks');
  });
  const port = await listen(server);
  t.after(() => server.close());
  const { drains, statusOf } = await startDrains(t, env);
  await drains.add(drain({ url: `http://me:secret@127.0.0.1:${port}/in?x=1` }));
  await env.history.append('a', encoded(0, 3));
  await waitFor(() => statusOf('d1').sent === 3, { what: 'the second try', deadlineMs });
  assert.equal(bodies[0]?.body, bodies[1]?.body);
  const first: unknown = JSON.parse(bodies[1]?.body.split('\n')[0] ?? '');
  assert.deepEqual(first, { appId: 'a', app: 'name-of-a', ...line(0) });
  assert.equal(bodies[1]?.authorization, `Basic ${Buffer.from('me:secret').toString('base64')}`);
  assert.equal(bodies[1]?.type, 'application/x-ndjson');
  await env.history.append('a', encoded(3, 2));
  await waitFor(() => statusOf('d1').failed === 2, { what: 'the refusal', deadlineMs });
  assert.equal(statusOf('d1').error, undefined, 'it takes lines');
  await env.history.append('a', encoded(5, 1));
  await waitFor(() => statusOf('d1').sent === 4, { what: 'the next line', deadlineMs });
  assert.equal(statusOf('d1').error, undefined);
  answers.push(422);
  await env.history.append('a', encoded(6, 1));
  await waitFor(() => statusOf('d1').failed === 3, { what: 'another refusal', deadlineMs });
  const { gaveUp } = statusOf('d1');
  assert.match(`${gaveUp?.count}: ${gaveUp?.why}`, /^3: \S+ answered 422$/);
  await drains.close();
  const again = await startDrains(t, env);
  await again.drains.add(drain({ url: `http://me:secret@127.0.0.1:${port}/in?x=1` }));
  assert.deepEqual(again.statusOf('d1').gaveUp, gaveUp, 'it is known to the next process');
  await again.drains.close();
});

test('a drain that takes nothing costs neither memory nor the other drains anything', async (t) => {
  await using env = await openTestHistory({ limits: { bytes: 1e8, segmentBytes: 1e7, totalBytes: 1e9 } });
  const stalled = createTcpServer((socket) => socket.on('error', () => {}).pause());
  const port = await listen(stalled);
  t.after(() => stalled.close());
  const server = await startSyslog(t);
  const { drains, statusOf } = await startDrains(t, env);
  await drains.add(drain({ id: 'stalled', url: `syslog+tcp://127.0.0.1:${port}` }));
  await drains.add(drain({ id: 'good', url: `syslog+tcp://127.0.0.1:${server.port}` }));
  const message = 'x'.repeat(9_000);
  for (let at = 0; at < 20; at += 1) await env.history.append('a', encoded(at * 100, 100, { message }));
  await waitFor(() => statusOf('good').sent === 2_000, { what: 'the good one to have it all', deadlineMs });
  assert.ok(statusOf('stalled').waiting > 0);
  await drains.close();
});

test('however many drains take nothing, so many hold lines at once, and the others get theirs', async (t) => {
  await using env = await openTestHistory();
  const counts = { large: 2, keptForQuick: 1, little: 4, failing: 2 };
  const { drains, statusOf } = await startDrains(t, env, { places: { apps: counts, admins: counts } });
  let held = 0;
  let most = 0;
  const hanging = createHttpServer((request) => {
    held += 1;
    most = Math.max(most, held);
    request.socket.once('close', () => (held -= 1));
  });
  const port = await listen(hanging);
  t.after(() => {
    hanging.closeAllConnections();
    hanging.close();
  });
  const server = await startSyslog(t);
  // Who takes nothing is given up after a while, here a shorter one.
  const timeout = AbortSignal.timeout.bind(AbortSignal);
  t.mock.method(AbortSignal, 'timeout', (ms: number) => timeout(ms === 30_000 ? 300 : ms));
  const count = 30;
  for (let at = 0; at < count; at += 1) await drains.add(drain({ id: `h${at}`, url: `http://127.0.0.1:${port}/` }));
  await drains.add(drain({ id: 'good', url: `syslog+tcp://127.0.0.1:${server.port}` }));
  await env.history.append('a', encoded(0, 5));
  await waitFor(() => statusOf('good').sent === 5, { what: 'the good one to have its lines', deadlineMs });
  const failing = () => drains.status.filter(({ error }) => error !== undefined).length;
  await waitFor(() => failing() === count, { what: 'the others to be given up', deadlineMs });
  await env.history.append('a', encoded(5, 5));
  await waitFor(() => statusOf('good').sent === 10, { what: 'the next lines', deadlineMs });
  // A connection that is given up is closed here a moment later than there.
  assert.ok(most <= 16, `${most} at once`);
  await drains.close();
});

test('however many drains are slow, though they do not fail, the others get theirs', async (t) => {
  await using env = await openTestHistory();
  const { drains, statusOf } = await startDrains(t, env);
  let held = 0;
  const slow = createHttpServer(() => void (held += 1));
  const port = await listen(slow);
  t.after(() => {
    slow.closeAllConnections();
    slow.close();
  });
  const server = await startSyslog(t);
  // Nobody is given up for being slow while this goes on.
  const timeout = AbortSignal.timeout.bind(AbortSignal);
  t.mock.method(AbortSignal, 'timeout', (ms: number) => timeout(ms === 30_000 ? 10 * deadlineMs : ms));
  const count = 40;
  for (let at = 0; at < count; at += 1) await drains.add(drain({ id: `s${at}`, url: `http://127.0.0.1:${port}/` }));
  await env.history.append('a', encoded(0, 5));
  await waitFor(() => held === count, { what: 'all of them to be sending', deadlineMs });
  await drains.add(drain({ id: 'good', url: `syslog+tcp://127.0.0.1:${server.port}` }));
  // More than goes at once where others hold what there is room for.
  await env.history.append('b', encoded(5, 1_000));
  await waitFor(() => statusOf('good').sent === 1_000, { what: 'the good one to have its lines', deadlineMs });
  await server.has(1_000);
  assert.deepEqual(server.messages(), range(5, 1_005));
  assert.equal(drains.status.filter(({ error }) => error !== undefined).length, 0);
  await drains.close();
});

test('lines that the disk did not keep are told as such, and not as those for which there was no room', async (t) => {
  const size = encoded(100)[0]?.length ?? 0;
  await using env = await openTestHistory({ limits: { ...testLimits, segmentBytes: size * 5 } });
  const server = await startSyslog(t);
  for (let at = 100; at < 110; at += 1) await env.history.append('a', encoded(at));
  const [first] = (await env.history.app('a')).segments;
  assert.ok(first);
  await truncate(first.file, 3 * size);
  const history = await env.reopen();
  const { drains, statusOf } = await startDrains(t, env, { history, bornMs: Date.now() });
  const createdAt = new Date(0).toISOString();
  await drains.add(drain({ url: `syslog+tcp://127.0.0.1:${server.port}`, createdAt }));
  await waitFor(() => statusOf('d1').sent === 8, { what: 'the others', deadlineMs });
  const { skipped, lost, damaged } = statusOf('d1');
  assert.deepEqual([skipped, lost, damaged?.count], [2, undefined, 2]);
  assert.match(damaged?.why ?? '', /disk of the log aggregator did not keep them/);
  await drains.close();
});

test('a batch that is given up before it has a connection fails for who sent it, and ends no process', async (t) => {
  const server = createHttpServer();
  const port = await listen(server);
  t.after(() => server.close());
  const transport = openTransport({ url: `http://127.0.0.1:${port}/` });
  const batch = [{ app: 'a', appName: 'a', line: line(0) }];
  await assert.rejects(transport.send(batch, AbortSignal.abort()), /cannot reach 127\.0\.0\.1/);
  // It fails once more a moment later: what nobody listens to would fail this test.
  await setImmediate();
  await transport.close();
});

test('a drain that was removed leaves nothing, and one that is added again begins at the end', async (t) => {
  await using env = await openTestHistory();
  const server = await startSyslog(t);
  const { drains, statusOf } = await startDrains(t, env);
  const wanted = drain({ url: `syslog+tcp://127.0.0.1:${server.port}` });
  await drains.add(wanted);
  await drains.keepOnly(new Set());
  assert.deepEqual(drains.status, []);
  await env.history.append('a', encoded(0, 5));
  await drains.add(wanted);
  await env.history.append('a', encoded(5, 1));
  await waitFor(() => statusOf('d1').sent === 1, { what: 'the line', deadlineMs });
  await server.has(1);
  assert.deepEqual(server.messages(), ['m5']);
  await drains.close();
});
