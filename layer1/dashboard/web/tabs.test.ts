import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { followTabs, tellTabs } from './tabs.ts';

test('what changes the login in one tab is told to the others, and nothing else is taken for it', async () => {
  const [own, other] = [new BroadcastChannel('tabs-of-a-test'), new BroadcastChannel('tabs-of-a-test')];
  const told: string[] = [];
  const heardByOwn: string[] = [];
  const stop = followTabs(other, (change) => told.push(change));
  const stopOwn = followTabs(own, (change) => heardByOwn.push(change));
  other.dispatchEvent(new MessageEvent('message', { data: { of: 'another version' } }));
  tellTabs(own, 'in');
  tellTabs(own, 'out');
  await waitFor(() => told.length === 2, { what: 'both changes', deadlineMs: 30_000 });
  assert.deepEqual(told, ['in', 'out']);
  assert.deepEqual(heardByOwn, []);
  stop();
  stopOwn();
  own.close();
  other.close();
});
