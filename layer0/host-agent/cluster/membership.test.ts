import assert from 'node:assert/strict';
import { mkdir, mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { writeFileAtomic } from '@flynn/kit/files';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import { etcdResident, readResident, residentFile } from './etcd-resident.ts';
import { endpointsFile, followEndpointsFile, takeAway } from './membership.ts';

const [h1, h2, h3] = [1, 2, 3].map((n) => `https://192.0.2.${n}:2379`) as [string, string, string];

test('an agent whose members are all gone learns of its disk where the store was made anew; of its own members nothing', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-endpoints-'));
  const stateDir = folder.path;
  const say = (endpoints: readonly string[]) => writeFileAtomic(endpointsFile(stateDir), JSON.stringify(endpoints));
  const set: string[][] = [];
  let looks = 0;
  let current: readonly string[] = [h1, h3];
  const store = {
    get endpoints() {
      looks += 1;
      return current;
    },
    set endpoints(next: readonly string[]) {
      set.push([...next]);
      current = next;
    },
  };
  await using tasks = new TaskGroup();
  tasks.run('following', (signal) => followEndpointsFile(store, { stateDir, log: silentLogger(), signal, everyMs: 1 }));
  const untilLooked = async () => {
    const before = looks;
    await waitFor(() => looks > before, { what: 'a look', deadlineMs: 30_000, intervalMs: 1 });
  };
  const asking = untilLooked();
  await say([h1]);
  await asking;
  assert.deepEqual(set, []);
  await say([h2]);
  await waitFor(() => current[0] === h2, { what: 'the new store', deadlineMs: 30_000, intervalMs: 1 });
  // The members have told, and the file is about to be written.
  current = [h3];
  const later = untilLooked();
  await say([h3, h1]);
  await later;
  assert.deepEqual(set, [[h2]]);
});

test('what runs as a member of etcd that is none is taken away, and not before it is known who the members are', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-member-'));
  const host = { hostId: 'h2', stateDir: folder.path, log: silentLogger() };
  const resident = etcdResident({ cluster: 'flynn', address: '192.0.2.2', image: 'etcd:1', ...host });
  await mkdir(dirname(residentFile(host.stateDir)));
  await writeFileAtomic(residentFile(host.stateDir), JSON.stringify(resident));
  let unreadable = new Set<string>();
  const isThere = async (...members: string[]) => {
    const at = { modRevision: 1, createRevision: 1, value: {} };
    await takeAway(host, { snapshot: { entries: new Map(members.map((id) => [id, at])) }, unreadable });
    return (await readResident(host.stateDir)) !== undefined;
  };
  assert.equal(await isThere(), true);
  assert.equal(await isThere('h1', 'h2'), true);
  unreadable = new Set(['h2']);
  assert.equal(await isThere('h1'), true, 'what is said of it cannot be read');
  unreadable = new Set(['h3']);
  assert.equal(await isThere('h1'), false);
  assert.equal(await isThere('h1'), false);
});
