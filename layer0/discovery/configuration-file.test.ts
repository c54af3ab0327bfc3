import assert from 'node:assert/strict';
import { chmod, chown, mkdtemp, readFile, readdir, rm, stat, watch, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { ConfigurationFile } from './configuration-file.ts';
import type { ConfigurationFileOptions } from './configuration-file.ts';

const signal = new AbortController().signal;

async function folder() {
  const dir = await mkdtemp(path.join(tmpdir(), 'flynn-render-'));
  return {
    dir,
    out: path.join(dir, 'out.conf'),
    open: (options: Omit<ConfigurationFileOptions, 'path'> = {}) =>
      new ConfigurationFile({ path: path.join(dir, 'out.conf'), ...options }),
    /** What the commands of a test wrote, a line for each run. */
    runs: async () => (await readFile(path.join(dir, 'runs'), 'utf8')).split('\n').slice(0, -1),
    [Symbol.asyncDispose]: () => rm(dir, { recursive: true, force: true }),
  };
}

test('a file is written only when it changes, keeps its mode, and the program is told once', async () => {
  await using place = await folder();
  await writeFile(place.out, 'old');
  await chmod(place.out, 0o640);
  const file = place.open({ exec: `cat ${place.out} >> ${place.dir}/runs; echo >> ${place.dir}/runs` });
  assert.equal(await file.bring('new', { signal }), 'reloaded');
  const first = await stat(place.out);
  assert.equal(first.mode & 0o7777, 0o640);
  assert.equal(await file.bring('new', { signal }), 'unchanged');
  assert.equal((await stat(place.out)).mtimeMs, first.mtimeMs);
  assert.deepEqual(await place.runs(), ['new']);
  assert.deepEqual((await readdir(place.dir)).sort(), ['out.conf', 'runs']);
});

test('a file has its mode and owner from the moment it is there, so that no crash takes them from it', async () => {
  await using place = await folder();
  await writeFile(place.out, 'old');
  await chown(place.out, 4_242, 4_243);
  await chmod(place.out, 0o660);
  const seen: string[] = [];
  const events = watch(place.dir, { signal: AbortSignal.timeout(60_000) });
  const watched = (async () => {
    for await (const { eventType, filename } of events) {
      if (filename === 'last') return;
      if (filename === 'out.conf') seen.push(eventType);
    }
  })();
  assert.equal(await place.open().bring('new', { signal }), 'written');
  await writeFile(path.join(place.dir, 'last'), '');
  await watched;
  assert.deepEqual(seen, ['rename'], 'nothing is done to it once it is in its place');
  const { mode, uid, gid } = await stat(place.out);
  assert.deepEqual([mode & 0o7777, uid, gid], [0o660, 4_242, 4_243]);
});

test('a check that fails keeps the old file, and the program is not told', async () => {
  await using place = await folder();
  await writeFile(place.out, 'good');
  const file = place.open({
    check: 'grep good {} || { echo not good enough; exit 3; }',
    exec: `echo >> ${place.dir}/runs`,
  });
  await assert.rejects(file.bring('bad', { signal }), { code: 'internal', message: /ended with 3:\nnot good enough/ });
  assert.equal(await readFile(place.out, 'utf8'), 'good');
  assert.deepEqual(await readdir(place.dir), ['out.conf']);
  assert.equal(await file.bring('still good', { signal }), 'reloaded');
});

test('a reload that failed is made up for, also by the next process', async () => {
  await using place = await folder();
  await assert.rejects(place.open({ exec: 'exit 1' }).bring('new', { signal }), { code: 'internal' });
  assert.equal(await readFile(place.out, 'utf8'), 'new');
  const next = place.open({ exec: `echo told >> ${place.dir}/runs` });
  assert.equal(await next.bring('new', { signal }), 'reloaded');
  assert.equal(await next.bring('new', { signal }), 'unchanged');
  assert.deepEqual(await place.runs(), ['told']);
});

test('a command has a deadline, and takes its children along', async () => {
  await using place = await folder();
  const startedMs = performance.now();
  const file = place.open({ exec: 'sleep 60 & wait', commandTimeoutMs: 200 });
  await assert.rejects(file.bring('new', { signal }), { code: 'timeout', message: /longer than 0\.2 s/ });
  assert.ok(performance.now() - startedMs < 50_000);
});

test('a reload that leaves a program behind it is over when it ends itself', async () => {
  await using place = await folder();
  const file = place.open({ exec: 'sleep 20 & true', commandTimeoutMs: 15_000 });
  assert.equal(await file.bring('new', { signal }), 'reloaded');
});

test('a check has to say where the candidate goes', () => {
  assert.throws(() => new ConfigurationFile({ path: 'x', check: 'nginx -t' }), { code: 'invalid', message: /\{\}/ });
});
