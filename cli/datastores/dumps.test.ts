/** What somebody who waits for dumps before a backup of the cluster is told of them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HttpClient } from '@flynn/kit/http-client';
import { followBackup } from './dumps.ts';

const asked = { resource: 'r1', backup: 'asked', attempt: 0 };

/** There are these alone. */
function clientWith(backups: Readonly<{ id: string; state: string }>[]): Pick<HttpClient, 'call'> {
  return { call: async () => ({ backups }) as never };
}

test('one that is gone is followed by any that is complete, and had not begun before', async () => {
  const there = clientWith([
    { id: 'newer', state: 'complete' },
    { id: 'old', state: 'complete' },
  ]);
  const follow = (earlier?: string[]) => followBackup(there, { ...asked, earlier }, () => undefined);
  assert.equal((await follow(['old'])).id, 'newer');
  for (const earlier of [['old', 'newer'], undefined]) {
    await assert.rejects(follow(earlier), { code: 'cancelled', message: /asked was cancelled, or deleted, meanwhile/ });
  }
  const begun = clientWith([{ id: 'newer', state: 'running' }]);
  await assert.rejects(
    followBackup(begun, { ...asked, earlier: [] }, () => undefined),
    { code: 'cancelled' },
  );
});
