import assert from 'node:assert/strict';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { goneText, isEngineToEmpty } from './take-down.ts';

test('a cluster is said to be gone where nobody goes on with it', () => {
  assert.match(goneText({ name: 'flynn', hasPlatform: true }, false), /The cluster flynn is gone/);
  assert.match(goneText({ name: 'flynn' }, false), /The cluster flynn is gone/);
  // The host that made it may not have heard that another keeps the platform, or have been forced to go.
  assert.match(goneText({ name: 'flynn', hasPlatform: true }, true), /no host of the cluster flynn any more/);
  assert.match(goneText({ name: 'flynn', hasPlatform: false }, false), /no host of the cluster flynn any more/);
});

test('a host whose engine is gone for good goes by force, and is told that way', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-take-down-'));
  const options = { FLYNN_STATE_DIR: folder.path, FLYNN_DOCKER_SOCKET: join(folder.path, 'none.sock') };
  const told: string[] = [];
  const report = (line: string): void => void told.push(line);
  await assert.rejects(isEngineToEmpty(options, { isForced: false, report }), {
    code: 'unavailable',
    message: /none\.sock does not answer, .* --force$/,
  });
  assert.deepEqual(told, []);
  assert.equal(await isEngineToEmpty(options, { isForced: true, report }), false);
  assert.match(told.join(), /none\.sock does not answer: .* stays there, or is gone with it/);
  const none = { ...options, FLYNN_STATE_DIR: join(folder.path, 'none') };
  assert.equal(await isEngineToEmpty(none, { isForced: false, report }), false);
});
