import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import { containerOf, keyspaceOf } from './keyspaces-fixture.ts';
import { startKeyspaces } from './start.ts';

/** Of this machine, and of no host of a cluster on it. */
const gateway = '127.0.11.16';

test('the door is open for as long as the agent runs', async () => {
  const containers = { all: () => [containerOf(keyspaceOf('shop'))], onChange: () => () => undefined };
  const store = { endpoints: ['http://127.0.0.1:1'] };
  const tasks = new TaskGroup();
  startKeyspaces({ gateway, containers, store, tls: undefined, log: silentLogger() }, tasks);
  const ask = () => fetch(`http://${gateway}:1116/version`, { signal: AbortSignal.timeout(60_000) });
  const answer = await waitFor(ask, { what: 'the door to open', deadlineMs: 60_000 });
  assert.deepEqual(await answer.json(), { etcdserver: '3.5.0', etcdcluster: '3.5.0' });
  await tasks.stop();
  await assert.rejects(ask());
});
