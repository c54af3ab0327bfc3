/** What every way to reach discovery has to keep: the registry in the process and the client over HTTP pass this suite. */
import { waitFor } from '@flynn/kit/retry';
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { DiscoveryEvent, Instance } from './api.ts';
import type { Registration } from './registry.ts';

export type Subject = AsyncDisposable & {
  register(registration: Registration): Promise<void>;
  /** Takes back what this subject registered. */
  deregister(registration: Registration): Promise<void>;
  instances(service: string): Promise<readonly Instance[]>;
  subscribe(service: string, options: { signal: AbortSignal }): AsyncIterable<DiscoveryEvent>;
};

export function summarize(event: DiscoveryEvent): string {
  return event.event === 'current' ? 'current' : `${event.event} ${event.instance?.id ?? 'nobody'}`;
}

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
        waitFor(() => seen.includes(last), { what: last, deadlineMs: 5_000, intervalMs: 5 });
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
      const events = subject.subscribe('web', { signal: AbortSignal.timeout(50) });
      const seen: string[] = [];
      for await (const event of events) seen.push(summarize(event));
      assert.deepEqual(seen, ['current']);
    });
  });
}
