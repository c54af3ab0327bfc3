import assert from 'node:assert/strict';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { readUpdate } from '@flynn/host-agent/update/record';
import { hasCode } from '@flynn/kit/errors';
import { made } from '../cluster-fixture.ts';
import { readOptions } from '../settings.ts';
import { type MoveOutcome, asUpdate, beginReturn, checkUpdated, isNews, otherVersion } from './unended.ts';

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

test('images of the other version stay until all has moved, also on the way back and where one that was cut goes on', async () => {
  await using dir = await folder();
  assert.equal(otherVersion(move, undefined), '0.1.0');
  assert.equal(await asUpdate(dir.path, move, async () => 'partly'), 'partly');
  const left = await readUpdate(dir.path);
  // What is in use is 0.1.0 until the end: hosts and parts are of 0.2.0.
  assert.equal(otherVersion({ version: '0.1.0', previous: undefined }, left), '0.2.0');
  // What is in use is 0.2.0 already: parts are of 0.1.0.
  assert.equal(otherVersion({ version: '0.2.0', previous: undefined }, left), '0.1.0');
  assert.equal(otherVersion({ version: '0.2.0', previous: undefined }, undefined), undefined);
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
  await assert.rejects(
    check(keeper),
    refused(/--to 0\.2\.0 goes on \(with --bundle FILE .*\); flynn-host update --to 0\.1\.0 goes back/),
  );
  assert.equal(started, 1, 'going on needs the store, and nothing may have started it');
  await check(undefined);
  await check({ ...keeper, hasPlatform: false });
  // What is in use is the version before until the end, so that on the way back there is none to go back to.
  for (let again = 0; again < 2; again += 1) {
    await assert.rejects(asUpdate(dir.path, { version: '0.1.0', previous: undefined }, cut));
    await assert.rejects(
      check(keeper),
      refused(/--to 0\.1\.0 goes on \(with --bundle FILE .*\); flynn-host update --to 0\.2\.0 goes back/),
    );
  }
  await asUpdate(dir.path, move, async () => 'moved');
  await check(keeper);
});

test('how it ended is told, but not of one that had nothing to do, nor as a success by the way back of one that failed', () => {
  const left = { ...move, since: '2026-06-01T12:00:00Z' };
  assert.ok(isNews('moved', { isMove: true, left: undefined }));
  assert.ok(
    isNews('moved', { isMove: false, left }),
    'somebody goes back from one that was left, with --stay or without',
  );
  assert.ok(isNews('partly', { isMove: false, left: { ...left, isReturning: true } }));
  assert.ok(!isNews('moved', { isMove: false, left: undefined }), 'nothing to do');
  assert.ok(!isNews('moved', { isMove: false, left: { ...left, isReturning: true } }), 'the way back');
});

test('a way back that was cut in its turn is told by whoever goes on with it', async () => {
  await using dir = await folder();
  const back = { version: '0.1.0', previous: undefined };
  const left: boolean[] = [];
  const isTold = async () => isNews('moved', { isMove: false, left: await readUpdate(dir.path) });
  await asUpdate(dir.path, move, async () => {
    left.push(await isTold());
    await beginReturn(dir.path);
    left.push(await isTold());
    await assert.rejects(asUpdate(dir.path, back, cut));
    left.push(await isTold());
    return 'partly';
  });
  assert.deepEqual(left, [true, false, true]);
  assert.deepEqual((await readUpdate(dir.path))?.previous, '0.2.0');
});
