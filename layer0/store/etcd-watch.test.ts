/** What a watch makes of what etcd sends, and how much of it waits for a reader. */
import assert from 'node:assert/strict';
import { Duplex } from 'node:stream';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { EtcdMembers } from './etcd-members.ts';
import { watchPrefix } from './etcd-watch.ts';

/** A stream as gRPC's: what is sent lies in it until it is read. */
class Sent extends Duplex {
  readonly asked: unknown[] = [];

  constructor() {
    super({ objectMode: true });
  }

  cancel(): void {
    this.destroy();
  }

  override _read(): void {}

  override _write(request: unknown, _encoding: string, done: () => void): void {
    this.asked.push(request);
    done();
  }

  send(revision: number, more: { created?: boolean; valueBytes?: number } = {}): void {
    const { created = false, valueBytes } = more;
    const kv = { key: Buffer.from('/w/a'), value: Buffer.alloc(valueBytes ?? 0, 'x'), lease: '0' };
    const versions = { create_revision: String(revision), mod_revision: String(revision) };
    const events = valueBytes === undefined ? [] : [{ type: 'PUT', kv: { ...kv, ...versions } }];
    this.push({ created, canceled: false, header: { cluster_id: '1', revision: String(revision) }, events });
  }
}

function open(t: TestContext) {
  const members = new EtcdMembers(['http://192.0.2.1:2379']);
  const stream = new Sent();
  t.mock.method(members.current.client.watchClient, 'watch', async () => stream);
  const abort = new AbortController();
  t.after(() => {
    abort.abort();
    members.close();
  });
  const batches = watchPrefix({
    members,
    prefix: '/w/',
    after: 1,
    signal: abort.signal,
    closing: abort.signal,
    openMs: 5_000,
    clusterId: '1',
    currentRevision: async () => 1,
    log: silentLogger(),
  })[Symbol.asyncIterator]();
  stream.send(1, { created: true });
  return { stream, next: async () => (await batches.next()).value };
}

for (const [what, valueBytes, most] of [
  ['small', 10, 64],
  ['large', 300_000, 4],
] as const) {
  test(`a reader that stands still leaves what is ${what} with etcd, and loses nothing of it`, async (t) => {
    const { stream, next } = open(t);
    const first = next();
    const all = 200;
    for (let revision = 2; revision < all; revision += 1) stream.send(revision, { valueBytes });
    assert.equal((await first)?.revision, 2);
    await waitFor(() => stream.isPaused(), { what: 'the stream to stand still', deadlineMs: 30_000, intervalMs: 2 });
    // What waits in the watch itself, past the first one.
    assert.ok(all - 3 - stream.readableLength <= most, `${all - 3 - stream.readableLength} wait`);
    for (let revision = 3; revision < all; revision += 1) assert.equal((await next())?.revision, revision);
    assert.equal(stream.readableLength, 0);
  });
}

test('a watch asks etcd to say how far it is, and hands that on; the answer to its request is no such thing', async (t) => {
  const { stream, next } = open(t);
  const first = next();
  stream.send(9);
  assert.deepEqual(await first, { revision: 9, changes: [] });
  const [request] = stream.asked;
  assert.match(JSON.stringify(request), /"start_revision":2,"progress_notify":true/);
  // Said again, and something after all.
  stream.send(9);
  stream.send(12, { valueBytes: 1 });
  const second = await next();
  assert.deepEqual([second?.revision, second?.changes.length], [12, 1]);
});
