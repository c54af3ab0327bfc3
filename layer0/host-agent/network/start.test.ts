import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { createRegistry } from '@flynn/discovery/store-registry';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import { openTestStore } from '@flynn/store/testing';
import { Shell } from '../shell.ts';
import { encryptionKey } from './encryption.ts';
import type { Heard } from './host-network.ts';
import { testSettings } from './settings-fixture.ts';
import { followCluster, runnerOf } from './start.ts';

test('a script has its arguments in the shell that stays, too', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'flynn-runner-'));
  t.after(() => rm(folder, { recursive: true }));
  const run = runnerOf(new Shell());
  const file = join(folder, "it's here");
  await run({ program: 'sh', args: ['-c', 'echo "$1" > "$2"', 'sh', 'a $b', file] }, t.signal);
  assert.equal(await readFile(file, 'utf8'), 'a $b\n');
  assert.equal(await run({ program: 'sh', args: ['-c', 'echo "$#"'] }, t.signal), '0\n');
  assert.equal(await run({ program: 'echo', args: ['-c', 'x'] }, t.signal), '-c x\n');
});

test('of encryption the network is told each word there is, and one that cannot be read as such', async () => {
  await using store = openTestStore();
  const log = silentLogger();
  await using registry = await createRegistry({ store, log });
  await using tasks = new TaskGroup();
  const told: string[] = [];
  let read: (() => Heard) | undefined;
  const network = {
    settings: testSettings,
    unheard: [],
    changed: () => void told.push(read?.().word ?? 'nothing'),
    follow: (heard: () => Heard) => void (read = heard),
  };
  await store.transact({ then: [{ put: encryptionKey, value: 'no JSON' }] });
  await followCluster(network, { store, registry, log }, tasks);
  assert.equal(read?.().word, 'unreadable');
  const becomes = async (word: string, step: { put: string; value: string } | { delete: string }): Promise<void> => {
    await store.transact({ then: [step] });
    await waitFor(() => told.at(-1) === word, { what: `to be told ${word}`, deadlineMs: 10_000, intervalMs: 5 });
  };
  await becomes('on', { put: encryptionKey, value: '"on"' });
  await becomes('unreadable', { put: encryptionKey, value: '"of a later version"' });
  await becomes('off', { delete: encryptionKey });
});
