import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { IKeyValue, IRequestOp, ITxnRequest } from 'etcd3';
import { WriteFence } from './etcd-fence.ts';
import type { Answer } from './etcd-fence.ts';
import { bytesOf, compareOf, requestOf } from './etcd-wire.ts';
import type { Compare, Operation } from './store.ts';

const fenceKey = '/fence';
const lost = () => new FlynnError('timeout', 'it did not answer in time');

/** As much of etcd as transactions need: what was sent is carried out when it says so. */
class Server {
  revision = 1;
  raises = 0;
  readonly entries = new Map<string, { value: string; revision: number }>();

  put(key: string, value: string): number {
    this.revision += 1;
    this.entries.set(key, { value, revision: this.revision });
    return this.revision;
  }

  carryOut({ compare = [], success = [], failure = [] }: ITxnRequest): Answer {
    const succeeded = compare.every(
      ({ key = '', mod_revision = 0 }) => (this.entries.get(String(key))?.revision ?? 0) === Number(mod_revision),
    );
    const responses = (succeeded ? success : failure).map((one) => this.#answer(one));
    return { header: { revision: String(this.revision) }, succeeded, responses };
  }

  raise = async (key: string): Promise<number> => {
    this.raises += 1;
    return this.put(key, '{}');
  };

  valueOf(key: string): string | undefined {
    return this.entries.get(key)?.value;
  }

  #answer({ request_put: written, request_range: read }: IRequestOp): Answer['responses'][number] {
    if (written !== undefined) this.put(String(written.key), String(written.value));
    const key = String(read?.key);
    const found = this.entries.get(key);
    return { response_range: { kvs: found === undefined ? [] : [keyValueOf(key, found)] } };
  }
}

function keyValueOf(key: string, { value, revision }: { value: string; revision: number }): IKeyValue {
  const mod = String(revision);
  return {
    key: bytesOf(key),
    value: bytesOf(value),
    create_revision: mod,
    mod_revision: mod,
    version: '1',
    lease: '0',
  };
}

type Send = (request: ITxnRequest) => Promise<Answer>;

function client(t: { signal: AbortSignal }, server = new Server(), raise = server.raise) {
  const fence = new WriteFence({ key: fenceKey, raise });
  const served: Send = async (request) => server.carryOut(request);
  const write = (value: string, { send = served, compare = [] }: { send?: Send; compare?: Compare[] } = {}) => {
    const then: Operation[] = [{ put: '/a', value }];
    const request = { compare: compare.map(compareOf), success: then.map(requestOf), failure: [] };
    return fence.carryOut(request, { send, untilMs: performance.now() + 60_000, signal: t.signal });
  };
  return { server, write };
}

/** A way to etcd on which what is sent is lost, and may arrive after all. */
function losing(error: Error = lost()) {
  const kept: ITxnRequest[] = [];
  const send: Send = async (request) => {
    kept.push(request);
    throw error;
  };
  return { send, arrive: (server: Server) => kept.map((request) => server.carryOut(request).succeeded) };
}

test('what was not answered is carried out before what is sent next, or never', async (t) => {
  const { server, write } = client(t);
  const way = losing();
  await assert.rejects(write('old', { send: way.send }), (error) => hasCode(error, 'timeout'));
  assert.equal(server.raises, 0, 'nothing is written for it as long as nothing else is');
  assert.equal((await write('new')).succeeded, true);
  assert.deepEqual(way.arrive(server), [false]);
  assert.equal(server.valueOf('/a'), 'new');
  assert.equal((await write('newer')).succeeded, true);
  assert.equal(server.raises, 1);
});

test('each that was not answered is fenced off anew', async (t) => {
  const { server, write } = client(t);
  const first = losing();
  const second = losing(new FlynnError('unavailable', 'the connection broke'));
  await assert.rejects(write('first', { send: first.send }));
  await assert.rejects(write('second', { send: second.send }));
  await write('third');
  assert.deepEqual([...first.arrive(server), ...second.arrive(server)], [false, false]);
  assert.equal(server.valueOf('/a'), 'third');
});

test('nothing is fenced off that was refused, or never sent', async (t) => {
  const { server, write } = client(t);
  const neverSent = new FlynnError('unavailable', 'etcd failed', { cause: new Error('etcdserver: no leader') });
  for (const error of [new FlynnError('exhausted', 'no space'), new FlynnError('not_found', 'no lease'), neverSent]) {
    await assert.rejects(write('x', { send: losing(error).send }), error);
  }
  await write('done');
  assert.equal(server.raises, 0);
});

test("a transaction's own compares say what they said, and its reads are its own", async (t) => {
  const { server, write } = client(t);
  server.put('/a', 'there');
  const answer = await write('new', { compare: [{ key: '/a', modRevision: 0 }] });
  assert.equal(answer.succeeded, false);
  assert.deepEqual(answer.responses, []);
});

test('one under way that comes after the fence was moved is carried out behind it, once', async (t) => {
  const { server, write } = client(t);
  const gate = Promise.withResolvers<void>();
  let sent = 0;
  const slow = write('slow', {
    send: async (request) => {
      sent += 1;
      await gate.promise;
      return server.carryOut(request);
    },
  });
  await assert.rejects(write('old', { send: losing().send }));
  await write('new');
  gate.resolve();
  assert.equal((await slow).succeeded, true);
  assert.equal(sent, 2);
  assert.equal(server.valueOf('/a'), 'slow');
});

test('a fence that was written twice is taken as it is; one that is gone is made anew', async (t) => {
  const { server, write } = client(t);
  const way = losing();
  await assert.rejects(write('old', { send: way.send }));
  await write('new');
  server.put(fenceKey, '{}');
  assert.equal((await write('newer')).succeeded, true);
  assert.equal(server.raises, 1);
  server.entries.delete(fenceKey);
  assert.equal((await write('newest')).succeeded, true);
  assert.equal(server.raises, 2);
  assert.deepEqual(way.arrive(server), [false]);
  // A store from a backup, whose revisions are lower.
  server.entries.set(fenceKey, { value: '{}', revision: 1 });
  assert.equal((await write('restored')).succeeded, true);
  assert.equal(server.raises, 3);
});

test('while the fence cannot be moved nothing is sent, and it is tried again with the next', async (t) => {
  const server = new Server();
  let isAway = true;
  const raise = async (key: string) => {
    if (isAway) throw new FlynnError('unavailable', 'etcd is away');
    return server.raise(key);
  };
  const { write } = client(t, server, raise);
  await assert.rejects(write('old', { send: losing().send }));
  let sent = 0;
  const send: Send = async (request) => {
    sent += 1;
    return server.carryOut(request);
  };
  await assert.rejects(write('new', { send }), (error) => hasCode(error, 'unavailable'));
  assert.equal(sent, 0);
  isAway = false;
  assert.equal((await write('new', { send })).succeeded, true);
});

test('many that wait for the fence move it once', async (t) => {
  const { server, write } = client(t);
  await assert.rejects(write('old', { send: losing().send }));
  const answers = await Promise.all(['a', 'b', 'c'].map((value) => write(value)));
  assert.deepEqual(
    answers.map(({ succeeded }) => succeeded),
    [true, true, true],
  );
  assert.equal(server.raises, 1);
});
