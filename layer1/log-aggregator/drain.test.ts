import assert from 'node:assert/strict';
import { truncate } from 'node:fs/promises';
import { createServer as createHttpServer } from 'node:http';
import { setImmediate } from 'node:timers/promises';
import { test } from 'node:test';
import { fakeClock } from '@flynn/kit/clock';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { Slots } from '@flynn/kit/slots';
import { createAuthority, issueCertificate } from '@flynn/kit/tls';
import { DrainStates } from './drain-state.ts';
import { openTransport } from './drain-transport.ts';
import { DrainRunner } from './drain.ts';
import { syslogMessage } from './syslog.ts';
import { encoded, line, openTestHistory, testLimits } from './testing.ts';
import { deadlineMs, range, listen, startSyslog, startDrains, drain } from './drain-fixture.ts';

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
