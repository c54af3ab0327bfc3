/** What every way to reach discovery has to keep: both drivers of the registry and the client over HTTP pass this suite. */
import { waitFor } from '@flynn/kit/retry';
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { DiscoveryEvent, Instance, LeaderChoice, ServiceMeta } from './api.ts';
import type { MetaWrite, Registration } from './registry.ts';

export type Subject = AsyncDisposable & {
  /** Until taken back. */
  register(registration: Registration): Promise<void>;
  /** Once: nobody renews it. */
  announceFor(registration: Registration, ttlSeconds: number): Promise<void>;
  /** Takes back what this subject registered. */
  deregister(registration: Registration): Promise<void>;
  services(): Promise<readonly { name: string; instances: number }[]>;
  instances(service: string): Promise<readonly Instance[]>;
  all(): Promise<readonly Instance[]>;
  leader(service: string): Promise<Instance | undefined>;
  chooseLeader(service: string, choice: LeaderChoice): Promise<void>;
  meta(service: string): Promise<ServiceMeta | undefined>;
  setMeta(service: string, write: MetaWrite): Promise<ServiceMeta>;
  removeMeta(service: string): Promise<void>;
  subscribe(service: string, options: { signal: AbortSignal }): AsyncIterable<DiscoveryEvent>;
  subscribeAll(options: { signal: AbortSignal }): AsyncIterable<DiscoveryEvent>;
};

export function summarize(event: DiscoveryEvent): string {
  switch (event.event) {
    case 'current':
      return 'current';
    case 'lagged':
      return 'lagged';
    case 'meta':
      return `meta ${JSON.stringify(event.meta?.data)}`;
    case 'up':
    case 'update':
    case 'down':
    case 'leader':
      return `${event.event} ${event.instance?.id ?? 'nobody'}`;
    default:
      return event satisfies never;
  }
}

/** Reads in the background until the test stops it. */
function record(events: (signal: AbortSignal) => AsyncIterable<DiscoveryEvent>) {
  const stop = new AbortController();
  const seen: string[] = [];
  const reading = (async () => {
    for await (const event of events(stop.signal)) seen.push(summarize(event));
  })();
  return {
    seen,
    until: (last: string) => waitFor(() => seen.includes(last), { what: last, deadlineMs: 30_000, intervalMs: 5 }),
    async stop() {
      stop.abort();
      await reading;
    },
  };
}

const web = (id: string, more: Partial<Registration> = {}): Registration => ({
  service: 'web',
  id,
  address: '10.0.0.1:80',
  ...more,
});

export function runConformance(name: string, create: () => Promise<Subject>): void {
  describe(`discovery through ${name}`, () => {
    it('has no instances of a service nobody announced', async () => {
      await using subject = await create();
      assert.deepEqual(await subject.instances('web'), []);
    });

    it('shows an announced instance to its own next read', async () => {
      await using subject = await create();
      await subject.register({ service: 'web', id: 'a', address: '10.0.0.1:80', attributes: { zone: 'x' } });
      const [instance, ...others] = await subject.instances('web');
      assert.ok(instance !== undefined && instance.createdRevision > 0);
      const { createdRevision: _, ...rest } = instance;
      assert.deepEqual(rest, { service: 'web', id: 'a', address: '10.0.0.1:80', attributes: { zone: 'x' } });
      assert.deepEqual(others, []);
      assert.deepEqual(await subject.instances('we'), []);
    });

    it('lists instances oldest first, and announcing again does not make one younger', async () => {
      await using subject = await create();
      await subject.register({ service: 'web', id: 'b', address: '10.0.0.2:80' });
      await subject.register({ service: 'web', id: 'a', address: '10.0.0.1:80' });
      await subject.register({ service: 'web', id: 'b', address: '10.0.0.2:81' });
      assert.deepEqual(
        (await subject.instances('web')).map(({ id }) => id),
        ['b', 'a'],
      );
    });

    it('tells a subscriber the set, its leader, the end of the set, and every true change after it', async () => {
      await using subject = await create();
      const stop = new AbortController();
      await subject.register({ service: 'web', id: 'a', address: '10.0.0.1:80' });
      const seen: string[] = [];
      const reading = (async () => {
        for await (const event of subject.subscribe('web', { signal: stop.signal })) seen.push(summarize(event));
      })();
      const until = (last: string) =>
        waitFor(() => seen.includes(last), { what: last, deadlineMs: 30_000, intervalMs: 5 });
      await until('current');
      await subject.register({ service: 'other', id: 'o', address: '10.0.0.9:80' });
      await subject.register({ service: 'web', id: 'b', address: '10.0.0.2:80' });
      await subject.register({ service: 'web', id: 'b', address: '10.0.0.2:80' });
      await subject.register({ service: 'web', id: 'b', address: '10.0.0.2:80', attributes: { weight: '2' } });
      await subject.deregister({ service: 'web', id: 'a', address: '10.0.0.1:80' });
      await subject.deregister({ service: 'web', id: 'b', address: '10.0.0.2:80' });
      await until('leader nobody');
      stop.abort();
      await reading;
      assert.deepEqual(seen, [
        'up a',
        'leader a',
        'current',
        'up b',
        'update b',
        'down a',
        'leader b',
        'down b',
        'leader nobody',
      ]);
    });

    it('ends a subscription when its signal aborts', async () => {
      await using subject = await create();
      const stop = new AbortController();
      const seen: string[] = [];
      for await (const event of subject.subscribe('web', { signal: stop.signal })) {
        seen.push(summarize(event));
        stop.abort();
      }
      assert.deepEqual(seen, ['current']);
    });

    it('has all instances of all services, by service and age', async () => {
      await using subject = await create();
      for (const [service, id] of [
        ['web', 'b'],
        ['db', 'c'],
        ['web', 'a'],
      ] as const) {
        await subject.register({ service, id, address: '10.0.0.1:80', attributes: { of: service } });
      }
      assert.deepEqual(
        (await subject.all()).map(({ service, id, attributes }) => [service, id, attributes['of']]),
        [
          ['db', 'c', 'db'],
          ['web', 'b', 'web'],
          ['web', 'a', 'web'],
        ],
      );
      assert.deepEqual(await subject.services(), [
        { name: 'db', instances: 1 },
        { name: 'web', instances: 2 },
      ]);
    });

    it('tells a subscriber of everything the changes of every service', async () => {
      await using subject = await create();
      await subject.register(web('a'));
      const reader = record((signal) => subject.subscribeAll({ signal }));
      await reader.until('current');
      await subject.register({ service: 'db', id: 'd', address: '10.0.0.2:5432' });
      await subject.deregister(web('a'));
      await reader.until('leader nobody');
      await reader.stop();
      assert.deepEqual(reader.seen, ['up a', 'leader a', 'current', 'up d', 'leader d', 'down a', 'leader nobody']);
    });

    it('ends an instance that nobody announces again within its TTL, and keeps one that somebody does', async () => {
      await using subject = await create();
      const startedMs = performance.now();
      await subject.announceFor(web('once'), 2);
      await subject.announceFor(web('kept'), 2);
      let missed = 0;
      const isOver = async () => {
        const announcedMs = performance.now();
        await subject.announceFor(web('kept'), 2);
        const ids = (await subject.instances('web')).map(({ id }) => id);
        // Two seconds later it may be gone.
        if (!ids.includes('kept') && performance.now() - announcedMs < 2_000) missed += 1;
        return performance.now() - startedMs > 2_500 && ids.join() === 'kept';
      };
      await waitFor(isOver, { what: 'the end of the other', deadlineMs: 30_000, intervalMs: 100 });
      assert.equal(missed, 0);
    });

    it('lets the oldest lead until another is chosen, who leads only while it is there', async () => {
      await using subject = await create();
      assert.equal(await subject.leader('web'), undefined);
      for (const id of ['a', 'b']) await subject.register(web(id));
      assert.equal((await subject.leader('web'))?.id, 'a');
      const reader = record((signal) => subject.subscribe('web', { signal }));
      await reader.until('current');
      await subject.chooseLeader('web', { by: 'manual', instance: 'b' });
      assert.equal((await subject.leader('web'))?.id, 'b');
      await subject.deregister(web('b'));
      assert.equal(await subject.leader('web'), undefined);
      await subject.register(web('b'));
      assert.equal((await subject.leader('web'))?.id, 'b');
      await subject.chooseLeader('web', { by: 'oldest' });
      await reader.until('leader a');
      await waitFor(() => reader.seen.filter((event) => event === 'leader a').length === 2, {
        what: 'the oldest to lead again',
        deadlineMs: 30_000,
      });
      await reader.stop();
      assert.deepEqual(reader.seen.slice(3), [
        'current',
        'leader b',
        'down b',
        'leader nobody',
        'up b',
        'leader b',
        'leader a',
      ]);
    });

    it('writes meta only over the version it was read at', async () => {
      await using subject = await create();
      assert.equal(await subject.meta('db'), undefined);
      const first = await subject.setMeta('db', { data: { primary: 'a' }, version: 0 });
      assert.deepEqual(await subject.meta('db'), first);
      await assert.rejects(subject.setMeta('db', { data: 1, version: 0 }), {
        code: 'conflict',
        detail: { reason: 'exists', version: first.version },
      });
      const second = await subject.setMeta('db', { data: { primary: 'b' }, version: first.version });
      assert.ok(second.version > first.version);
      await assert.rejects(subject.setMeta('db', { data: 1, version: first.version }), {
        code: 'conflict',
        detail: { reason: 'mismatch', version: second.version },
      });
      await assert.rejects(subject.setMeta('other', { data: 1, version: 7 }), {
        code: 'conflict',
        detail: { reason: 'mismatch', version: 0 },
      });
      assert.deepEqual((await subject.meta('db'))?.data, { primary: 'b' });
      await subject.setMeta('db', { data: null });
      assert.deepEqual((await subject.meta('db'))?.data, null);
    });

    it('of writers that compare with the same version one wins', async () => {
      await using subject = await create();
      const outcomes = await Promise.allSettled(
        [1, 2, 3, 4, 5].map((data) => subject.setMeta('db', { data, version: 0 })),
      );
      assert.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 1);
    });

    it('writes meta and leader in one step, and tells both', async () => {
      await using subject = await create();
      for (const id of ['a', 'b']) await subject.register(web(id));
      const { version } = await subject.setMeta('web', { data: 1 });
      const reader = record((signal) => subject.subscribe('web', { signal }));
      await reader.until('current');
      await subject.setMeta('web', { data: { n: 2 }, version, leader: 'b' });
      await reader.until('meta {"n":2}');
      await assert.rejects(subject.setMeta('web', { data: 3, version, leader: 'a' }), { code: 'conflict' });
      assert.equal((await subject.leader('web'))?.id, 'b');
      await reader.stop();
      assert.deepEqual(reader.seen, ['up a', 'up b', 'leader a', 'meta 1', 'current', 'leader b', 'meta {"n":2}']);
    });

    it('removes meta, tells that it is gone, and lets it be created anew', async () => {
      await using subject = await create();
      await subject.removeMeta('web');
      const { version } = await subject.setMeta('web', { data: 1 });
      const reader = record((signal) => subject.subscribe('web', { signal }));
      await reader.until('current');
      await subject.removeMeta('web');
      assert.equal(await subject.meta('web'), undefined);
      await assert.rejects(subject.setMeta('web', { data: 2, version }), { code: 'conflict' });
      const again = await subject.setMeta('web', { data: 2, version: 0 });
      assert.ok(again.version > version);
      await reader.until('meta 2');
      await reader.stop();
      assert.deepEqual(reader.seen, ['meta 1', 'current', 'meta undefined', 'meta 2']);
    });

    it('refuses what can never be registered', async () => {
      await using subject = await create();
      for (const bad of [
        { service: 'Web', id: 'a', address: 'a:80' },
        { service: 'web', id: 'a', address: 'nowhere' },
        { service: 'web', id: 'a', address: 'a:70000' },
        { service: 'web', id: 'a/b', address: 'a:80' },
      ]) {
        await assert.rejects(subject.announceFor(bad, 10), { code: 'invalid' });
      }
      await assert.rejects(subject.setMeta('Web', { data: 1 }), { code: 'invalid' });
      await assert.rejects(subject.chooseLeader('web', { by: 'manual', instance: 'a b' }), { code: 'invalid' });
    });
  });
}
