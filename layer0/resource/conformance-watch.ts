/** Watches: the objects there are, a mark, then changes in order; a deletion tells the last object. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { withDeadline } from '@flynn/kit/retry';
import type { OpenStore } from '@flynn/store/conformance';
import { CompactedError } from '@flynn/store/store';
import { serviceOn, shelf } from './conformance-write.ts';
import { shelfType } from './demo.ts';
import { resourceKey } from './keys.ts';
import type { ResourceEvent, ResourceWatchOptions } from './watch.ts';
import type { ResourceService } from './service.ts';

type Event = ResourceEvent<{ name: string; books: number }, unknown>;

const told = (event: Event | undefined): string => {
  if (event === undefined) return 'end';
  return event.type === 'current'
    ? 'current'
    : `${event.type} ${event.resource.spec.name}=${event.resource.spec.books}`;
};

/** Reads as many events as are expected. */
class Watching implements AsyncDisposable {
  readonly #stop = new AbortController();
  readonly #events: AsyncGenerator<Event, void, undefined>;
  readonly seen: Event[] = [];

  constructor(service: ResourceService, options: Omit<ResourceWatchOptions, 'signal'> = {}) {
    this.#events = service.watch(shelfType, { ...options, signal: withDeadline(60_000, this.#stop.signal) });
  }

  async expect(...expected: string[]): Promise<void> {
    const got: string[] = [];
    for (let left = expected.length; left > 0; left -= 1) {
      const { value } = await this.#events.next();
      if (value !== undefined) this.seen.push(value);
      got.push(told(value ?? undefined));
    }
    assert.deepEqual(got, expected);
  }

  async end(): Promise<unknown> {
    return this.#events.next().then(
      () => undefined,
      (error: unknown) => error,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    // A watch that broke off has told so where it was read.
    await this.#events.return().catch(() => undefined);
  }
}

export function checkResourceWatches(open: OpenStore): void {
  test('a watch begins with what is there, marks its end, and goes on with changes; a read is never older', async () => {
    await using opened = await open();
    const [near, far] = [serviceOn(opened.store), serviceOn(opened.peer)];
    const a = await far.create(shelfType, { ...shelf('a'), id: 'a' });
    await using watching = new Watching(near);
    await watching.expect('put a=1', 'current');
    await far.create(shelfType, { ...shelf('b', 2), id: 'b' });
    await far.update(shelfType, 'a', ({ spec }) => ({ ...spec, books: 9 }));
    await watching.expect('put b=2');
    assert.equal((await near.get(shelfType, 'b')).spec.books, 2);
    await watching.expect('put a=9');
    assert.ok((await near.get(shelfType, 'a')).revision > a.revision);
    const last = await far.get(shelfType, 'a');
    await far.delete(shelfType, 'a');
    await watching.expect('delete a=9');
    const deletion = watching.seen.at(-1);
    assert.ok(deletion?.type === 'delete');
    assert.deepEqual(deletion.resource, last);
    assert.equal(await near.find(shelfType, 'a'), undefined);
  });

  const filters: [string, ResourceWatchOptions['filter'] & object, string[]][] = [
    ['everything', {}, ['alder', 'ash', 'birch']],
    ['a name prefix', { namePrefix: 'a' }, ['alder', 'ash']],
    ['an owner', { owner: { type: 'shelf', id: 'alder' } }, ['ash', 'birch']],
    ['a name', { object: 'birch' }, ['birch']],
    ['an id', { object: 'ash' }, ['ash']],
    ['an owner and a prefix', { owner: { type: 'shelf', id: 'alder' }, namePrefix: 'b' }, ['birch']],
    ['nothing', { namePrefix: 'zebra' }, []],
  ];
  for (const [what, filter, names] of filters) {
    test(`by ${what}: listed, told at first, and told as it comes`, async () => {
      await using opened = await open();
      const service = serviceOn(opened.store);
      const owner = { type: 'shelf', id: 'alder' };
      const makeAll = async () => {
        await service.create(shelfType, { ...shelf('alder'), id: 'alder' });
        await service.create(shelfType, { ...shelf('ash'), id: 'ash', owner });
        await service.create(shelfType, { ...shelf('birch'), id: 'birch', owner });
      };
      await using following = new Watching(service, { filter });
      await following.expect('current');
      await makeAll();
      const puts = names.map((name) => `put ${name}=1`);
      await following.expect(...puts);
      await using beginning = new Watching(service, { filter });
      await beginning.expect(...puts, 'current');
      assert.deepEqual(
        (await service.list(shelfType, filter)).map(({ id }) => id),
        names,
      );
      const order = ['birch', 'ash', 'alder'];
      for (const id of order) await service.delete(shelfType, id);
      await following.expect(...order.filter((id) => names.includes(id)).map((id) => `delete ${id}=1`));
    });
  }

  test('an object that is renamed out of the filter is told as deleted, and one renamed into it as put', async () => {
    await using opened = await open();
    const service = serviceOn(opened.store);
    const { id } = await service.create(shelfType, shelf('apple'));
    await using watching = new Watching(service, { filter: { namePrefix: 'a' } });
    await watching.expect('put apple=1', 'current');
    await service.update(shelfType, id, ({ spec }) => ({ ...spec, name: 'pear' }));
    await watching.expect('delete apple=1');
    await service.update(shelfType, id, ({ spec }) => ({ ...spec, name: 'apricot' }));
    await watching.expect('put apricot=1');
  });

  test('an object whose labels leave the filter is told as deleted, and its deletion then is not', async () => {
    await using opened = await open();
    const service = serviceOn(opened.store);
    const label = (id: string, labels: Record<string, string>) => service.change(shelfType, id, () => ({ labels }));
    for (const id of ['a', 'b'])
      await service.create(shelfType, { ...shelf(id), id, labels: { room: 'attic', side: id } });
    const labels = { room: 'attic' };
    assert.equal((await service.list(shelfType, { labels: { ...labels, side: 'b' } })).length, 1);
    await using watching = new Watching(service, { filter: { labels } });
    await watching.expect('put a=1', 'put b=1', 'current');
    const after = watching.seen.at(-1)?.resumeAfter;
    await label('a', { room: 'cellar' });
    await watching.expect('delete a=1');
    await service.delete(shelfType, 'a');
    await service.delete(shelfType, 'b');
    await watching.expect('delete b=1');
    assert.ok(after !== undefined);
    await using resumed = new Watching(service, { filter: { labels }, after });
    await resumed.expect('delete a=1', 'delete b=1');
  });

  test('a watch goes on after a revision it was told: nothing twice, nothing left out', async () => {
    await using opened = await open();
    const service = serviceOn(opened.store);
    await service.create(shelfType, { ...shelf('a'), id: 'a' });
    let after: number | undefined;
    {
      await using first = new Watching(service);
      await first.expect('put a=1', 'current');
      after = first.seen.at(-1)?.resumeAfter;
    }
    assert.ok(after !== undefined);
    const drafts = ['b', 'c'].map((id) => service.draft(shelfType, { ...shelf(id), id }));
    await service.createMany(drafts);
    await service.delete(shelfType, 'a');
    await using second = new Watching(service, { after });
    await second.expect('put b=1', 'put c=1', 'delete a=1');
    // One transaction is one step: who resumes in its middle would miss the rest.
    assert.deepEqual(
      second.seen.map(({ resumeAfter }) => resumeAfter !== undefined),
      [false, true, true],
    );
  });

  test('after a compaction a watch that comes back ends with a conflict, and a new one has everything', async () => {
    await using opened = await open();
    const service = serviceOn(opened.store);
    const { revision } = await service.create(shelfType, { ...shelf('a'), id: 'a' });
    await service.delete(shelfType, 'a');
    const { revision: last } = await service.create(shelfType, { ...shelf('b'), id: 'b' });
    await opened.store.compact(last);
    await using late = new Watching(service, { after: revision });
    const end = await late.end();
    assert.ok(end instanceof CompactedError && hasCode(end, 'conflict'));
    await using again = new Watching(service);
    await again.expect('put b=1', 'current');
    await service.create(shelfType, { ...shelf('c'), id: 'c' });
    await again.expect('put c=1');
  });

  test('a watch survives its connection: what happened meanwhile is told, once', async () => {
    await using opened = await open();
    const [near, far] = [serviceOn(opened.store), serviceOn(opened.peer)];
    await using watching = new Watching(near);
    await watching.expect('current');
    const reconnect = await opened.disconnect();
    for (const id of ['a', 'b', 'c']) await far.create(shelfType, { ...shelf(id), id });
    await far.delete(shelfType, 'b');
    await reconnect();
    await watching.expect('put a=1', 'put b=1', 'put c=1', 'delete b=1');
  });

  test('an object of a later version is left out, and the rest is told', async () => {
    await using opened = await open();
    const service = serviceOn(opened.store);
    await service.create({ ...shelfType, version: 2 }, { ...shelf('new'), id: 'new' });
    await service.create(shelfType, { ...shelf('old'), id: 'old' });
    await opened.store.transact({ then: [{ put: resourceKey('shelf', 'broken'), value: '{' }] });
    await using watching = new Watching(service);
    await watching.expect('put old=1', 'current');
  });
}
