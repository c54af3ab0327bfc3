import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LatestFigures } from '@flynn/controller/figures/model';
import { figures } from '@flynn/controller/figures/api';
import { FlynnError } from '@flynn/kit/errors';
import { handle, startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { figuresTable, fitted, oldNote } from '../apps/figures.ts';
import { saveClusters } from '../clusters/clusters.ts';
import { runCli } from '../program.ts';
import { Desk, openDeskWithController, quickClock } from '../testing.ts';

type AppFigures = LatestFigures['apps'][number];
const mebibyte = 1024 ** 2;

function appOf(name: string, types: AppFigures['types'], more: Partial<AppFigures> = {}): AppFigures {
  return { appId: `id-${name}`, name, isSystem: false, isLeftOut: false, types, ...more };
}

function typeOf(type: string, cpu: number | null, mebibytes: number | null): AppFigures['types'][number] {
  const memoryBytes = mebibytes === null ? null : mebibytes * mebibyte;
  return { type, jobs: 2, cpu, memoryBytes, memoryLimitBytes: 512 * mebibyte };
}

const busy = {
  perSecond: 12.34,
  clientErrorsPerSecond: 0.5,
  serverErrorsPerSecond: 0,
  inFlight: 3,
  p50Ms: 4,
  p95Ms: 41.6,
  p99Ms: null,
};

test('the hungriest app comes first, and of an app its hungriest type; requests stand at web', () => {
  const table = figuresTable([
    appOf('idle', [typeOf('web', 0, 10)]),
    appOf('blog', [typeOf('web', 0, 30)]),
    appOf('shop', [typeOf('web', 0.25, 62), typeOf('worker', 1.5, 100)], { requests: busy }),
  ]);
  assert.deepEqual(
    table
      .trimEnd()
      .split('\n')
      .map((line) => line.split(/ {2,}/)),
    [
      ['APP', 'TYPE', 'JOBS', 'CPU', 'MEMORY', 'REQ/S', '4XX/S', '5XX/S', 'P95', 'IN-FLIGHT'],
      ['shop', 'worker', '2', '1.50', '100.0MB/512.0MB'],
      ['shop', 'web', '2', '0.25', '62.0MB/512.0MB', '12.3', '0.5', '0.0', '42ms', '3'],
      ['blog', 'web', '2', '0.00', '30.0MB/512.0MB', '-', '-', '-', '-', '-'],
      ['idle', 'web', '2', '0.00', '10.0MB/512.0MB', '-', '-', '-', '-', '-'],
    ],
  );
});

test('what is not known is a dash, and an app without jobs is told while it is asked for something', () => {
  const lines = figuresTable([
    appOf('gap', [typeOf('web', null, null)]),
    appOf('off', [], { requests: busy }),
    appOf('quiet', [], { requests: { ...busy, perSecond: 0, inFlight: 0 } }),
  ]).split('\n');
  assert.match(lines[1] ?? '', /^gap +web +2 +- +-/);
  assert.match(lines[2] ?? '', /^off +- +0 +- +- +12\.3/);
  assert.equal(lines[3], '');
});

test('a table has no more lines than there is room for, nor longer ones', () => {
  assert.deepEqual(fitted('head\none\ntwo\nthree\n', { columns: 80, rows: 4 }), ['head', 'one', 'two', 'three']);
  assert.deepEqual(fitted('head\none\ntwo\nthree\n', { columns: 3, rows: 3 }), ['hea', 'one', '… a']);
});

test('figures that are not of now are told as such', () => {
  const now = Date.parse('2030-01-01T12:00:00Z');
  assert.deepEqual([oldNote({}, now), oldNote({ at: '2030-01-01T11:59:30Z' }, now)], ['', '']);
  assert.match(
    oldNote({ at: '2030-01-01T11:30:00Z' }, now),
    /^these are of 30m ago: the controller has not looked since/,
  );
});

test('in a pipe it is told once: of all apps, of one, as JSON; of one that is not there it says so', async () => {
  await using env = await openDeskWithController();
  const { desk, controller } = env;
  const early = await desk.run(['top']);
  assert.deepEqual(
    [early.code, early.stdout],
    [0, 'the controller has only just begun to look: there are figures within 15 s\n'],
  );
  await controller.deployApp('shop', { web: { memoryBytes: 512 * mebibyte } });
  await controller.deployApp('blog', { web: {} });
  await controller.jobsOf('shop', 1);
  await controller.jobsOf('blog', 1);
  for (const host of controller.hosts) host.memoryBytesOf = () => 20 * mebibyte;
  await controller.web.figures.look(new AbortController().signal);
  const all = await desk.run(['top']);
  assert.deepEqual([all.code, all.stderr], [0, '']);
  assert.match(all.stdout, /^shop +web +1 +- +20\.0MB\/512\.0MB/m);
  assert.match(all.stdout, /^blog /m);
  const one = await desk.run(['top', '-a', 'shop']);
  assert.doesNotMatch(one.stdout, /blog/);
  const { apps } = JSON.parse((await desk.run(['top', '-a', 'shop', '--json'])).stdout) as LatestFigures;
  assert.deepEqual(
    apps.map(({ name, types }) => [name, types[0]?.memoryBytes]),
    [['shop', 20 * mebibyte]],
  );
  const short = await desk.run(['top', '--interval', '500ms']);
  assert.deepEqual([short.code, short.stderr.split(':')[1]], [2, ' --interval 500ms is too short']);
  for (const command of ['top', 'route stats']) {
    const long = await desk.run([...command.split(' '), '--interval', '30d']);
    assert.deepEqual([long.code, long.stderr], [2, 'flynn: --interval 30d is too long: 1d is the most\n']);
  }
  assert.match((await desk.run(['top', '--help'])).stdout, /--app <name> +only this app \(else all\)/);
  const none = await desk.run(['top', '-a', 'nosuch']);
  assert.deepEqual([none.code, none.stderr], [1, 'flynn: there is no app "nosuch"; list them with: flynn apps\n']);
});

test('in a terminal an answer that does not come is told, and waited for: what was told last stays', async (t) => {
  await using desk = await Desk.open();
  let isAway = false;
  const latest = handle(figures.latest, async () => {
    if (isAway) throw new FlynnError('unavailable', 'the controller restarts');
    return { at: new Date().toISOString(), apps: [appOf('shop', [typeOf('web', 0.5, 10)])] };
  });
  const log = silentLogger();
  const server = await startServer({
    name: 'controller',
    handlers: [latest],
    key: 'k',
    host: '127.0.0.1',
    port: 0,
    log,
  });
  t.after(() => server.close());
  const cluster = {
    name: 'test',
    controllerUrl: server.url,
    key: 'k',
    gitUrl: 'ssh://git@x',
    domain: 'x',
    httpPort: 80,
  };
  await saveClusters(desk.configDirectory, { default: 'test', clusters: [cluster] });
  const io = desk.io({ clock: quickClock() });
  io.stdout.isTTY = true;
  const running = runCli(['top', '--interval', '1s'], io);
  const screens = () => io.stdout.text.split('\u001b[H');
  await waitFor(() => screens().length > 1, { what: 'a table', deadlineMs: 60_000 });
  isAway = true;
  await waitFor(() => /no answer for \d+s \(.*restarts/.test(screens().at(-1) ?? ''), {
    what: 'a word',
    deadlineMs: 60_000,
  });
  assert.match(screens().at(-1) ?? '', /^figures of \d+s ago; no answer .*ctrl-c ends[^]*shop +web +2 +0\.50/);
  isAway = false;
  const isBack = () => /^figures of \d+s ago; ctrl-c ends/.test(screens().at(-1) ?? '');
  await waitFor(isBack, { what: 'another table', deadlineMs: 60_000 });
  io.signal('SIGINT');
  assert.equal(await running, 0, io.stderr.text);
});

test('in a terminal it is told again and again on a screen of its own, and what was told last stays', async () => {
  await using env = await openDeskWithController();
  const { desk, controller } = env;
  await controller.deployApp('shop', { web: {} });
  await controller.jobsOf('shop', 1);
  await controller.web.figures.look(new AbortController().signal);
  const dumb = desk.io();
  dumb.stdout.isTTY = true;
  dumb.env['TERM'] = 'dumb';
  assert.equal(await runCli(['top'], dumb), 0, dumb.stderr.text);
  assert.ok(!dumb.stdout.text.includes('\u001b'), 'a terminal that cannot go back has it once');
  const io = desk.io();
  io.stdout.isTTY = true;
  const running = runCli(['top', '--interval', '1s'], io);
  await waitFor(() => io.stdout.text.split('\u001b[H').length > 2, { what: 'two tables', deadlineMs: 60_000 });
  assert.equal(io.signal('SIGINT'), 1);
  assert.equal(await running, 0, io.stderr.text);
  const { text } = io.stdout;
  assert.ok(text.startsWith('\u001b[?1049h'));
  const [, after = ''] = text.split('\u001b[?1049l');
  assert.match(after, /^figures of \d+s ago; ctrl-c ends\n\nAPP +TYPE[^\n]*\nshop +web +1 /);
});
