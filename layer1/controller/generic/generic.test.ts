import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import type { ErrorCode } from '@flynn/kit/errors';
import { waitFor, withDeadline } from '@flynn/kit/retry';
import { defineType } from '@flynn/resource/type';
import { z } from 'zod';
import { apps, releases } from '../api.ts';
import { generic, objectSchema } from './api.ts';
import type { GenericObject } from './api.ts';
import { counterKind } from './demo.ts';
import { Kinds, defineKind } from './kind.ts';
import { platformKinds } from './kinds.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';

let world: TestController;
before(async () => {
  world = await startTestController({ kinds: [counterKind] });
});
after(async () => {
  await world[Symbol.asyncDispose]();
});

const counters = { group: 'demo', version: 'v1', kind: 'Counter' };
const isCode = (code: ErrorCode, pattern: RegExp) => (error: unknown) =>
  hasCode(error, code) && pattern.test(error.message);
const apply = (body: object, query: { dryRun?: boolean; assume?: string[] } = {}) =>
  world.client.call(generic.apply, { params: counters, body, query });
const get = (name: string) => world.client.call(generic.get, { params: { ...counters, name } });
const waiting = { deadlineMs: 60_000, intervalMs: 5 };

async function counted(name: string): Promise<GenericObject> {
  const probe = async () => {
    const object = await get(name);
    return object.outlook === 'ready' ? object : undefined;
  };
  return waitFor(probe, { what: `${name} to be counted`, ...waiting });
}

test('a kind of one module is made, shown, changed, watched and deleted, with its conditions and reasons', async () => {
  const made = await apply({ name: 'peas', labels: { tier: 'front' }, spec: { target: 5 } });
  assert.equal(made.outcome, 'created');
  assert.deepEqual(made.object?.spec, { target: 5, unit: 'beans' });
  const ready = await counted('peas');
  assert.deepEqual(ready.status, { count: 5 });
  assert.deepEqual(ready.metadata.observedGeneration, ready.metadata.generation);
  assert.deepEqual(
    ready.conditions.map(({ type, status, message }) => [type, status, message]),
    [['Counted', 'True', '5 of 5 beans']],
  );
  const same = await apply({ name: 'peas', labels: { tier: 'front' }, spec: { target: 5 } });
  assert.deepEqual([same.outcome, same.object?.metadata.revision], ['unchanged', ready.metadata.revision]);
  const more = await apply({ name: 'peas', spec: { target: 7 } });
  assert.deepEqual(more.changes, [{ path: 'spec.target', before: 5, after: 7 }]);
  assert.deepEqual([more.outcome, more.object?.labels], ['configured', { tier: 'front' }]);
  // How far the controller is by then is up to it.
  assert.ok(['pending', '6 of 7 beans', undefined].includes(more.object?.outlook), more.object?.outlook);
  assert.deepEqual((await counted('peas')).status, { count: 7 });
  const gone = await world.client.call(generic.remove, { params: { ...counters, name: 'peas' } });
  assert.equal(gone.outcome, 'deleting');
  assert.match(gone.object.metadata.waitingFor['counter'] ?? '', /beans to be counted back/);
  await waitFor(async () => (await list({})).every(({ name }) => name !== 'peas'), { what: 'its end', ...waiting });
  await assert.rejects(get('peas'), isCode('not_found', /no counter "peas"; list them with: flynn get counter/));
});

const list = (query: { labels?: string; owner?: string; prefix?: string; name?: string }) =>
  world.client.call(generic.list, { params: counters, query });

test('what is wrong with an object is told with the path it has in the document, and nothing is written', async () => {
  const rows: [object, RegExp][] = [
    [{ name: 'x', spec: { target: 'many' } }, /spec\.target: .*number/],
    [{ name: 'x', spec: { target: 1, colour: 'red' } }, /spec\.colour: there is no such field/],
    [{ name: 'x', spec: { target: 13 } }, /spec\.target: thirteen brings bad luck/],
    [{ name: 'Not OK', spec: { target: 1 } }, /\n {2}name: a counter is named/],
    [{ spec: { target: 1 } }, /\n {2}name: /],
    [{ name: 'x', owner: 'app/nobody', spec: { target: 1 } }, /owner: there is no app "nobody"/],
    [{ name: 'x', owner: 'house/7', spec: { target: 1 } }, /owner: "house\/7" is no object/],
    [{ name: 'x', spec: { target: 1 }, status: { count: 9 } }, /status: it is not written with the rest/],
  ];
  for (const [body, pattern] of rows) await assert.rejects(apply(body), isCode('invalid', pattern));
  await assert.rejects(apply({ name: 'x', specs: {} }), isCode('invalid', /Unrecognized key: "specs"/));
  assert.deepEqual(await list({ name: 'x' }), []);
});

test('asked what would be, it says so and does nothing; an owner that is to come may be assumed', async () => {
  const body = { name: 'dry', owner: 'app/coming', spec: { target: 1 } };
  await assert.rejects(apply(body, { dryRun: true }), isCode('invalid', /no app "coming"/));
  const would = await apply(body, { dryRun: true, assume: ['app/coming', 'app/other'] });
  assert.deepEqual([would.outcome, would.object], ['created', undefined]);
  assert.deepEqual(would.changes.at(-1), { path: 'spec.unit', after: 'beans' });
  assert.deepEqual(await list({ name: 'dry' }), []);
});

test('an owner is given once; what an app owned goes with the app, whatever its kind', async () => {
  await world.client.call(apps.create, { body: { name: 'owning' } });
  await world.client.call(apps.create, { body: { name: 'other' } });
  await apply({ name: 'owned', owner: 'app/owning', spec: { target: 2 } });
  await apply({ name: 'inner', owner: 'counter/owned', spec: { target: 1 } });
  assert.equal((await get('owned')).owner, 'app/owning');
  assert.deepEqual(
    (await list({ owner: 'app/owning' })).map(({ name }) => name),
    ['owned'],
  );
  const moved = apply({ name: 'owned', owner: 'app/other', spec: { target: 2 } });
  await assert.rejects(moved, isCode('invalid', /owner: it cannot change/));
  await world.client.call(apps.remove, { params: { app: 'owning' } });
  await assert.rejects(get('owned'), isCode('not_found', /no counter/));
  await waitFor(async () => (await list({ name: 'inner' })).length === 0, { what: 'the grandchild to go', ...waiting });
});

test('an object that was got can be put back; an old one is a conflict; a patch changes parts', async () => {
  await apply({ name: 'put', spec: { target: 3 }, labels: { a: '1', b: '2' } });
  const before = await counted('put');
  const params = { ...counters, name: 'put' };
  const back = await world.client.call(generic.put, { params, body: before });
  assert.equal(back.outcome, 'unchanged');
  const patched = await world.client.call(generic.patch, {
    params,
    body: { spec: { target: 4 }, labels: { a: null, c: '3' } },
  });
  assert.deepEqual([patched.object?.spec['target'], patched.object?.labels], [4, { b: '2', c: '3' }]);
  const late = world.client.call(generic.put, { params, body: { ...before, spec: { target: 9 } } });
  await assert.rejects(late, isCode('conflict', /read it again/));
  await counted('put');
  const unit = world.client.call(generic.patch, { params, body: { spec: { unit: 'stones' } } });
  await assert.rejects(unit, isCode('invalid', /spec\.unit: it cannot change/));
  const other = world.client.call(generic.put, { params, body: { name: 'otherwise' } });
  await assert.rejects(other, isCode('invalid', /name: the path says put/));
});

test('a status has a call of its own, which moves no generation', async () => {
  await apply({ name: 'told', spec: { target: 0 } });
  const before = await counted('told');
  const params = { ...counters, name: 'told' };
  const condition = { type: 'Dusted', status: 'False' as const, reason: 'Dusty', message: 'nobody has been there' };
  const told = await world.client.call(generic.setStatus, { params, body: { conditions: [condition] } });
  assert.equal(told.metadata.generation, before.metadata.generation);
  assert.equal(told.outlook, 'nobody has been there');
  assert.deepEqual(told.status, before.status);
  const late = world.client.call(generic.setStatus, {
    params,
    body: { status: { count: 3 }, revision: before.metadata.revision },
  });
  await assert.rejects(late, isCode('conflict', /changed at the same time/));
});

test('a watch tells what is there, the mark, changes and the last of what went, and goes on where it stopped', async () => {
  await apply({ name: 'watched', labels: { w: 'yes' }, spec: { target: 0 } });
  await counted('watched');
  const seen: string[] = [];
  let lastId = '';
  const stop = new AbortController();
  const open = (options: { lastEventId?: string }) =>
    world.client.events(
      generic.watch,
      { params: counters, query: { labels: 'w=yes' } },
      { signal: withDeadline(60_000, stop.signal), ...options },
    );
  for await (const event of open({})) {
    seen.push(event.event);
    if (event.event !== 'current') continue;
    lastId = event.id ?? '';
    break;
  }
  assert.deepEqual(seen, ['put', 'current']);
  await world.client.call(generic.remove, { params: { ...counters, name: 'watched' } });
  for await (const event of open({ lastEventId: lastId })) {
    if (event.event !== 'delete') continue;
    const last = objectSchema.parse(event.data);
    assert.deepEqual([last.name, last.status, last.outlook], ['watched', { count: 0 }, 'deleting']);
    break;
  }
  stop.abort();
});

test('what leaves the selection of a watch is told as deleted, and what comes into it as put, also to who comes back', async () => {
  const labelled = (tier: string) => apply({ name: 'moved', labels: { tier }, spec: { target: 0 } });
  await labelled('back');
  await counted('moved');
  const open = (lastEventId?: string) =>
    world.client.events(
      generic.watch,
      { params: counters, query: { labels: 'tier=back' } },
      { signal: withDeadline(60_000), ...(lastEventId === undefined ? {} : { lastEventId }) },
    );
  const events = open();
  const next = async (from: typeof events) => {
    const { value } = await from.next();
    assert.ok(value !== undefined);
    const name = value.data === null ? '' : ` ${objectSchema.parse(value.data).labels['tier']}`;
    return { told: `${value.event}${name}`, id: value.id };
  };
  assert.equal((await next(events)).told, 'put back');
  const { told, id } = await next(events);
  assert.equal(told, 'current');
  await labelled('front');
  assert.equal((await next(events)).told, 'delete back');
  const again = open(id);
  assert.equal((await next(again)).told, 'delete back');
  await again.return();
  await labelled('back');
  assert.equal((await next(events)).told, 'put back');
  await world.client.call(generic.remove, { params: { ...counters, name: 'moved' } });
  let last = '';
  while (!last.startsWith('delete')) last = (await next(events)).told;
  await events.return();
});

test('a watch that would go on where the history is gone is a conflict; a new one has everything', async () => {
  await apply({ name: 'kept', spec: { target: 0 } });
  const kept = await counted('kept');
  const open = (lastEventId?: string) =>
    world.client.events(
      generic.watch,
      { params: counters, query: { name: 'kept' } },
      { signal: withDeadline(60_000), ...(lastEventId === undefined ? {} : { lastEventId }) },
    );
  const early = String(kept.metadata.revision - 1);
  await world.store.compact((await world.store.list('/')).revision);
  await assert.rejects(open(early).next(), isCode('conflict', /half an hour.*begin again/));
  const again = open();
  const first = objectSchema.parse((await again.next()).value?.data);
  assert.deepEqual([first.name, first.metadata.uid], ['kept', kept.metadata.uid]);
  assert.equal((await again.next()).value?.event, 'current');
  await again.return();
});

test('a kind whose controller always fails stops neither the others nor the platform’s own work', async () => {
  let starts = 0;
  const brokenKind = defineKind({
    type: defineType({
      name: 'broken',
      version: 1,
      spec: z.strictObject({}),
      status: z.strictObject({}),
      initialStatus: () => ({}),
    }),
    summary: 'never works',
    controllers: [
      () => ({
        name: 'broken',
        placement: 'each',
        run() {
          starts += 1;
          throw new TypeError('a bug');
        },
      }),
    ],
  });
  await using other = await startTestController({ kinds: [counterKind, brokenKind] });
  await waitFor(() => starts >= 2, { what: 'a second start', ...waiting });
  const { client } = other;
  await client.call(generic.apply, { params: counters, body: { name: 'fine', spec: { target: 2 } } });
  const isReady = async () =>
    (await client.call(generic.get, { params: { ...counters, name: 'fine' } })).outlook === 'ready';
  await waitFor(isReady, { what: 'the counter', ...waiting });
  await other.deployApp('works', { web: {} });
  await client.call(apps.remove, { params: { app: 'works' } });
});

test('Flynn’s own objects are the same here, and what has rules elsewhere cannot be written past them', async () => {
  await world.client.call(apps.create, { body: { name: 'both' } });
  const release = await world.makeRelease('both', { web: {} });
  const kinds = await world.client.call(generic.kinds, {});
  const read = (kind: string, name: string) =>
    world.client.call(generic.get, { params: { group: 'flynn', version: 'v1', kind, name } });
  const same = await read('Release', release.id);
  assert.equal(same.owner, 'app/both');
  assert.deepEqual(same.spec['processes'], release.processes);
  const flynn = await world.client.call(releases.get, { params: { app: 'both', release: 'v1' } });
  assert.deepEqual([same.metadata.id, same.metadata.createdAt], [flynn.id, flynn.createdAt]);
  const readOnly = new Set(kinds.flatMap(({ kind, isWritable }) => (isWritable ? [] : [kind])));
  for (const kind of ['Release', 'Artifact', 'Deployment', 'Operation', 'Tombstone']) {
    assert.ok(readOnly.has(kind), kind);
    const params = { group: 'flynn', version: 'v1', kind, name: release.id };
    await assert.rejects(
      world.client.call(generic.put, { params, body: { spec: {} } }),
      isCode('denied', /not made or changed here/),
    );
  }
  const params = { group: 'flynn', version: 'v1', kind: 'Release', name: release.id };
  await assert.rejects(world.client.call(generic.remove, { params }), isCode('denied', /not deleted here/));
  const status = { params, body: { status: { x: 1 } } };
  await assert.rejects(world.client.call(generic.setStatus, status), isCode('denied', /platform's own/));
});

test('the kinds tell what may be written in a file', async () => {
  const kinds = await world.client.call(generic.kinds, {});
  const counter = kinds.find(({ kind }) => kind === 'Counter');
  assert.deepEqual(counter?.names, ['counter', 'counters']);
  assert.deepEqual(counter?.columns, { TARGET: 'spec.target', COUNT: 'status.count' });
  assert.deepEqual(Object(counter?.spec?.['properties'])['target'], { type: 'integer', minimum: 0, maximum: 1000 });
  const unknown = world.client.call(generic.list, { params: { ...counters, kind: 'Countr' }, query: {} });
  await assert.rejects(unknown, isCode('not_found', /did you mean demo\/v1\/Counter/));
});

test('two kinds that are called the same are refused when the controller starts', () => {
  assert.throws(() => new Kinds([counterKind, counterKind]), /registered already/);
  assert.throws(() => new Kinds([...platformKinds, { ...counterKind, names: ['ops'] }]), /two kinds are called "ops"/);
});
