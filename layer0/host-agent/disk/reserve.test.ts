import assert from 'node:assert/strict';
import { existsSync, statSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { giveUpReserve, keepReserve } from './reserve.ts';

const bytes = 2 ** 20 + 7;
let stateDir = '';
let used = 50;
before(async () => {
  stateDir = await mkdtemp(join(tmpdir(), 'flynn-reserve-'));
});
after(() => rm(stateDir, { recursive: true }));

const options = () => ({ stateDir, log: silentLogger(), usedPercent: async () => used, bytes, lookEveryMs: 5 });
const file = () => join(stateDir, 'reserve');
const isWhole = () => existsSync(file()) && statSync(file()).size === bytes;

/** While `keepReserve` runs. */
async function kept(task: () => Promise<unknown>): Promise<void> {
  const stop = new AbortController();
  const keeping = keepReserve(options(), stop.signal);
  try {
    await task();
  } finally {
    stop.abort();
    await keeping;
  }
}

test('room is put aside while there is some, given up at the start of an agent on a full disk, and made again', async () => {
  const untilWhole = () => waitFor(isWhole, { what: 'the reserve', deadlineMs: 60_000, intervalMs: 5 });
  await kept(untilWhole);
  assert.ok(statSync(file()).blocks * 512 >= bytes, 'it takes the room');
  used = 97.9;
  assert.equal(await giveUpReserve(options()), false);
  assert.ok(isWhole());
  used = 98;
  assert.equal(await giveUpReserve(options()), true);
  assert.equal(existsSync(file()), false);
  assert.equal(await giveUpReserve(options()), false);
  let looks = 0;
  const stop = new AbortController();
  const keeping = keepReserve({ ...options(), usedPercent: async () => ((looks += 1), 90) }, stop.signal);
  await waitFor(() => looks > 3, { what: 'some looks', deadlineMs: 60_000, intervalMs: 5 });
  stop.abort();
  await keeping;
  assert.equal(existsSync(file()), false);
  used = 89;
  // What an earlier attempt left is no reserve.
  await writeFile(`${file()}.new`, 'half');
  await kept(untilWhole);
  assert.equal(existsSync(`${file()}.new`), false);
});

test('whatever is wrong with the disk, the agent starts', async () => {
  const failing = { ...options(), usedPercent: () => Promise.reject(new Error('no disk')) };
  assert.equal(await giveUpReserve(failing), false);
});
