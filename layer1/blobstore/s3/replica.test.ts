import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { fakeClock, systemClock } from '@flynn/kit/clock';
import type { Clock } from '@flynn/kit/clock';
import { hasCode } from '@flynn/kit/errors';
import { describeStorage } from '../conformance.ts';
import { describeReplica } from '../replica-conformance.ts';
import { removalMemoryMs } from '../replica.ts';
import { ReplicatedStorage } from '../replicated.ts';
import { chunks, digestOf, textOf } from '../testing.ts';
import { S3Client } from './client.ts';
import { useKey } from './record.ts';
import { S3Replica } from './replica.ts';
import { startTestS3 } from './testing-s3.ts';
import type { TestS3 } from './testing-s3.ts';

const folder = 'flynn/';
const page = { after: '', limit: 100 };

/** `open` makes another store on the same bucket. */
async function setUp(t: TestContext, clock: Clock = systemClock) {
  const s3 = await startTestS3();
  const dir = await mkdtemp(join(tmpdir(), 'flynn-spool-'));
  t.after(async () => {
    await s3[Symbol.asyncDispose]();
    await rm(dir, { recursive: true });
  });
  const damaged: string[] = [];
  const open = () => {
    const client = new S3Client(s3.bucket, s3.credentials, { folder, patienceMs: 5_000 });
    return new S3Replica({ client, spoolDir: join(dir, 'tmp'), clock, onDamaged: (digest) => damaged.push(digest) });
  };
  const keysOf = (digest: string) => [...s3.objects.keys()].filter((key) => key.includes(digest.slice(7)));
  return { s3, dir, damaged, open, keysOf };
}

/** As if the service had carried out what another store asks for just before an answer to this one. */
function meanwhile(s3: TestS3, isIt: (method: string, key: string) => boolean, then: () => Promise<unknown>): void {
  s3.before = async (method, key) => {
    if (!isIt(method, key)) return;
    s3.before = undefined;
    await then();
  };
}

describeStorage('storage in a bucket', async (t) => {
  const { s3, open, keysOf } = await setUp(t);
  return {
    storage: new ReplicatedStorage({ own: open(), peers: () => [], clock: systemClock }),
    async age(digest, ms) {
      for (const key of keysOf(digest)) if (key.includes('used-')) s3.objects.delete(key);
      s3.objects.set(`${folder}${useKey(digest.slice(7), Date.now() - ms)}`, Buffer.alloc(0));
    },
  };
});

describeReplica('copies in a bucket', async (t) => (await setUp(t)).open());

test('what one store puts, uses, names and removes, the others on the bucket have at once', async (t) => {
  const { dir, open } = await setUp(t);
  const [one, other] = [open(), open()];
  const { digest, usedAt } = await one.put(chunks('precious'), {});
  assert.equal(await textOf((await other.open(digest)).body), 'precious');
  await other.use(digest, usedAt + 5);
  assert.equal(await one.remove({ digest, before: usedAt + 5 }), false);
  await one.point({ name: 'cache/a', digest, changedAt: 7 });
  assert.equal((await other.pointer('cache/a'))?.digest, digest);
  assert.equal(await other.remove({ digest, before: usedAt + 6 }), true);
  assert.equal(await one.find(digest), undefined);
  assert.deepEqual(await readdir(join(dir, 'tmp')), []);
});

test('lists begin after a name whatever its characters', async (t) => {
  const { open } = await setUp(t);
  const replica = open();
  const names = ['a', 'a-b', 'a.b', 'a/b', 'a0', 'aa'];
  for (const name of names) await replica.point({ name, digest: digestOf(name), changedAt: 1 });
  const found: string[] = [];
  for (let after = ''; ;) {
    const [next] = await replica.pointers({ after, limit: 1 });
    if (next === undefined) break;
    found.push((after = next.name));
  }
  assert.deepEqual(found, names);
});

/** Two stores on a bucket that has one blob, used last at 1,000. */
async function twoWithCopy(t: TestContext) {
  const { s3, open } = await setUp(t);
  const [one, other] = [open(), open()];
  const { digest } = await one.copy({ digest: digestOf('x'), usedAt: 1_000 }, chunks('x'));
  return { s3, one, other, digest };
}

test('a use that comes while a blob is removed is seen, and the blob stays', async (t) => {
  const { s3, one, other, digest } = await twoWithCopy(t);
  meanwhile(
    s3,
    (method, key) => method === 'PUT' && key.includes('removed-'),
    () => other.use(digest, 3_000),
  );
  assert.equal(await one.remove({ digest, before: 2_000 }), false);
  assert.equal(await textOf((await one.open(digest)).body), 'x');
  assert.deepEqual(await one.removals(page), []);
});

test('a use that a removal did not see any more puts the bytes anew', async (t) => {
  const { s3, one, other, digest } = await twoWithCopy(t);
  const isTaking = Promise.withResolvers<void>();
  let removing: Promise<boolean> | undefined;
  let using: ReturnType<typeof other.use> | undefined;
  s3.before = async (method, key) => {
    if (method === 'PUT' && key.includes('used-') && removing === undefined) {
      removing = one.remove({ digest, before: 2_000 });
      await isTaking.promise;
    } else if (method === 'DELETE' && key.includes('bytes-')) {
      s3.before = undefined;
      isTaking.resolve();
      await using;
    }
  };
  using = other.use(digest, 3_000);
  assert.deepEqual(await using, { digest, sizeBytes: 1 });
  assert.equal(await removing, true);
  assert.equal(await textOf((await one.open(digest)).body), 'x');
  assert.deepEqual(await one.removals(page), []);
});

test('a put that comes just before the bytes are taken keeps its own', async (t) => {
  const { s3, one, other, digest } = await twoWithCopy(t);
  const isTaking = (method: string, key: string) => method === 'DELETE' && key.includes('bytes-');
  meanwhile(s3, isTaking, () => other.put(chunks('x'), {}));
  assert.equal(await one.remove({ digest, before: 2_000 }), true);
  assert.equal(await textOf((await one.open(digest)).body), 'x');
  assert.deepEqual(await other.removals(page), []);
});

test('a put that a removal of later comes into is kept with other bytes than those that go', async (t) => {
  const { s3, open } = await setUp(t);
  const [one, other] = [open(), open()];
  const digest = digestOf('x');
  const hasPut = Promise.withResolvers<void>();
  const isTaking = Promise.withResolvers<void>();
  let removing: Promise<boolean> | undefined;
  s3.before = async (method, key, query) => {
    if (method === 'GET' && query.get('prefix')?.includes(digest.slice(7)) && removing === undefined) {
      const isPut = [...s3.objects.keys()].some((each) => each.includes('bytes-'));
      if (!isPut) return;
      // The bytes are there, and the put has not looked yet.
      removing = one.remove({ digest, before: Date.now() + 60_000 });
      await isTaking.promise;
    } else if (method === 'DELETE' && key.includes('bytes-')) {
      s3.before = undefined;
      isTaking.resolve();
      await hasPut.promise;
    }
  };
  await other.put(chunks('x'), {}).finally(() => hasPut.resolve());
  assert.equal(await removing, true);
  assert.equal(await textOf((await one.open(digest)).body), 'x');
});

test('bytes that are not their digest fail whoever reads them and are told; putting them again heals them', async (t) => {
  const { s3, damaged, open, keysOf } = await setUp(t);
  const replica = open();
  const { digest } = await replica.put(chunks('precious'), {});
  const key = keysOf(digest).find((one) => one.includes('bytes-')) ?? assert.fail();
  s3.objects.set(key, Buffer.from('precioux'));
  const { body } = await replica.open(digest);
  await assert.rejects(textOf(body), (error) => hasCode(error, 'internal') && /is damaged/.test(error.message));
  assert.deepEqual(damaged, [digest]);
  await replica.put(chunks('precious'), {});
  assert.equal(await textOf((await replica.open(digest)).body), 'precious');
  assert.equal(keysOf(digest).length, 2);
});

test('a download goes on after its connection broke, with bytes that were put again meanwhile', async (t) => {
  const { s3, open } = await setUp(t);
  const replica = open();
  const data = 'x'.repeat(3_000_000);
  const { digest } = await replica.put(chunks(data), {});
  s3.breaking.left = 1;
  const { body } = await replica.open(digest);
  await replica.put(chunks(data), {});
  assert.equal(await textOf(body), data);
  assert.equal(s3.breaking.left, 0);
});

test('removals are remembered for thirty days, and what a process left that died goes', async (t) => {
  const clock = fakeClock(removalMemoryMs * 2);
  const { s3, open, keysOf } = await setUp(t, clock);
  const replica = open();
  const [gone, halfPut] = [digestOf('gone'), digestOf('half')];
  await replica.remove({ digest: gone, before: clock.now() });
  await replica.point({ name: 'gone', digest: null, changedAt: clock.now() });
  s3.objects.set(`${folder}${useKey(halfPut.slice(7), clock.now())}`, Buffer.alloc(0));
  await clock.advance(removalMemoryMs - 1);
  assert.equal((await replica.removals(page)).length, 1);
  assert.equal((await replica.pointers(page)).length, 1);
  assert.deepEqual(keysOf(halfPut), []);
  await clock.advance(2);
  // Told a last time, and taken away.
  await Promise.all([replica.removals(page), replica.pointers(page)]);
  assert.deepEqual([await replica.removals(page), await replica.pointers(page)], [[], []]);
  assert.equal(s3.objects.size, 0);
});

test('what killed stores had sent of blobs is given up, what others may be sending is not', async (t) => {
  const { s3, open } = await setUp(t);
  const hourMs = 3_600_000;
  for (const [id, key, hours] of [
    ['old', `${folder}blobs/ab/bytes-1`, 30],
    ['new', `${folder}blobs/ab/bytes-2`, 2],
    ['other', 'blobs/ab/bytes-3', 30],
  ] as const) {
    s3.uploads.set(id, new Map());
    s3.begun.set(id, { key, at: Date.now() - hours * hourMs });
  }
  await open().clear(AbortSignal.timeout(60_000));
  assert.deepEqual([...s3.uploads.keys()], ['new', 'other']);
});

test('what the bucket does not allow is known at the start, with what to do', async (t) => {
  const { s3, dir } = await setUp(t);
  const check = (bucket: TestS3['bucket'], secretAccessKey: string) => {
    const client = new S3Client(bucket, { ...s3.credentials, secretAccessKey }, { folder, patienceMs: 5_000 });
    return new S3Replica({ client, spoolDir: dir, clock: systemClock }).check(AbortSignal.timeout(60_000));
  };
  const { secretAccessKey } = s3.credentials;
  await check(s3.bucket, secretAccessKey);
  assert.equal(s3.objects.size, 0);
  await assert.rejects(check(s3.bucket, 'other'), /SignatureDoesNotMatch.*is AWS_SECRET_ACCESS_KEY/);
  await assert.rejects(check({ ...s3.bucket, bucket: 'none' }, secretAccessKey), /NoSuchBucket.*make the bucket first/);
  s3.skewed = true;
  await assert.rejects(check(s3.bucket, secretAccessKey), /RequestTimeTooSkewed.*the clock of this host/);
});
