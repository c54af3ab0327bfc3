import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { fakeClock } from '@flynn/kit/clock';
import { handle } from '@flynn/kit/http-server';
import { startLoopback } from '@flynn/kit/loopback';
import { waitFor } from '@flynn/kit/retry';
import { type Line, linesQuerySchema, routes } from '@flynn/log-aggregator/api';
import { runCli } from '../program.ts';
import { openDeskWithController } from '../testing.ts';

const line = (message: string, stream: Line['stream'] = 'stdout'): Line => ({
  jobId: 'host1-abc',
  hostId: 'host1',
  processType: 'web',
  stream,
  timestamp: '2026-01-02T03:04:05.678901Z',
  message,
});

/** A log aggregator with these lines; one that is followed goes on until its reader has gone. */
async function openLog(lines: readonly Line[]) {
  const queries: unknown[] = [];
  const aggregator = await startLoopback([
    handle(routes.read, async ({ query, signal }) => {
      queries.push(query);
      async function* body() {
        for (const one of lines) yield Buffer.from(`${JSON.stringify(one)}\n`);
        if (query.follow) await new Promise((resolve) => signal.addEventListener('abort', resolve));
      }
      return { body: Readable.from(body()) };
    }),
  ]);
  const env = await openDeskWithController({ logAggregatorUrl: aggregator.server.url });
  await env.desk.run(['create', 'hello']);
  return {
    desk: env.desk,
    controller: env.controller,
    queries,
    async [Symbol.asyncDispose]() {
      await env[Symbol.asyncDispose]();
      await aggregator[Symbol.asyncDispose]();
    },
  };
}

const separators = 'é a\u2028b\u2029c\rd';

test('`log` prints lines with time and source, and keeps every character of them', async () => {
  await using env = await openLog([line('one'), line(separators)]);
  const { code, stdout } = await env.desk.run(['-a', 'hello', 'log']);
  assert.equal(code, 0);
  const source = '2026-01-02T03:04:05.678Z web[host1-abc]:';
  assert.equal(stdout, `${source} one\n${source} ${separators}\n`);
  assert.equal((await env.desk.run(['-a', 'hello', 'log', '--raw'])).stdout, `one\n${separators}\n`);
});

test('`log -s` parts stderr from stdout', async () => {
  await using env = await openLog([line('out'), line('err', 'stderr')]);
  const { stdout, stderr } = await env.desk.run(['-a', 'hello', 'log', '-s', '--raw']);
  assert.equal(stdout, 'out\n');
  assert.equal(stderr, 'err\n');
  assert.equal((await env.desk.run(['-a', 'hello', 'log', '--raw'])).stdout, 'out\nerr\n');
});

test('`log --json` prints a value per line', async () => {
  await using env = await openLog([line('one'), line('two \u001b[2J\u009b')]);
  const { stdout } = await env.desk.run(['-a', 'hello', 'log', '--json']);
  const values = stdout
    .trimEnd()
    .split('\n')
    .map((text): unknown => JSON.parse(text));
  assert.deepEqual(values, [line('one'), line('two \u001b[2J\u009b')]);
  assert.ok(stdout.includes(String.raw`two \u001b[2J\u009b`), stdout);
});

test('what is asked for is passed on', async () => {
  await using env = await openLog([]);
  await env.desk.run(['-a', 'hello', 'log', '-n', '5', '-t', 'web', '-j', 'host1-abc']);
  assert.deepEqual(env.queries, [{ follow: false, lines: 5, processType: 'web', jobId: 'host1-abc' }]);
});

test('times and texts are passed on, and then all lines are wanted', async () => {
  await using env = await openLog([]);
  const times = ['--since', '2030-01-31T12:00+02:00', '--until', '2030-02-01', '--search', 'a "b"'];
  assert.equal((await env.desk.run(['-a', 'hello', 'log', ...times])).code, 0);
  const wanted = { since: '2030-01-31T10:00:00.000Z', until: '2030-02-01T00:00:00.000Z', search: 'a "b"' };
  assert.deepEqual(env.queries, [{ follow: false, lines: 10_000, ...wanted }]);
  await env.desk.run(['-a', 'hello', 'log', '--since', '10m', '-n', '3']);
  const { since = '', lines } = linesQuerySchema.pick({ since: true, lines: true }).parse(env.queries[1]);
  assert.equal(lines, 3);
  const agoMs = Date.now() - Date.parse(since);
  assert.ok(agoMs >= 600_000 && agoMs < 660_000, `${agoMs} ms ago`);
});

test('what is no time, number or release is refused with what to write instead', async () => {
  await using env = await openLog([]);
  const refused = async (...args: string[]) => env.desk.run(['-a', 'hello', 'log', ...args]);
  for (const time of ['yesterday', '10', '2030-13-45', '2030-02-30T10:00Z']) {
    const { code, stderr } = await refused('--since', time);
    assert.equal(code, 2);
    assert.match(stderr, /is no time: write how long ago, as 10m or 2h/);
  }
  assert.match((await refused('-n', '10001')).stderr, /from 0 to 10000/);
  assert.match((await refused('--release', 'v9')).stderr, /release/);
  assert.deepEqual(env.queries, []);
});

test('`log --release` asks for the release behind the number', async () => {
  await using env = await openLog([]);
  const { app, release } = await env.controller.deployApp('released', { web: {} });
  await env.desk.run(['-a', app.name, 'log', '--release', 'v1']);
  assert.deepEqual(env.queries, [{ follow: false, releaseId: release.id }]);
});

test('where lines are missing the platform says so, not a job', async () => {
  await using env = await openLog([{ ...line('2 lines were left out here'), jobId: '', processType: '' }]);
  assert.equal(
    (await env.desk.run(['-a', 'hello', 'log'])).stdout,
    '2026-01-02T03:04:05.678Z flynn: 2 lines were left out here\n',
  );
});

test('`log -f` shows lines as they come, until Ctrl-C', async () => {
  await using env = await openLog([line('one')]);
  const io = env.desk.io();
  const ran = runCli(['-a', 'hello', 'log', '-f', '--raw'], io);
  await waitFor(() => io.stdout.text === 'one\n', { what: 'the line', deadlineMs: 30_000 });
  assert.equal(io.signal('SIGINT'), 1);
  assert.equal(await ran, 0);
  assert.equal(io.stderr.text, '');
});

test('`log -f --until` ends at that time, and at once where it has passed', async () => {
  await using env = await openLog([line('one')]);
  const clock = fakeClock(Date.parse('2030-01-31T12:00Z'));
  const run = (until: string, io = env.desk.io({ clock })) => {
    return { io, code: runCli(['-a', 'hello', 'log', '-f', '--raw', '--until', until], io) };
  };
  const passed = run('2030-01-31T11:59Z');
  assert.equal(await passed.code, 0);
  assert.equal(passed.io.stdout.text, 'one\n');
  assert.deepEqual(env.queries, [{ follow: false, lines: 10_000, until: '2030-01-31T11:59:00.000Z' }]);

  const { io, code } = run('2030-03-31T12:00Z');
  await waitFor(() => io.stdout.text === 'one\n', { what: 'the line', deadlineMs: 30_000 });
  const early = 'it goes on';
  await clock.advance(59 * 86_400_000);
  assert.equal(await Promise.race([code, new Promise((resolve) => setImmediate(resolve, early))]), early);
  await clock.advance(3_000);
  assert.equal(await code, 0);
  assert.equal(io.stderr.text, '');
});
