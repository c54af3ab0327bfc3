/** Backups by themselves: when they are made, where they go, what goes wrong, and who is told. */
import assert from 'node:assert/strict';
import { createReadStream } from 'node:fs';
import { mkdir, mkdtemp, readFile, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import type { BlobClient } from '@flynn/blobstore/client';
import { startTestS3 } from '@flynn/blobstore/s3/testing-s3';
import { apps, releases } from '../api.ts';
import { auditRoot } from '../audit/trail.ts';
import { startTestBlobs } from '../testing/blobs.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { backups } from './api.ts';
import { decrypted } from './encryption.ts';
import { clusterIdOf } from './export.ts';
import { inspectArchive } from './inspection.ts';
import { fileOf, maxAttempts, stampOf } from './plan.ts';
import { backupScheduleType, scheduleId } from './resources.ts';
import { stepBackups } from './steps.ts';

const signal = new AbortController().signal;
const hourMs = 3_600_000;
const start = Date.UTC(2027, 0, 1, 2, 30);

type Desk = AsyncDisposable & {
  world: TestController;
  blobs: BlobClient;
  directory: string;
  at: (ms: number) => Promise<number>;
};

/** A cluster with an app on it, a directory of its host, and a look at what is due at a moment. */
async function openDesk(): Promise<Desk> {
  const directory = await mkdtemp(join(tmpdir(), 'flynn-backups-'));
  const store = await startTestBlobs();
  const world = await startTestController({ hosts: 1, blobStoreUrl: store.url });
  await world.client.call(apps.create, { body: { name: 'shop' } });
  return {
    world,
    blobs: store.blobs,
    directory,
    at: (ms) => stepBackups({ ...world.deps, now: () => ms }, store.blobs, { signal }),
    async [Symbol.asyncDispose]() {
      await world[Symbol.asyncDispose]();
      await store[Symbol.asyncDispose]();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** Daily at three; its ticks count from `start` on, whatever the time is. */
async function schedule({ world, directory }: Desk, more: { keep?: number; passphrase?: string } = {}): Promise<void> {
  await world.client.call(backups.schedule, { body: { schedule: '0 3 * * *', to: { directory }, ...more } });
  await world.deps.resources.updateStatus(backupScheduleType, scheduleId, ({ status }) => ({
    ...status,
    handledMs: start,
  }));
}

function fileAt({ world }: Desk, tickMs: number): string {
  return fileOf({ name: 'test', id: clusterIdOf(world.deps) }, tickMs);
}

const listed = ({ world }: Desk) => world.client.call(backups.list, {});

test('at its tick a backup is made, whole; the newest are kept, and what others put there', async () => {
  await using desk = await openDesk();
  await schedule(desk, { keep: 2 });
  await writeFile(join(desk.directory, 'other-20200101T000000Z.backup'), 'of another cluster');
  assert.equal(await desk.at(start), hourMs / 2);
  assert.equal((await listed(desk)).backups.length, 0);
  for (let day = 0; day < 4; day += 1) assert.equal(await desk.at(start + hourMs + day * 24 * hourMs), 0);
  assert.equal(await desk.at(start + hourMs + 3 * 24 * hourMs), 23.5 * hourMs, 'a tick is dealt with once');
  const names = (await readdir(desk.directory)).toSorted();
  const file = fileAt(desk, start + hourMs + 3 * 24 * hourMs);
  assert.match(file, /^test-[0-9a-f]{8}-20270104T033000Z\.backup$/);
  const before = fileAt(desk, start + hourMs + 2 * 24 * hourMs);
  assert.deepEqual(names, ['other-20200101T000000Z.backup', before, file]);
  const found = await inspectArchive(createReadStream(join(desk.directory, file)));
  assert.equal(found.records['records/app.ndjson'], 1);
  const { schedule: shown, backups: made } = await listed(desk);
  assert.deepEqual(
    made.map(({ state }) => state),
    ['complete', 'complete', 'complete', 'complete'],
  );
  assert.equal(shown?.lastSuccess?.file, file);
  assert.equal(made[0]?.sizeBytes, shown?.lastSuccess?.sizeBytes);
  assert.equal(shown?.isEncrypted, false);
});

test('the one that was just made stays, though a clock that was ahead gave others later names', async () => {
  await using desk = await openDesk();
  await schedule(desk, { keep: 2 });
  const ahead = [2030, 2031].map((year) => fileAt(desk, Date.UTC(year, 0, 1)));
  for (const name of ahead) await writeFile(join(desk.directory, name), 'of a clock that was ahead');
  await desk.at(start + hourMs);
  const made = (await listed(desk)).schedule?.lastSuccess?.file ?? '';
  assert.deepEqual((await readdir(desk.directory)).toSorted(), [made, ahead[1]]);
});

test('each is later than those before by its name, whatever the clock does: whoever waits for it looks for that', async () => {
  await using desk = await openDesk();
  await schedule(desk);
  const ids: string[] = [];
  for (const now of [start + 48 * hourMs, start + 48 * hourMs + 1, start + 3 * hourMs]) {
    const { after = '' } = await desk.world.client.call(backups.run, {});
    await desk.at(now);
    const found = (await listed(desk)).backups.find(({ id, state }) => id > after && state === 'complete');
    assert.ok(found, `one after ${after}`);
    ids.push(found.id);
  }
  assert.deepEqual(
    (await readdir(desk.directory)).toSorted(),
    ids.map((id) => fileAt(desk, 0).replace(stampOf(0), id)),
  );
});

test('after a clock that was years ahead backups are made again at once, and then at their ticks', async () => {
  await using desk = await openDesk();
  await schedule(desk);
  await desk.at(start + 1_000 * 24 * hourMs);
  assert.equal(await desk.at(start), 0);
  assert.equal((await listed(desk)).backups.length, 2);
  assert.equal(await desk.at(start + 60_000), hourMs / 2 - 60_000, 'the next tick');
  await rm(desk.directory, { recursive: true });
  await desk.world.client.call(backups.run, {});
  await desk.at(start + 1_000 * 24 * hourMs);
  await mkdir(desk.directory);
  assert.equal(await desk.at(start + 120_000), 0);
  assert.deepEqual(
    (await listed(desk)).backups.map(({ state, attempt }) => `${state} ${attempt}`),
    ['complete 2', 'complete 1', 'complete 1'],
  );
});

test('one that fails is tried again, told of while it does, and forgotten when it succeeds', async () => {
  await using desk = await openDesk();
  await schedule(desk);
  const tick = start + hourMs;
  await rm(desk.directory, { recursive: true });
  await desk.at(tick);
  const first = await listed(desk);
  assert.deepEqual(
    first.backups.map(({ state, attempt }) => [state, attempt]),
    [['retrying', 1]],
  );
  assert.match(first.schedule?.failure?.message ?? '', /leads to no directory of this host/);
  assert.equal(await desk.at(tick + 30_000), 30_000, 'after a minute');
  await desk.at(tick + 60_000);
  assert.equal((await listed(desk)).schedule?.failure?.count, 2);
  await mkdir(desk.directory);
  await desk.at(tick + 10 * 60_000);
  const last = await listed(desk);
  assert.deepEqual(
    last.backups.map(({ state, attempt }) => [state, attempt]),
    [['complete', 3]],
  );
  assert.equal(last.schedule?.failure, undefined);
  assert.deepEqual(await readdir(desk.directory), [last.backups[0]?.file]);
});

test('the pause before the next try begins when a try ends, however long it took', async () => {
  await using desk = await openDesk();
  await schedule(desk);
  await rm(desk.directory, { recursive: true });
  const { world, blobs } = desk;
  let now = start + hourMs;
  // Whoever says that the place is not there takes forty minutes to find out.
  const backupsOf = (...args: Parameters<typeof world.deps.hosts.backups>) => {
    now += 40 * 60_000;
    return world.deps.hosts.backups(...args);
  };
  const deps = { ...world.deps, now: () => now, hosts: { ...world.deps.hosts, backups: backupsOf } };
  for (const pauseMs of [60_000, 5 * 60_000, 15 * 60_000, 60 * 60_000]) {
    assert.equal(await stepBackups(deps, blobs, { signal }), 0);
    assert.equal(await stepBackups(deps, blobs, { signal }), pauseMs);
    now += pauseMs;
  }
});

test('in the middle of a restore none is begun and no try is used up; it is made once that is through', async () => {
  await using desk = await openDesk();
  await schedule(desk);
  const { store, client } = desk.world;
  const restore = { archive: 'a', stage: 'blobs', startedAt: new Date(start).toISOString() };
  const write = (stage: string) =>
    store.transact({ then: [{ put: '/flynn/restore', value: JSON.stringify({ ...restore, stage }) }] });
  await write('blobs');
  for (let minute = 0; minute < 300; minute += 60) {
    assert.equal(await desk.at(start + hourMs + minute * 60_000), 10_000);
  }
  await assert.rejects(client.call(backups.run, {}), { code: 'conflict', message: /being restored onto this cluster/ });
  assert.deepEqual((await listed(desk)).backups, []);
  await write('complete');
  assert.equal(await desk.at(start + 7 * hourMs), 0);
  const { backups: made, schedule: shown } = await listed(desk);
  assert.deepEqual(
    made.map(({ state, attempt }) => [state, attempt]),
    [['complete', 1]],
  );
  assert.equal(shown?.failure, undefined);
});

test('one does not go to another disk unnoticed: what its directory was on is not mounted any more', async () => {
  await using desk = await openDesk();
  // Which is a file system of its own everywhere.
  const mounted = await mkdtemp('/dev/shm/flynn-backups-');
  try {
    const directory = join(desk.directory, 'at');
    await symlink(mounted, directory);
    await schedule({ ...desk, directory });
    await desk.at(start + hourMs);
    assert.equal((await readdir(mounted)).length, 1);
    const bare = join(desk.directory, 'bare');
    await mkdir(bare);
    await rm(directory);
    await symlink(bare, directory);
    await desk.at(start + 25 * hourMs);
    assert.match(
      (await listed(desk)).schedule?.failure?.message ?? '',
      /was on what is mounted at \/dev\/shm .*mount it/,
    );
    assert.deepEqual(await readdir(bare), []);
    await schedule({ ...desk, directory });
    await desk.at(start + 49 * hourMs);
    assert.equal((await readdir(bare)).length, 1, 'it was set again for the directory as it is');
  } finally {
    await rm(mounted, { recursive: true });
  }
});

test('one whose place takes nothing of it leaves no blob half read', async () => {
  await using desk = await openDesk();
  const { world, blobs } = desk;
  const { digest } = await blobs.put(Buffer.alloc(2_000_000));
  const image = { base: 'slug-runner', layers: [{ digest, sizeBytes: 2_000_000 }] };
  await world.client.call(releases.createArtifact, { body: { type: 'slug', image } });
  await schedule(desk);
  const read: Readable[] = [];
  const get: BlobClient['get'] = async (...args) => {
    const body = await blobs.get(...args);
    read.push(body);
    return body;
  };
  const isRead = async () => waitFor(() => read.length > 0, { what: 'the blob to be asked for', deadlineMs: 60_000 });
  const away = async (): Promise<never> => {
    await isRead();
    throw new FlynnError('unavailable', 'it is away');
  };
  const target = { put: away, clear: async () => undefined, list: away, remove: away };
  const deps = { ...world.deps, now: () => start + hourMs, hosts: { ...world.deps.hosts, backups: () => target } };
  await stepBackups(deps, { ...blobs, get }, { signal });
  assert.match((await listed(desk)).schedule?.failure?.message ?? '', /it is away/);
  await waitFor(() => read.every((body) => body.destroyed), { what: 'the end of the reading', deadlineMs: 60_000 });
});

test('after its last attempt one has failed, and stays told of until the next succeeds', async () => {
  await using desk = await openDesk();
  await schedule(desk);
  await rm(desk.directory, { recursive: true });
  let now = start + hourMs;
  for (let attempt = 1; attempt <= maxAttempts; attempt += 1) {
    assert.equal(await desk.at(now), 0);
    now += 2 * hourMs;
  }
  const failed = await listed(desk);
  assert.deepEqual(
    failed.backups.map(({ state }) => state),
    ['failed'],
  );
  assert.equal(failed.schedule?.failure?.count, maxAttempts);
  assert.ok((await desk.at(now)) > hourMs, 'nothing is due before the next tick');
  await mkdir(desk.directory);
  await desk.world.client.call(backups.run, {});
  await desk.at(now + 1_000);
  assert.equal((await listed(desk)).schedule?.failure, undefined);
});

test('one that is not tried again has failed: another was wanted, or the schedule was changed or taken away', async () => {
  await using desk = await openDesk();
  const states = async () => (await listed(desk)).backups.map(({ state }) => state);
  await schedule(desk);
  await rm(desk.directory, { recursive: true });
  await desk.at(start + hourMs);
  await desk.world.client.call(backups.run, {});
  await desk.at(start + hourMs + 10_000);
  assert.deepEqual(await states(), ['retrying', 'failed']);
  assert.match((await listed(desk)).backups[1]?.error ?? '', /leads to no directory of this host/, 'as it was told');
  await mkdir(desk.directory);
  await schedule(desk);
  assert.deepEqual(await states(), ['failed', 'failed']);
  await rm(desk.directory, { recursive: true });
  await desk.at(start + 2 * hourMs);
  assert.deepEqual(await states(), ['retrying', 'failed', 'failed']);
  await desk.world.client.call(backups.unschedule, {});
  assert.deepEqual(await states(), ['failed', 'failed', 'failed']);
});

test('what nobody could read is not shown: the passphrase is in no answer and not in the trail', async () => {
  await using desk = await openDesk();
  await schedule(desk, { passphrase: 'correct horse' });
  await desk.at(start + hourMs);
  const shown = await listed(desk);
  assert.equal(shown.schedule?.isEncrypted, true);
  assert.doesNotMatch(JSON.stringify(shown), /correct horse/);
  await desk.world.web.trail.flushed();
  const trail = (await desk.world.store.list(auditRoot)).entries.map(({ value }) => value).join('\n');
  assert.match(trail, /backups\/schedule/);
  assert.doesNotMatch(trail, /correct horse/);
  const file = join(desk.directory, shown.backups[0]?.file ?? '');
  assert.equal((await readFile(file)).includes('manifest'), false);
  const { manifest } = await inspectArchive(decrypted(createReadStream(file), 'correct horse'));
  assert.equal(manifest.cluster.name, 'test');
});

test('in a bucket: whole, the newest are kept; what opens it is shown to nobody', async () => {
  await using desk = await openDesk();
  await using s3 = await startTestS3();
  const { accessKeyId, secretAccessKey } = s3.credentials;
  const place = { ...s3.bucket, prefix: 'flynn/test', accessKeyId, secret: secretAccessKey };
  const put = (more: Partial<typeof place>) =>
    desk.world.client.call(backups.schedule, {
      body: { schedule: '0 3 * * *', to: { s3: { ...place, ...more } }, keep: 2 },
    });
  // What else there is in the bucket may be millions of objects.
  const looked = new Set<string>();
  s3.before = async (method, key, query) => {
    if (method === 'GET' && key === '' && !query.has('uploads')) looked.add(query.get('prefix') ?? '');
  };
  await assert.rejects(put({ secret: 'wrong' }), /SignatureDoesNotMatch/);
  await assert.rejects(put({ bucket: 'other' }), /NoSuchBucket/);
  assert.equal((await put({})).to, 's3://backups/flynn/test');
  s3.objects.set('flynn/test/other-20200101T000000Z.backup', Buffer.from('of another cluster'));
  s3.objects.set('flynn/test/deeper/test-20200101T000000Z.backup', Buffer.from('of nobody'));
  await desk.world.deps.resources.updateStatus(backupScheduleType, scheduleId, () => ({ handledMs: start }));
  const leave = (key: string) => {
    const id = `upload of ${key}`;
    s3.uploads.set(id, new Map());
    s3.begun.set(id, { key: `flynn/test/${key}`, at: Date.now() });
  };
  leave(fileAt(desk, start));
  leave('test-other');
  for (let day = 0; day < 3; day += 1) assert.equal(await desk.at(start + hourMs + day * 24 * hourMs), 0);
  assert.deepEqual([...s3.uploads.keys()], ['upload of test-other'], 'what a killed worker had sent of one is gone');
  const [before = '', last = ''] = [1, 2].map(
    (day) => `flynn/test/${fileAt(desk, start + hourMs + day * 24 * hourMs)}`,
  );
  assert.deepEqual([...s3.objects.keys()].toSorted(), [
    'flynn/test/deeper/test-20200101T000000Z.backup',
    'flynn/test/other-20200101T000000Z.backup',
    before,
    last,
  ]);
  assert.deepEqual([...looked], [`flynn/test/${fileAt(desk, start).replace(/\d{8}T.*$/, '')}`]);
  const kept = s3.objects.get(last);
  assert.ok(kept);
  const { manifest } = await inspectArchive(Readable.from([kept]));
  assert.equal(manifest.cluster.name, 'test');
  const shown = JSON.stringify(await listed(desk));
  await desk.world.web.trail.flushed();
  const trail = (await desk.world.store.list(auditRoot)).entries.map(({ value }) => value).join('\n');
  for (const text of [shown, trail]) assert.ok(!text.includes(secretAccessKey), text);
});

test('a schedule that cannot work is refused when it is said', async () => {
  await using desk = await openDesk();
  const { client } = desk.world;
  const { directory } = desk;
  const put = (body: { schedule: string; to: { host?: string; directory: string } }) =>
    client.call(backups.schedule, { body });
  await assert.rejects(put({ schedule: 'never', to: { directory } }), (error) => hasCode(error, 'invalid'));
  await assert.rejects(put({ schedule: '@daily', to: { directory: `${directory}/missing` } }), /make it, or mount it/);
  await assert.rejects(put({ schedule: '@daily', to: { directory: '/tmp/../etc' } }), (error) =>
    hasCode(error, 'invalid'),
  );
  await assert.rejects(put({ schedule: '@daily', to: { host: 'host9', directory } }), /host9 is not in the cluster/);
  await assert.rejects(client.call(backups.run, {}), /no schedule yet/);
  await put({ schedule: '@daily', to: { directory } });
  await client.call(backups.unschedule, {});
  assert.equal((await listed(desk)).schedule, undefined);
});
