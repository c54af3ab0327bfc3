import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { GenericObject } from '@flynn/controller/generic/api';
import { FlynnError } from '@flynn/kit/errors';
import type { ServerEvent } from '@flynn/kit/routes';
import { ObjectWatch } from './watch.ts';

function object(name: string, count: number): GenericObject {
  const at = '2030-01-01T00:00:00.000Z';
  return {
    group: 'demo',
    version: 'v1',
    kind: 'Counter',
    name,
    labels: {},
    spec: {},
    status: { count },
    conditions: [],
    metadata: {
      id: name,
      uid: `uid-${name}`,
      revision: count,
      generation: 1,
      createdAt: at,
      updatedAt: at,
      finalizers: [],
      waitingFor: {},
    },
  };
}

const put = (name: string, count: number, id?: string): ServerEvent => ({
  event: 'put',
  data: object(name, count),
  ...(id === undefined ? {} : { id }),
});
const gone = (name: string, count: number, id: string): ServerEvent => ({ ...put(name, count, id), event: 'delete' });
const current = (id: string): ServerEvent => ({ event: 'current', data: null, id });

/** Streams one after the other, each ending as it is told; `asked` has where each was to go on from. */
async function follow(streams: readonly { events: ServerEvent[]; end?: FlynnError }[]) {
  const stop = new AbortController();
  const asked: (string | undefined)[] = [];
  const told: string[] = [];
  const watch = new ObjectWatch(async function* open({ lastEventId }) {
    const stream = streams[asked.length];
    asked.push(lastEventId);
    if (stream === undefined) stop.abort();
    yield* stream?.events ?? [];
    if (stream?.end !== undefined) throw stream.end;
  });
  for await (const { event, objects } of watch.changes(stop.signal)) {
    told.push(`${event} ${objects.map(({ name, status }) => `${name}=${String(status['count'])}`).join(' ')}`);
  }
  return { asked, told };
}

const broken = new FlynnError('unavailable', 'the connection broke');

test('a stream that breaks is gone on with where it was', async () => {
  const { asked, told } = await follow([
    { events: [put('a', 1), put('b', 1), current('5'), put('a', 2, '6')], end: broken },
    { events: [gone('b', 1, '7')] },
  ]);
  assert.deepEqual(asked, [undefined, '6', '7']);
  assert.deepEqual(told, ['have a=1 b=1', 'put a=2', 'delete b=1']);
});

test('where the history is gone it is listed again: what differs is told, what went meanwhile too, nothing twice', async () => {
  const { asked, told } = await follow([
    { events: [put('a', 1), put('b', 1), put('c', 1), current('5')], end: broken },
    { events: [], end: new FlynnError('conflict', 'compacted') },
    { events: [put('a', 1), put('c', 9), put('d', 1), current('20')] },
  ]);
  assert.deepEqual(asked, [undefined, '5', undefined, '20']);
  assert.deepEqual(told, ['have a=1 b=1 c=1', 'delete b=1', 'put c=9', 'put d=1']);
});

test('nothing there is told once, and what the first try is refused with is thrown', async () => {
  const { told } = await follow([
    { events: [current('1')], end: broken },
    { events: [], end: broken },
  ]);
  assert.deepEqual(told, ['have ']);
  await assert.rejects(follow([{ events: [], end: broken }]), /the connection broke/);
});
