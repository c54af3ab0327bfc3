import assert from 'node:assert/strict';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { readUpdate } from '@flynn/host-agent/update-record';
import { hasCode } from '@flynn/kit/errors';
import { made } from './rotation-fixture.ts';
import { readOptions } from './settings.ts';
import { type MoveOutcome, asUpdate, checkUpdated, isNews } from './unended-update.ts';

const folder = () => mkdtempDisposable(join(tmpdir(), 'flynn-update-'));
const move = { version: '0.2.0', previous: '0.1.0' };

/** As by a power cut. */
const cut = async (): Promise<MoveOutcome> => {
  throw new Error('cut');
};

test('an update is known to have begun until all is of one version again', async () => {
  await using dir = await folder();
  const known = async () => (await readUpdate(dir.path))?.version;
  for (const outcome of ['moved', 'back'] as const) {
    const seen = await asUpdate(dir.path, move, async () => {
      assert.equal(await known(), '0.2.0');
      return outcome;
    });
    assert.deepEqual([seen, await known()], [outcome, undefined]);
  }
  assert.equal(await asUpdate(dir.path, move, async () => 'partly'), 'partly');
  assert.equal(await known(), '0.2.0');
});

test('a plain up in the middle of an update is refused, with what goes on and what goes back, also on the way back', async () => {
  await using dir = await folder();
  const options = readOptions({ FLYNN_STATE_DIR: dir.path });
  const keeper = made();
  let started = 0;
  const check = (stored: typeof keeper | undefined) => checkUpdated(options, stored, async () => void (started += 1));
  const refused = (pattern: RegExp) => (error: unknown) => hasCode(error, 'conflict') && pattern.test(error.message);
  await check(keeper);
  await assert.rejects(asUpdate(dir.path, move, cut));
  await assert.rejects(check(keeper), refused(/--to 0\.2\.0 goes on; flynn-host update --to 0\.1\.0 goes back/));
  assert.equal(started, 1, 'going on needs the store, and nothing may have started it');
  await check(undefined);
  await check({ ...keeper, hasPlatform: false });
  // What is in use is the version before until the end, so that on the way back there is none to go back to.
  for (let again = 0; again < 2; again += 1) {
    await assert.rejects(asUpdate(dir.path, { version: '0.1.0', previous: undefined }, cut));
    await assert.rejects(check(keeper), refused(/--to 0\.1\.0 goes on; flynn-host update --to 0\.2\.0 goes back/));
  }
  await asUpdate(dir.path, move, async () => 'moved');
  await check(keeper);
});

test('how it ended is told, but not of one that had nothing to do, nor as a success by the way back of one that failed', () => {
  const news = (outcome: MoveOutcome, isMove: boolean, wasLeft: boolean, mayReturn: boolean) =>
    isNews(outcome, { isMove, wasLeft, mayReturn });
  assert.ok(news('moved', true, false, true));
  assert.ok(news('moved', true, false, false), 'with --stay');
  assert.ok(news('moved', false, true, true), 'somebody goes back from one that was left');
  assert.ok(news('partly', false, true, false));
  assert.ok(!news('moved', false, false, true), 'nothing to do');
  assert.ok(!news('moved', false, true, false), 'the way back');
});
