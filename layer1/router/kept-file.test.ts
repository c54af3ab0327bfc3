import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { createLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { Keeping, KeptFile } from './kept-file.ts';

async function open(t: TestContext) {
  const folder = await mkdtemp(join(tmpdir(), 'flynn-router-'));
  t.after(() => rm(folder, { recursive: true }));
  const said = new PassThrough({ encoding: 'utf8' });
  return { folder, log: createLogger('test', { destination: said }), told: (): string => said.read() ?? '' };
}

test('a folder that cannot be looked through is told; one that is not there yet is nothing to tell', async (t) => {
  const { folder, log, told } = await open(t);
  await new KeptFile(join(folder, 'later', 'table')).clean(Date.now(), log);
  assert.equal(told(), '');
  await writeFile(join(folder, 'file'), '');
  await new KeptFile(join(folder, 'file', 'table')).clean(Date.now(), log);
  assert.match(told(), /ENOTDIR.*cannot be removed/);
});

test('what nobody changed is written again in its time, to say that it is still so', async (t) => {
  const { folder, log } = await open(t);
  const path = join(folder, 'table');
  const stop = new AbortController();
  let count = 0;
  const lines = () => [`${(count += 1)}`];
  const common = { what: 'the list', restMs: 1, isDue: () => true, lines, log, signal: stop.signal };
  const running = new Keeping().run({ file: new KeptFile(path), renewMs: 1, ...common });
  const written = async () => Number(await readFile(path, 'utf8').catch(() => '0'));
  await waitFor(async () => (await written()) >= 3, { what: 'the third time', deadlineMs: 60_000, intervalMs: 5 });
  stop.abort();
  await running;
});

test('what changed is written when it is due, and again after a failure, which is told once', async (t) => {
  const { folder, log, told } = await open(t);
  const path = join(folder, 'later', 'table');
  const keeping = new Keeping();
  const stop = new AbortController();
  let isDue = false;
  let looked = 0;
  const running = keeping.run({
    file: new KeptFile(path),
    what: 'the list',
    restMs: 1,
    isDue: () => {
      looked += 1;
      return isDue;
    },
    lines: () => ['a', 'b'],
    log,
    signal: stop.signal,
  });
  const moreLooks = async () => {
    const until = looked + 3;
    await waitFor(() => looked >= until, { what: 'more looks', deadlineMs: 60_000, intervalMs: 1 });
  };
  keeping.changed();
  await moreLooks();
  assert.equal(told(), '');
  isDue = true;
  await moreLooks();
  assert.equal(told().match(/the list cannot be kept for a restart/g)?.length, 1);
  await mkdir(join(folder, 'later'));
  const written = () => readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => error.code);
  await waitFor(async () => (await written()) === 'a\nb\n', { what: 'the file', deadlineMs: 60_000, intervalMs: 5 });
  stop.abort();
  await running;
  assert.equal(told(), '');
});
