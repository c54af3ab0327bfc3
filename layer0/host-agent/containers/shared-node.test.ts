import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { jobOf } from '../host-fixture.ts';
import { type SharedNode, removeOldNodes, shareNode } from './shared-node.ts';
import { containerSpecOf } from './spec.ts';

async function folderOf(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'flynn-node-'));
  t.after(() => rm(folder, { recursive: true }));
  return folder;
}

function share(stateDir: string, program: string): Promise<SharedNode | undefined> {
  return shareNode({ stateDir, program, arch: 'x64', version: '24.1.0', log: silentLogger() });
}

test('containers get the file the agent runs from, also after another of the same bytes took its place', async (t) => {
  const folder = await folderOf(t);
  const first = join(folder, 'first');
  const second = join(folder, 'second');
  await writeFile(first, 'a program');
  await writeFile(second, 'a program');
  const shared = await share(folder, first);
  assert.equal(shared?.id, 'x64:24.1.0:9');
  assert.equal((await stat(shared.file)).ino, (await stat(first)).ino);
  assert.deepEqual(await share(folder, first), shared);
  assert.deepEqual(await share(folder, second), shared);
  assert.equal((await stat(shared.file)).ino, (await stat(second)).ino);
  assert.deepEqual(await readdir(join(folder, 'node')), ['x64-24.1.0-9']);
  await rm(second);
  assert.equal((await stat(shared.file)).size, 9);
});

test('what is left of versions before goes, but for what a container has, what is on the disk as a version, and the current one', async (t) => {
  const folder = await folderOf(t);
  const versions = ['gone', 'kept', 'mounted', 'now'];
  const made: SharedNode[] = [];
  for (const version of versions) {
    const program = join(folder, version);
    await writeFile(program, version);
    const shared = await shareNode({ stateDir: folder, program, arch: 'x64', version, log: silentLogger() });
    assert.ok(shared !== undefined);
    made.push(shared);
  }
  const [, , mounted, now] = made;
  assert.ok(mounted !== undefined && now !== undefined);
  const collect = () =>
    removeOldNodes({ stateDir: folder, current: now, mounted: new Set([mounted.file]), log: silentLogger() });
  await collect();
  assert.equal((await readdir(join(folder, 'node'))).length, 4, 'all are versions on the disk');
  for (const version of ['gone', 'mounted', 'now']) await rm(join(folder, version));
  await collect();
  assert.deepEqual(await readdir(join(folder, 'node')), ['x64-kept-4', 'x64-mounted-7', 'x64-now-3']);
  await removeOldNodes({ stateDir: join(folder, 'none'), current: undefined, mounted: new Set(), log: silentLogger() });
});

test('where it cannot be one file each has its own', async (t) => {
  // Of another file system.
  assert.equal(await share(await folderOf(t), '/proc/version'), undefined);
});

test('only parts of the platform run on the agent’s Node, and only if their image has the same', () => {
  const node = { id: 'x64:24.1.0:9', file: '/state/node/x' };
  const identities = { folderOf: (id: string) => `/identities/${id}`, issue: async () => {} };
  const host = { hostId: 'h1', externalAddress: '10.0.0.1', gateway: '100.100.0.1', cluster: 'c', networkName: 'n' };
  const standInsOf = (identity: string | undefined, settings: object) =>
    containerSpecOf(jobOf('a', identity === undefined ? {} : { identity }), 'ref', { ...host, ...settings }).standIns;
  const standIn = { label: 'flynn.node', value: node.id, source: node.file, path: '/usr/bin/node' };
  assert.deepEqual(standInsOf('router', { identities, node }), [standIn]);
  assert.equal(standInsOf(undefined, { identities, node }), undefined);
  assert.equal(standInsOf('router', { identities }), undefined);
});
