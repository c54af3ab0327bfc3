import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import type { ServerEvent } from '@flynn/kit/routes';
import { applyFeed } from './controller-feed.ts';
import { Drains } from './drains.ts';
import { encoded, openTestHistory } from './testing.ts';
import type { TestHistory } from './testing.ts';

function partsOf({ dir, history }: TestHistory) {
  const log = silentLogger();
  const appNames = new Map<string, string>();
  const drains = new Drains({ dir, history, appName: (app) => app, log });
  return { history, drains, appNames, log };
}

const app = (id: string): ServerEvent => ({ event: 'app', data: { id, name: `name-${id}` } });
const current: ServerEvent = { event: 'current', data: {} };

async function* told(...events: (ServerEvent | (() => Promise<void>))[]): AsyncGenerator<ServerEvent> {
  for (const event of events) {
    if (typeof event === 'function') await event();
    else yield event;
  }
}

test('an app that is in the list no more loses its log, one made while the list is read keeps it', async () => {
  await using env = await openTestHistory();
  const parts = partsOf(env);
  for (const id of ['kept', 'gone']) await env.history.append(id, encoded(0));
  const makeNew = () => env.history.append('new', encoded(0));
  await applyFeed(told(app('kept'), makeNew, current), parts);
  assert.deepEqual([...env.history.apps].sort(), ['kept', 'new']);
  assert.deepEqual([...parts.appNames], [['kept', 'name-kept']]);
});

test('a connection that breaks before the list is complete deletes nothing', async () => {
  await using env = await openTestHistory();
  await env.history.append('unmentioned', encoded(0));
  await applyFeed(told(app('kept')), partsOf(env));
  assert.deepEqual(env.history.apps, ['unmentioned']);
});

test('an app that is deleted loses its log then, and gets none by lines that come late', async () => {
  await using env = await openTestHistory();
  await env.history.append('gone', encoded(0));
  await applyFeed(told(app('gone'), current, { event: 'app-removed', data: { id: 'gone' } }), partsOf(env));
  await env.history.append('gone', encoded(1));
  assert.deepEqual(env.history.apps, []);
});

test('drains follow the list and its changes, and one that cannot be read costs only itself', async () => {
  await using env = await openTestHistory();
  const parts = partsOf(env);
  const drain = (id: string): ServerEvent => ({ event: 'drain', data: { id, url: 'https://192.0.2.1/' } });
  const bad: ServerEvent = { event: 'drain', data: { id: 'bad', url: 'ftp://192.0.2.1/' } };
  const ids = () => parts.drains.status.map(({ id }) => id).sort();
  await applyFeed(told({ event: 'drain', data: {} }, bad, drain('a'), drain('b'), current), parts);
  assert.deepEqual(ids(), ['a', 'b']);
  await applyFeed(told(drain('b'), drain('c'), current, { event: 'drain-removed', data: { id: 'b' } }), parts);
  assert.deepEqual(ids(), ['c']);
  await parts.drains.close();
});

test('the networks of the cluster are known from the first event on', async () => {
  await using env = await openTestHistory();
  const parts = partsOf(env);
  await applyFeed(told({ event: 'networks', data: { inside: ['198.51.100.0/24'] } }, current), parts);
  assert.equal(parts.drains.outside.has('198.51.100.9'), false);
  assert.equal(parts.drains.outside.has('203.0.113.9'), true);
  await parts.drains.close();
});
