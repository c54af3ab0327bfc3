/** Backups by themselves: when they are made, where they go, what goes wrong, and who is told. */
import assert from 'node:assert/strict';
import { createReadStream } from 'node:fs';
import { mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import type { BlobClient } from '@flynn/blobstore/client';
import { startTestS3 } from '@flynn/blobstore/s3/testing-s3';
import { apps } from '../api.ts';
import { auditRoot } from '../audit/trail.ts';
import { startTestBlobs } from '../testing-blobs.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { backups } from './api.ts';
import { decrypted } from './encryption.ts';
import { inspectArchive } from './inspection.ts';
import { fileOf, maxAttempts, nextBackup, superfluous } from './plan.ts';
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
  assert.deepEqual(names, [
    'other-20200101T000000Z.backup',
    'test-20270103T033000Z.backup',
    'test-20270104T033000Z.backup',
  ]);
  const found = await inspectArchive(createReadStream(join(desk.directory, names[2] ?? '')));
  assert.equal(found.records['records/app.ndjson'], 1);
  const { schedule: shown, backups: made } = await listed(desk);
  assert.deepEqual(
    made.map(({ state }) => state),
    ['complete', 'complete', 'complete', 'complete'],
  );
  assert.equal(shown?.lastSuccess?.file, 'test-20270104T033000Z.backup');
  assert.equal(made[0]?.sizeBytes, shown?.lastSuccess?.sizeBytes);
  assert.equal(shown?.isEncrypted, false);
});

test('the one that was just made stays, though a clock that was ahead gave others later names', async () => {
  await using desk = await openDesk();
  await schedule(desk, { keep: 2 });
  for (const year of [2030, 2031]) {
    await writeFile(join(desk.directory, `test-${year}0101T000000Z.backup`), 'of a clock that was ahead');
  }
  await desk.at(start + hourMs);
  const made = (await listed(desk)).schedule?.lastSuccess?.file ?? '';
  assert.deepEqual((await readdir(desk.directory)).toSorted(), [made, 'test-20310101T000000Z.backup']);
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
  await assert.rejects(put({ secret: 'wrong' }), /SignatureDoesNotMatch/);
  await assert.rejects(put({ bucket: 'other' }), /NoSuchBucket/);
  assert.equal((await put({})).to, 's3://backups/flynn/test');
  s3.objects.set('flynn/test/other-20200101T000000Z.backup', Buffer.from('of another cluster'));
  s3.objects.set('flynn/test/deeper/test-20200101T000000Z.backup', Buffer.from('of nobody'));
  await desk.world.deps.resources.updateStatus(backupScheduleType, scheduleId, () => ({ handledMs: start }));
  for (let day = 0; day < 3; day += 1) assert.equal(await desk.at(start + hourMs + day * 24 * hourMs), 0);
  assert.deepEqual([...s3.objects.keys()].toSorted(), [
    'flynn/test/deeper/test-20200101T000000Z.backup',
    'flynn/test/other-20200101T000000Z.backup',
    'flynn/test/test-20270102T033000Z.backup',
    'flynn/test/test-20270103T033000Z.backup',
  ]);
  const kept = s3.objects.get('flynn/test/test-20270103T033000Z.backup');
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

test('when it is due is a matter of the schedule, of what is pending, and of who wants it now', () => {
  const spec = { schedule: '0 3 * * *', to: { host: 'h', directory: '/b' }, keep: 2 };
  const at = (status: Parameters<typeof nextBackup>[0]['status'], now: number) => nextBackup({ spec, status }, now);
  const tick = start + hourMs / 2;
  assert.deepEqual(at({ handledMs: start }, start), { do: 'wait', untilMs: tick });
  assert.deepEqual(at({ handledMs: start }, tick + 5), {
    do: 'make',
    tickMs: tick + 5,
    attempt: 1,
    retryMs: tick + 60_005,
  });
  assert.equal(at({ handledMs: start }, tick + 400 * 24 * hourMs).do, 'make');
  const pending = { tickMs: tick, attempt: 2, nextMs: tick + 1_000 };
  assert.deepEqual(at({ handledMs: tick, pending }, tick), { do: 'wait', untilMs: tick + 1_000 });
  const again = at({ handledMs: tick, pending }, tick + 1_000);
  assert.ok(again.do === 'make' && again.tickMs === tick && again.attempt === 3);
  assert.equal(at({ handledMs: start, isWanted: true }, start).do, 'make');
  const names = [1, 2, 3].map((day) => fileOf('prod', Date.UTC(2027, 0, day)));
  assert.deepEqual(
    superfluous([...names, 'prod-old-20200101T000000Z.backup', 'x.backup'], 'prod', 2, names.at(-1) ?? ''),
    [names[0]],
  );
});
