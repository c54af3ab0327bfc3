/** Notifications as people have them: made, sent by the worker, looked at, and gone with their app. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { ErrorCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { grants, tokens, users } from '../access/api.ts';
import { apps } from '../api.ts';
import { audit } from '../audit/api.ts';
import { createControllerClient } from '../client.ts';
import { generic } from '../generic/api.ts';
import { eventsKey } from '../health/events.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { notifications } from './api.ts';
import { notificationFindings } from './findings.ts';
import { restoredQueue } from './queue.ts';
import { isSigned, startReceiver } from './receiver-fixture.ts';
import { addNotification } from './settings.ts';
import { notificationType } from './types.ts';
import { watchStateKey } from './watch-steps.ts';

const deadlineMs = 60_000;
const of = { group: 'flynn', version: 'v1', kind: 'Notification' };
const isCode = (code: ErrorCode, pattern: RegExp) => (error: unknown) =>
  error instanceof FlynnError && hasCode(error, code) && pattern.test(error.message);

async function someone({ client, url }: TestController, name: string, role: 'viewer' | 'developer') {
  await client.call(users.create, { body: { name } });
  await client.call(grants.put, { params: { app: 'shop', kind: 'user', name }, body: { role } });
  const { token } = await client.call(tokens.create, { body: { name: 'test', user: name } });
  return createControllerClient({ baseUrl: url, key: token });
}

test('a deployment that fails is told, signed, also when the receiver was away and another worker sends it', async () => {
  await using receiver = await startReceiver();
  await using world = await startTestController({ hosts: 1 });
  const { client } = world;
  await world.deployApp('shop', { web: {} });
  const body = { name: 'team', url: receiver.url, app: 'shop', on: ['deployment' as const], isInside: true };
  const { secret, notification } = await client.call(notifications.create, { body });
  assert.deepEqual([notification.app?.name, notification.format], ['shop', 'json']);
  const next = await world.makeRelease('shop', { web: { command: ['next'] } });
  receiver.answerWith((response) => response.writeHead(503, { 'retry-after': '1' }).end('not now'));
  world.setBehaviour(() => ({ is: 'crash', code: 1 }));
  await world.deploy('shop', next.id);
  const seen = await waitFor(
    async () => {
      const [found] = await client.call(notifications.list, { query: { app: 'shop' } });
      return found?.failing === undefined ? undefined : found;
    },
    { what: 'the first try', deadlineMs },
  );
  assert.deepEqual([seen.waiting, seen.failing?.answer], [1, '503 not now']);
  const [waiting] = await client.call(notifications.deliveries, { params: { notification: 'team' } });
  assert.deepEqual([waiting?.outcome, waiting?.attempts, waiting?.answer], ['waiting', 1, '503 not now']);
  // The worker that follows knows what the one before had to send.
  receiver.answerWith((response) => response.writeHead(200).end('thanks'));
  await world.restartWorker();
  const delivered = await waitFor(
    async () => {
      const [last] = await client.call(notifications.deliveries, { params: { notification: 'team' } });
      return last?.outcome === 'delivered' ? last : undefined;
    },
    { what: 'the message', deadlineMs },
  );
  assert.deepEqual([delivered.type, delivered.answer], ['deployment.failed', '200 thanks']);
  const got = receiver.got.at(-1);
  assert.ok(got !== undefined && isSigned(got, secret, Date.now()), 'it is signed');
  assert.ok(!isSigned({ ...got, body: `${got.body} ` }, secret, Date.now()));
  assert.ok(!isSigned(got, secret, Date.now() + 600_000), 'not for ever');
  assert.deepEqual(new Set(receiver.got.map(({ headers }) => headers['webhook-id'])), new Set([delivered.id]));
  const { type, data } = JSON.parse(got.body);
  assert.deepEqual(
    [type, data.app, data.url],
    ['deployment.failed', 'shop', 'https://dashboard.flynn.localhost/apps/shop'],
  );
  assert.match(data.text, /^the deployment of v2 failed: /);
});

test('what the doctor finds goes to those of the cluster, and of the app that it is about', async () => {
  await using receiver = await startReceiver();
  await using world = await startTestController({ hosts: 0 });
  const { client, store } = world;
  await client.call(apps.create, { body: { name: 'shop' } });
  await client.call(apps.create, { body: { name: 'blog' } });
  const make = ([name, app]: readonly [string, string?]) => {
    const url = `${receiver.url}/${name}`;
    return client.call(notifications.create, { body: { name, url, ...(app && { app }), isInside: true } });
  };
  for (const args of [['ops'], ['shop', 'shop'], ['blog', 'blog']] as const) await make(args);
  const finding = (subject: string, severity: 'warning' | 'critical', more = {}) => {
    return { check: 'drift', severity, subject, at: '', text: 'it crashes', remedy: 'look', ...more };
  };
  const open = {
    a: finding('host h1', 'warning', { app: 'shop' }),
    b: finding('host h2', 'critical', { check: 'hosts', isAway: true }),
    c: finding('host h3', 'warning'),
  };
  // As if the controller had told of it for a minute.
  const told = { teller: { id: 't', at: Date.now() }, open, recent: [] };
  await store.transact({ then: [{ put: eventsKey, value: JSON.stringify(told) }] });
  const age = async () => {
    const entry = await store.get(watchStateKey);
    if (entry === undefined) return false;
    const state = JSON.parse(entry.value);
    if (Object.keys(state.alerts).length < 3) return false;
    for (const alert of Object.values<{ seenMs: number }>(state.alerts)) alert.seenMs -= 60_000;
    const compare = [{ key: watchStateKey, modRevision: entry.modRevision }];
    return (await store.transact({ compare, then: [{ put: watchStateKey, value: JSON.stringify(state) }] })).succeeded;
  };
  await waitFor(age, { what: 'the findings to be seen', deadlineMs });
  const received = () => receiver.got.map(({ path, body }) => `${path} ${JSON.parse(body).type}`).toSorted();
  await waitFor(() => received().length >= 3, { what: 'the messages', deadlineMs });
  assert.deepEqual(received(), ['/ops app.failing', '/ops host.lost', '/shop app.failing']);
});

test('a heartbeat comes by itself', async () => {
  await using receiver = await startReceiver();
  await using world = await startTestController({ hosts: 0 });
  const body = { name: 'pulse', url: receiver.url, on: ['heartbeat' as const], everyMinutes: 1, isInside: true };
  await world.client.call(notifications.create, { body });
  await waitFor(() => receiver.got.length > 0, { what: 'a heartbeat', deadlineMs });
  assert.equal(JSON.parse(receiver.got[0]?.body ?? '').type, 'heartbeat');
});

test('developers have those of their apps, which lead out of the cluster; those of others are not there for them', async () => {
  await using world = await startTestController({ hosts: 0, hasWorker: false });
  const { client } = world;
  for (const name of ['shop', 'theirs']) await client.call(apps.create, { body: { name } });
  await using developer = await someone(world, 'dave', 'developer');
  await using viewer = await someone(world, 'vera', 'viewer');
  const url = 'https://192.0.2.1/hook/hunter2';
  const make = (name: string, app?: string, more = {}, by = client) =>
    by.call(notifications.create, { body: { name, url, ...(app && { app }), ...more } });
  await make('ops');
  await make('other', 'theirs');
  const { notification } = await make('mine', 'shop', {}, developer);
  assert.equal(notification.url, 'https://192.0.2.1/***');
  assert.deepEqual(await developer.call(notifications.list, {}), [notification]);
  assert.deepEqual(await viewer.call(notifications.list, {}), []);
  const inside = 'http://127.0.0.1:9';
  const named = (name: string) => ({ params: { notification: name } });
  const refusals: [Promise<unknown>, ErrorCode, RegExp][] = [
    [make('x', undefined, {}, developer), 'denied', /only an admin of the cluster/],
    [make('x', 'theirs', {}, developer), 'not_found', /no app "theirs"/],
    [make('x', 'shop', {}, viewer), 'denied', /for developers/],
    [make('x', 'shop', { url: inside }, developer), 'denied', /is inside the cluster/],
    [make('x', 'shop', { url: inside, isInside: true }, developer), 'denied', /only an admin of the cluster/],
    [make('x', undefined, { url: inside }), 'denied', /--inside/],
    [make('x', 'shop', { url: 'http://localhost:9' }), 'denied', /localhost is inside the cluster/],
    [make('x', 'shop', { on: ['host'] }), 'invalid', /on: host: that is told of the cluster/],
    [make('x', 'shop', { secret: 'whsec_short' }), 'invalid', /secret/],
    [make('Ops', undefined), 'invalid', /lower-case/],
    [make('ops', undefined), 'conflict', /already a notification "ops"/],
    [developer.call(notifications.test, named('ops')), 'not_found', /no notification "ops"/],
    [developer.call(notifications.deliveries, named('other')), 'not_found', /no notification/],
    [viewer.call(notifications.remove, named('mine')), 'not_found', /no notification/],
  ];
  await Promise.all(refusals.map(([asked, code, why]) => assert.rejects(asked, isCode(code, why))));
  await developer.call(notifications.remove, named('mine'));
  assert.deepEqual(
    (await client.call(notifications.list, {})).map(({ name }) => name),
    ['ops', 'other'],
  );
  const entries = JSON.stringify(await client.call(audit.list, { query: { limit: 100 } }));
  assert.match(entries, /POST \/notifications|\/notifications/);
  assert.doesNotMatch(entries, /whsec_/);
});

test('what a receiver inside of the cluster answers is for admins; an app has so many at most', async () => {
  await using receiver = await startReceiver();
  await using world = await startTestController({ hosts: 0, hasWorker: false });
  const { client } = world;
  await client.call(apps.create, { body: { name: 'shop' } });
  await using developer = await someone(world, 'dave', 'developer');
  receiver.answerWith((response) => response.writeHead(404).end('hunter2'));
  const make = (name: string, more = {}) =>
    client.call(notifications.create, { body: { name, url: receiver.url, app: 'shop', isInside: true, ...more } });
  await make('in');
  const named = { params: { notification: 'in' } };
  const seen = await developer.call(notifications.test, named);
  assert.deepEqual([seen.status, seen.answer], [404, '']);
  assert.equal((await client.call(notifications.test, named)).answer, 'hunter2');
  assert.equal((await client.call(notifications.deliveries, named))[0]?.answer, '404 hunter2');
  assert.equal((await developer.call(notifications.deliveries, named))[0]?.answer, '404');
  await assert.rejects(make('link', { url: 'http://169.254.169.254/latest' }), isCode('denied', /own link/));
  const [made] = await world.deps.resources.list(notificationType, {});
  assert.ok(made);
  const { signal } = new AbortController();
  const specs = Array.from({ length: 30 }, (_, at) => ({ ...made.spec, name: `n${at}` }));
  await Promise.allSettled(specs.map((spec) => addNotification(world.deps, { spec }, signal)));
  const { length } = await client.call(notifications.list, { query: { app: 'shop' } });
  assert.ok(length <= 20, `${length} notifications`);
  for (let at = length; at < 20; at += 1) await make(`more${at}`);
  await assert.rejects(make('one-more'), isCode('exhausted', /20 notifications at most/));
});

test('neither the trail nor an answer that is kept has a secret of a notification, however short', async () => {
  await using world = await startTestController({ hosts: 0, hasWorker: false });
  const { client, store } = world;
  const params = { group: 'flynn', version: 'v1', kind: 'Notification' };
  const asked = {
    params,
    headers: { 'idempotency-key': 'once' },
    body: { name: 'ops', spec: { url: 'https://192.0.2.1/topic7' } },
  };
  const made = await client.call(generic.apply, asked);
  assert.match(made.notes[0] ?? '', /whsec_/);
  const { entries } = await store.list('/flynn-');
  const told = entries.map(({ value }) => value).join();
  assert.match(told, /192\.0\.2\.1/);
  assert.doesNotMatch(told, /whsec_|topic7/);
});

test('a notification is a file, too: without its secrets, which stay as they are', async () => {
  await using world = await startTestController({ hosts: 0, hasWorker: false });
  const { client, deps } = world;
  await client.call(apps.create, { body: { name: 'shop' } });
  const put = (spec: Record<string, unknown>) =>
    client.call(generic.put, { params: { ...of, name: 'chat' }, body: { owner: 'app/shop', spec } });
  const url = 'https://192.0.2.1/services/T0/B0/hunter2';
  const dry = await client.call(generic.put, {
    params: { ...of, name: 'chat' },
    query: { dryRun: true },
    body: { owner: 'app/shop', spec: { url } },
  });
  assert.deepEqual([dry.outcome, await deps.resources.list(notificationType)], ['created', []]);
  const made = await put({ url, format: 'slack' });
  assert.match(made.notes[0] ?? '', /signed with whsec_\S+: this is told once/);
  const shown = await client.call(generic.get, { params: { ...of, name: 'chat' } });
  assert.deepEqual(
    [shown.owner, shown.spec],
    [
      'app/shop',
      {
        url: 'https://192.0.2.1/***',
        format: 'slack',
        on: ['finding', 'backup', 'certificate', 'app', 'deployment.failed'],
        severity: 'critical',
        everyMinutes: 5,
        isInside: false,
        secret: '[hidden]',
      },
    ],
  );
  assert.equal((await put(shown.spec)).outcome, 'unchanged');
  const changed = await put({ on: ['deployment'], url: 'https://192.0.2.1/services/T0/B0/other' });
  assert.deepEqual(
    changed.changes.map(({ path }) => path),
    ['spec.on', 'spec.url'],
  );
  const failing = { since: new Date().toISOString(), count: 3, answer: '404', nextMs: Date.now() + 1_800_000 };
  for (const [spec, isKept] of [
    [{ on: ['deployment'], severity: 'warning' }, true],
    [{ url: 'https://192.0.2.1/services/T0/B0/another' }, false],
    [{ url: 'https://192.0.2.1/services/T0/B0/other' }, false],
  ] as const) {
    const [one] = await deps.resources.list(notificationType);
    await deps.resources.updateStatus(notificationType, one?.id ?? '', ({ status }) => ({ ...status, failing }));
    await put(spec);
    const [after] = await deps.resources.list(notificationType);
    const why = 'of another address nothing bad is known';
    assert.deepEqual(after?.status.failing, isKept ? failing : undefined, why);
  }
  const [kept] = await deps.resources.list(notificationType);
  assert.deepEqual([kept?.spec.url, kept?.spec.on], ['https://192.0.2.1/services/T0/B0/other', ['deployment']]);
  await assert.rejects(put({ url: 'https://192.0.2.9/***' }), isCode('invalid', /spec\.url: .*with its secrets/));
  await assert.rejects(put({ url: 'ftp://x' }), isCode('invalid', /spec\.url: .*is no receiver/));
  await assert.rejects(put({ url, on: ['nothing'] }), isCode('invalid', /spec\.on/));
  await assert.rejects(put({ url: 'https://192.0.2.9', secret: 'whsec_x' }), isCode('invalid', /spec\.secret/));
});

test('it goes with its app, and what was told is forgotten with the last of them', async () => {
  await using world = await startTestController({ hosts: 0 });
  const { client, store } = world;
  await client.call(apps.create, { body: { name: 'shop' } });
  const url = 'https://192.0.2.1';
  await client.call(notifications.create, { body: { name: 'mine', url, app: 'shop', on: ['deployment'] } });
  await waitFor(async () => (await store.get(watchStateKey)) !== undefined, { what: 'a first look', deadlineMs });
  await client.call(apps.remove, { params: { app: 'shop' } });
  await waitFor(async () => (await client.call(notifications.list, {})).length === 0, { what: 'its end', deadlineMs });
  const isForgotten = async () => (await store.get(watchStateKey)) === undefined;
  await waitFor(isForgotten, { what: 'the state to go', deadlineMs });
});

test('one that came from a backup has no pulse until a test of it is accepted', async () => {
  await using receiver = await startReceiver();
  await using world = await startTestController({ hosts: 0 });
  const { client, deps } = world;
  const body = { name: 'pulse', url: receiver.url, on: ['deployment' as const], everyMinutes: 1, isInside: true };
  await client.call(notifications.create, { body });
  const [{ id, spec } = { id: '', spec: undefined }] = await deps.resources.list(notificationType);
  assert.ok(spec !== undefined);
  await deps.resources.change(notificationType, id, () => ({
    spec: { ...spec, on: ['heartbeat'] },
    status: restoredQueue,
  }));
  const found = notificationFindings(await deps.resources.list(notificationType), Date.now());
  assert.match(found[0]?.what ?? '', /came from a backup/);
  await waitFor(async () => (await world.store.get(watchStateKey)) !== undefined, { what: 'a look', deadlineMs });
  assert.equal(receiver.got.length, 0);
  await client.call(notifications.test, { params: { notification: 'pulse' } });
  await waitFor(() => receiver.got.length > 1, { what: 'a heartbeat', deadlineMs });
  assert.deepEqual(
    receiver.got.map(({ body: text }) => JSON.parse(text).type),
    ['notification.test', 'heartbeat'],
  );
  assert.deepEqual(notificationFindings(await deps.resources.list(notificationType), Date.now()), []);
});

test('a receiver that takes nothing for ten minutes, and what it never got, is a finding without its secrets', () => {
  const now = Date.parse('2026-06-01T12:00:00Z');
  const spec = {
    name: 'ops',
    url: 'https://hooks.slack.com/services/T0/B0/hunter2',
    format: 'slack',
    on: ['finding'],
    severity: 'critical',
    everyMinutes: 5,
    secret: 'whsec_hunter2',
    isInside: false,
  } as const;
  const minutesAgo = (minutes: number) => new Date(now - minutes * 60_000).toISOString();
  const failing = (minutes: number) => ({ since: minutesAgo(minutes), count: 9, answer: '404 no_team', nextMs: now });
  const find = (status: object, more = {}) =>
    notificationFindings(
      [{ spec: { ...spec, on: [...spec.on], ...more }, status: { waiting: [], log: [], ...status } }],
      now,
    );
  assert.deepEqual(find({ failing: failing(9) }), []);
  assert.equal(find({ failing: failing(10) })[0]?.severity, 'warning');
  const [found] = find({ failing: failing(10), lost: { at: minutesAgo(60), count: 2 } });
  assert.deepEqual(
    [found?.severity, found?.subject, found?.what, found?.since],
    [
      'critical',
      'notification ops',
      'https://hooks.slack.com/*** does not take what it is to be told: 404 no_team; 0 wait, 2 were given up',
      minutesAgo(10),
    ],
  );
  assert.doesNotMatch(JSON.stringify(found), /hunter2/);
  const [never] = find({ lost: { at: minutesAgo(60), count: 1, answer: '400 no' } });
  assert.equal(never?.what, 'https://hooks.slack.com/*** never got 1 of its messages: 400 no; 0 wait, 1 were given up');
  assert.deepEqual(find({ lost: { at: minutesAgo(25 * 60), count: 1 } }), []);
  const restored = find({ isRestored: true, failing: failing(10) }, { on: ['heartbeat'] });
  assert.match(
    restored.map(({ what }) => what).join('\n'),
    /came from a backup.*\n.*does not take what it is to be told/,
  );
});
