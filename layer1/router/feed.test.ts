import assert from 'node:assert/strict';
import { test } from 'node:test';
import { routeSchema } from '@flynn/controller/model';
import type { Route } from '@flynn/controller/model';
import { FlynnError } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { RouteFeed } from './feed.ts';
import type { RouteSink } from './feed.ts';

type Event = { id?: string; event: string; data: unknown };

function listen(revision?: string, known: Route[] = []) {
  const told: string[] = [];
  const sink: RouteSink = {
    replace: (routes) => told.push(`all ${routes.map(({ id, http }) => `${id}${http.sticky ? '!' : ''}`).join(' ')}`),
    set: ({ id }) => told.push(`set ${id}`),
    remove: (id) => told.push(`remove ${id}`),
  };
  const feed = new RouteFeed({
    sink,
    known: (id) => known.find((one) => one.id === id),
    revision,
    log: silentLogger(),
  });
  const asked: (string | undefined)[] = [];
  const follow = (events: readonly Event[], error?: Error) =>
    feed.follow(async function* connect(after) {
      asked.push(after);
      yield* events;
      if (error !== undefined) throw error;
    });
  return { told, feed, asked, follow };
}

const route = (id: string, more: object = {}) => ({
  id,
  appId: 'a',
  type: 'http',
  domain: `${id}.test`,
  service: 'web',
  createdAt: '',
  ...more,
});
const set = (id: string, revision?: string, more: object = {}): Event => ({
  event: 'set',
  data: route(id, more),
  ...(revision === undefined ? {} : { id: revision }),
});
const current = (revision?: string): Event => ({
  event: 'current',
  data: {},
  ...(revision === undefined ? {} : { id: revision }),
});

test('nothing is told before all routes are there; then each change', async () => {
  const { told, feed, follow } = listen();
  await follow([set('a'), set('b')]);
  assert.deepEqual([told, feed.revision], [[], undefined]);
  await follow([set('a'), set('b'), current('7'), set('c', '8'), { event: 'remove', data: { id: 'a' }, id: '9' }]);
  assert.deepEqual([told, feed.revision], [['all a b', 'set c', 'remove a'], '9']);
});

test('a connection goes on where the last one broke off; without its history everything is told anew', async () => {
  const { told, asked, feed, follow } = listen();
  await follow([set('a'), current('7')]);
  await follow([set('b', '8')]);
  const gone = new FlynnError('conflict', 'compacted');
  await assert.rejects(follow([], gone));
  await follow([set('b'), current('12')]);
  assert.deepEqual(asked, [undefined, '7', '8', undefined]);
  assert.deepEqual([told, feed.revision], [['all a', 'set b', 'all b'], '12']);
  await assert.rejects(follow([], new FlynnError('unavailable', 'away')));
  assert.equal(feed.revision, '12');
});

test('whoever tells no revisions is asked for everything each time', async () => {
  const { told, asked, follow } = listen();
  await follow([set('a'), current(), set('b')]);
  await follow([set('b'), current()]);
  assert.deepEqual(asked, [undefined, undefined]);
  assert.deepEqual(told, ['all a', 'set b', 'all b']);
});

test('what was known before is gone on from', async () => {
  const { told, asked, follow } = listen('40');
  await follow([set('a', '41')]);
  assert.deepEqual([asked, told], [['40'], ['set a']]);
});

test('a route with settings of another version is kept with those that are understood, and costs no other route', async () => {
  const { told, follow } = listen();
  await follow([
    set('a', undefined, { http: { sticky: true, protocol: 'h9', later: { x: 1 } } }),
    set('b', undefined, { http: { sticky: true, limits: { bodyBytes: -1 } }, tcp: 'none' }),
    set('c', undefined, { type: 'quic' }),
    set('d'),
    current('1'),
  ]);
  assert.deepEqual(told, ['all a! b! d']);
});

test('one that is there and that the controller, or this version, cannot read stays as it was known', async () => {
  const known = ['a', 'b', 'gone'].map((id) => routeSchema.parse(route(id, { http: { sticky: true } })));
  const { told, follow } = listen(undefined, known);
  await follow([
    { event: 'unreadable', data: { id: 'a' } },
    set('b', undefined, { type: 'quic' }),
    { event: 'unreadable', data: { id: 'never-seen' } },
    set('d'),
    current('1'),
  ]);
  assert.deepEqual(told, ['all a! b! d']);
});

test('after one that could not be read everything is told anew, by who may be able to; until it is read, or gone', async () => {
  const unread: Event = { event: 'unreadable', data: { id: 'b' }, id: '11' };
  const bad = set('b', '11', { type: 'quic' });
  for (const event of [unread, bad, { event: 'unreadable', data: { id: 'b' } }]) {
    const { told, asked, feed, follow } = listen('10', [routeSchema.parse(route('b'))]);
    await follow([current('10'), event, set('c', '12')]);
    assert.equal(feed.revision, undefined, 'nor is a file to say that all was read');
    await follow([set('b', undefined, { http: { sticky: true } }), set('c'), current('12')]);
    assert.deepEqual([asked, feed.revision], [['10', undefined], '12']);
    assert.deepEqual(told, ['set b', 'set c', 'all b! c']);
  }
  for (const [end, data] of [
    ['set', route('b')],
    ['remove', { id: 'b' }],
  ] as const) {
    const { asked, follow } = listen('10');
    await follow([current('10'), unread, { event: end, data, id: '12' }]);
    await follow([current('12')]);
    assert.deepEqual(asked, ['10', '12'], end);
  }
  const { asked, feed, follow } = listen();
  await follow([unread, current('20')]);
  assert.equal(feed.revision, undefined);
  await follow([set('b')]);
  assert.equal(feed.revision, undefined, 'it broke off before all was told');
  await follow([set('b'), current('21')]);
  assert.deepEqual([asked, feed.revision], [[undefined, undefined, undefined], '21']);
});

test('what a later controller tells beside is nobody’s loss', async () => {
  const { told, feed, follow } = listen();
  await follow([set('a'), { event: 'news', data: {} }, current('1'), { event: 'news', data: { id: 'a' }, id: '2' }]);
  assert.deepEqual([told, feed.revision], [['all a'], '2']);
});
