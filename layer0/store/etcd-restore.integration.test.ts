import assert from 'node:assert/strict';
import { mkdir, mkdtemp, open as openFile, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { waitFor, withDeadline } from '@flynn/kit/retry';
import { put } from './conformance.ts';
import { restoreConformance } from './conformance-restore.ts';
import type { RestorableStore } from './conformance-restore.ts';
import { openProxied } from './etcd-fixture.ts';
import { startEtcdMember } from './etcd-member.ts';
import type { EtcdMember } from './etcd-member.ts';
import { connectEtcd } from './etcd.ts';
import { etcdutlOfImage, etcdutlProgram } from './etcdutl.ts';
import { openMirror } from './mirror.ts';
import { restoreSnapshot, saveSnapshot } from './snapshot.ts';
import { CompactedError } from './store.ts';

const log = silentLogger();
const image = process.env['FLYNN_TEST_ETCD_IMAGE'];
const run = image === undefined ? {} : { image };
const etcdutl = image === undefined ? etcdutlProgram() : etcdutlOfImage(image);
const asMember = { etcdutl, name: 'test', peerUrl: 'http://127.0.0.1:2380' };

let folder = '';
let dataDir = '';
let member: EtcdMember;

before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'flynn-restore-'));
  dataDir = path.join(folder, 'data');
  await mkdir(dataDir);
  member = await startEtcdMember({ ...run, dataDir });
});
after(async () => {
  await member.stop();
  await rm(folder, { recursive: true, force: true });
});

/** Puts the snapshot in the place of what the member holds. */
async function replaceBy(file: string, options: { revisionsApart?: number } = {}): Promise<void> {
  await member.kill();
  await rm(dataDir, { recursive: true, force: true });
  await restoreSnapshot(file, { ...asMember, dataDir, ...options });
  await member.start();
}

let backups = 0;

async function save(): Promise<string> {
  backups += 1;
  const file = path.join(folder, `backup-${backups}`);
  await saveSnapshot({ endpoint: member.endpoint }, file);
  return file;
}

async function open(): Promise<RestorableStore> {
  const opened = await openProxied({ endpoints: [member.endpoint] });
  return {
    ...opened,
    backUp: async () => {
      const file = await save();
      return () => replaceBy(file, { revisionsApart: 0 });
    },
  };
}

restoreConformance('the etcd store', open, { leaseTtlSeconds: 40 });

test('after a restore as an operator does it revisions only go on', async () => {
  await using opened = await open();
  const { store } = opened;
  const kept = await put(store, '/r/a', '1');
  await using mirror = await openMirror({ store, prefix: '/r/', decode: (json) => json, log });
  const file = await save();
  const last = await put(store, '/r/a', '2');
  await mirror.reached(last);
  await replaceBy(file);
  const { entries, revision } = await waitFor(() => store.list('/r/'), { what: 'etcd', deadlineMs: 60_000 });
  assert.ok(revision > last + 1_000_000);
  assert.deepEqual(
    entries.map(({ key, value, modRevision }) => [key, value, modRevision]),
    [['/r/a', '1', kept]],
  );
  // What somebody planned on the state that is void now is refused.
  const stale = await store.transact({
    compare: [{ key: '/r/a', modRevision: last }],
    then: [{ put: '/r/a', value: '3' }],
  });
  assert.equal(stale.succeeded, false);
  // Nor does a client that knows nothing of the restore miss anything: there is a gap, and it is told.
  await using stranger = connectEtcd({ endpoints: [member.endpoint], log });
  const following = async () => {
    for await (const batch of stranger.watch('/r/', { after: last, signal: withDeadline(60_000) })) return batch;
    return undefined;
  };
  await assert.rejects(following, CompactedError);
  const snapshot = await mirror.reached(await put(store, '/r/b', '4'), { deadlineMs: 60_000 });
  assert.deepEqual(Object.fromEntries([...snapshot.entries].map(([key, { value }]) => [key, value])), { a: 1, b: 4 });
});

test('a snapshot that is cut short, changed, or none is refused before anything is made', async () => {
  const file = await save();
  const content = await readFile(file);
  const target = path.join(folder, 'never');
  const changed = Buffer.from(content);
  changed.writeUInt8(changed.readUInt8(5_000) ^ 1, 5_000);
  const broken = path.join(folder, 'broken');
  for (const bytes of [content.subarray(0, -512), changed, Buffer.from('text')]) {
    await writeFile(broken, bytes);
    await assert.rejects(restoreSnapshot(broken, { ...asMember, dataDir: target }), (error) =>
      hasCode(error, 'invalid'),
    );
  }
  await assert.rejects(restoreSnapshot(path.join(folder, 'missing'), { ...asMember, dataDir: target }), (error) =>
    hasCode(error, 'not_found'),
  );
  await assert.rejects(restoreSnapshot(file, { ...asMember, dataDir }), (error) => hasCode(error, 'conflict'));
  assert.deepEqual(
    (await readdir(folder)).filter((name) => name.includes('never') || name.endsWith('.tmp')),
    [],
  );
});

test('a restore whose tool fails leaves nothing behind', async () => {
  const file = await save();
  const target = path.join(folder, 'never');
  const failing = async (args: readonly string[]) => {
    const made = args.find((arg) => arg.startsWith('--data-dir='))?.slice('--data-dir='.length) ?? '';
    await writeFile(path.join(made, 'half'), '');
    throw new FlynnError('unavailable', 'the disk is full');
  };
  await assert.rejects(restoreSnapshot(file, { ...asMember, etcdutl: failing, dataDir: target }), /the disk is full/);
  assert.deepEqual(
    (await readdir(folder)).filter((name) => name.includes('never')),
    [],
  );
});

test('a snapshot that cannot be finished leaves what was there before', async () => {
  const file = path.join(folder, 'nightly');
  await writeFile(file, 'of yesterday');
  await assert.rejects(saveSnapshot({ endpoint: 'http://127.0.0.1:1' }, file, { deadlineMs: 5_000 }), (error) =>
    hasCode(error, 'unavailable', 'timeout'),
  );
  await member.freeze();
  try {
    await assert.rejects(saveSnapshot({ endpoint: member.endpoint }, file, { deadlineMs: 500 }), (error) =>
      hasCode(error, 'timeout'),
    );
  } finally {
    await member.thaw();
  }
  assert.equal(await readFile(file, 'utf8'), 'of yesterday');
  await saveSnapshot({ endpoint: member.endpoint }, file);
  await using handle = await openFile(file);
  const { size, mode } = await handle.stat();
  assert.equal(size % 512, 32);
  assert.equal(mode & 0o777, 0o600);
  assert.deepEqual(
    (await readdir(folder)).filter((name) => name.endsWith('.tmp')),
    [],
  );
});
