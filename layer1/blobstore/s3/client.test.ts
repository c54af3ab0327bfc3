import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { S3Client } from './client.ts';
import { sha256 } from './signature.ts';
import { startTestS3 } from './testing-s3.ts';
import { valueIn, valuesIn } from './xml.ts';

const { signal } = new AbortController();
const partBytes = 1_000;

async function* chunksOf(data: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < data.length; at += size) yield data.subarray(at, at + size);
}

test('what is uploaded comes out the same, in one request or in parts, whatever the chunks', async () => {
  await using s3 = await startTestS3();
  const client = new S3Client(s3.bucket, s3.credentials, { partBytes });
  for (const length of [0, 1, partBytes, partBytes + 1, 3 * partBytes, 3 * partBytes + 7]) {
    for (const size of [1, 333, partBytes, 10_000]) {
      const data = randomBytes(length);
      const kept = await client.upload('a b/$é(1)+.backup', chunksOf(data, size), signal);
      assert.deepEqual(kept, { sizeBytes: length, sha256: sha256(data) });
      assert.deepEqual(s3.objects.get('a b/$é(1)+.backup'), data, `${length} by ${size}`);
    }
  }
  assert.equal(s3.uploads.size, 0);
});

test('a service that refuses for a while is asked again', async () => {
  await using s3 = await startTestS3();
  const client = new S3Client(s3.bucket, s3.credentials, { partBytes });
  const data = randomBytes(2_500);
  for (const [status, code] of [
    [503, 'SlowDown'],
    [400, 'RequestTimeout'],
    [409, 'OperationAborted'],
  ] as const) {
    Object.assign(s3.failing, { left: 2, status, code });
    await client.upload(code, chunksOf(data, 700), signal);
    assert.deepEqual(s3.objects.get(code), data);
  }
});

test('a list whose answer breaks off is asked for again', async () => {
  await using s3 = await startTestS3();
  const client = new S3Client(s3.bucket, s3.credentials);
  s3.objects.set('a', Buffer.from('a'));
  s3.breaking.left = 1;
  assert.deepEqual(await client.list('', signal), [{ key: 'a', sizeBytes: 1 }]);
  assert.equal(s3.breaking.left, 0);
});

test('an upload in parts whose last answer is lost is there, and one the service gave up is not', async () => {
  await using s3 = await startTestS3();
  const client = new S3Client(s3.bucket, s3.credentials, { partBytes });
  const data = randomBytes(2_500);
  s3.before = async (method, _key, query) => {
    if (method !== 'POST' || !query.has('uploadId')) return;
    s3.losing.left = 1;
    s3.before = undefined;
  };
  await client.upload('a', chunksOf(data, 700), signal);
  assert.deepEqual([s3.objects.get('a'), s3.losing.left], [data, 0]);
  s3.before = async (method, _key, query) => {
    if (method === 'POST' && query.has('uploadId')) s3.uploads.clear();
  };
  await assert.rejects(client.upload('b', chunksOf(data, 700), signal), (error) => hasCode(error, 'not_found'));
});

test('an upload whose source fails leaves nothing', async () => {
  await using s3 = await startTestS3();
  const client = new S3Client(s3.bucket, s3.credentials, { partBytes });
  async function* failing(): AsyncGenerator<Uint8Array> {
    yield randomBytes(2_500);
    throw new Error('the source is gone');
  }
  await assert.rejects(client.upload('a', failing(), signal), /the source is gone/);
  assert.deepEqual([s3.objects.size, s3.uploads.size], [0, 0]);
});

test('uploads that whoever began them left are given up: those of that prefix, from before that time', async () => {
  await using s3 = await startTestS3();
  const client = new S3Client(s3.bucket, s3.credentials, { folder: 'f/', partBytes });
  const keys = ['a b+1', 'a b+1', 'a b+2', 'a b+é', 'other'];
  for (const key of keys) {
    const killed = new AbortController();
    s3.before = async (method, _key, query) => {
      if (method === 'PUT' && query.has('partNumber')) killed.abort();
      // It is killed before it can give it up.
      if (method === 'DELETE') throw new Error('nobody asks for that');
    };
    await assert.rejects(client.upload(key, chunksOf(randomBytes(2_500), 700), killed.signal));
  }
  s3.before = undefined;
  const left = () => [...s3.uploads.keys()].map((id) => s3.begun.get(id)?.key);
  assert.equal(left().length, keys.length);
  const first = s3.begun.get([...s3.begun.keys()][0] ?? '');
  assert.ok(first);
  first.at -= 86_400_000;
  assert.equal(await client.abortUploads('a b+', { begunBefore: Date.now() - 3_600_000, signal }), 1);
  assert.deepEqual(left(), ['f/a b+1', 'f/a b+2', 'f/a b+é', 'f/other']);
  assert.equal(await client.abortUploads('a b+', { signal }), 3);
  assert.deepEqual(left(), ['f/other']);
});

test('a list has all pages, of what begins so', async () => {
  await using s3 = await startTestS3();
  const client = new S3Client(s3.bucket, s3.credentials);
  const keys = ['x/a b', 'x/b+c', 'x/c%20', 'x/d&e', 'x/é'];
  for (const key of [...keys, 'other']) s3.objects.set(key, Buffer.from(key));
  const found = await client.list('x/', signal);
  assert.deepEqual(
    found,
    keys.map((key) => ({ key, sizeBytes: Buffer.byteLength(key) })),
  );
  await client.remove('x/a b', signal);
  await client.remove('x/a b', signal);
  assert.equal((await client.list('x/', signal)).length, 4);
});

test('who may not, and what is not there, is told in the service’s words', async () => {
  await using s3 = await startTestS3();
  const wrong = new S3Client(s3.bucket, { ...s3.credentials, secretAccessKey: 'other' });
  await assert.rejects(
    wrong.list('', signal),
    (error) => hasCode(error, 'denied') && /SignatureDoesNotMatch: it says so/.test(error.message),
  );
  const elsewhere = new S3Client({ ...s3.bucket, bucket: 'none' }, s3.credentials);
  await assert.rejects(elsewhere.list('', signal), (error) => hasCode(error, 'not_found'));
  const nowhere = new S3Client({ ...s3.bucket, endpoint: 'http://127.0.0.1:1' }, s3.credentials, { patienceMs: 1 });
  await assert.rejects(nowhere.list('', signal), /127\.0\.0\.1:1/);
});

test('values are read out of XML, entities included', () => {
  const xml = '<A x="1"><K>a&amp;b&#38;&#x26;&lt;</K></A><A><K>c</K></A>';
  assert.deepEqual(
    valuesIn(xml, 'A').map((one) => valueIn(one, 'K')),
    ['a&b&&<', 'c'],
  );
  assert.equal(valueIn(xml, 'Z'), undefined);
});
