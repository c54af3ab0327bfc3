import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lastUpdatePut } from '@flynn/host-agent/cluster/last-update';
import { newId } from '@flynn/kit/ids';
import { silentLogger } from '@flynn/kit/log';
import { ResourceService } from '@flynn/resource/service';
import { createMemoryStore } from '@flynn/store/memory';
import type { Store } from '@flynn/store/store';
import { certificateType } from '../certificates/resources.ts';
import { eventsKey } from '../health/events.ts';
import { appType, ownedBy, routeType } from '../resources.ts';
import { answered, maxWaiting } from './queue.ts';
import { newSigningSecret } from './signature.ts';
import { notificationType } from './types.ts';
import { stepWatching, watchStateKey } from './watch-steps.ts';

const { signal } = new AbortController();

/** A worker's looks, on a store in which writes to some receivers may fail. */
class World implements AsyncDisposable {
  readonly plain = createMemoryStore();
  readonly broken = new Set<string>();
  #now = Date.parse('2026-06-01T12:00:00Z');
  readonly #store: Store = {
    get: (key, options) => this.plain.get(key, options),
    list: (prefix, options) => this.plain.list(prefix, options),
    watch: (prefix, options) => this.plain.watch(prefix, options),
    grantLease: (options) => this.plain.grantLease(options),
    compact: (revision, options) => this.plain.compact(revision, options),
    close: () => this.plain.close(),
    [Symbol.asyncDispose]: () => this.plain[Symbol.asyncDispose](),
    transact: async (transaction, options) => {
      const text = JSON.stringify(transaction);
      if ([...this.broken].some((id) => text.includes(id))) throw new Error('no room in the store');
      return await this.plain.transact(transaction, options);
    },
  };
  readonly resources = new ResourceService({
    store: this.#store,
    now: () => this.#now,
    newId,
    log: silentLogger(),
  });

  async add(name: string, ...on: string[]): Promise<string> {
    return await this.addTo(undefined, name, ...on);
  }

  async addTo(appId: string | undefined, name: string, ...on: string[]): Promise<string> {
    const common = { url: 'http://192.0.2.1', format: 'json', severity: 'critical', everyMinutes: 1 } as const;
    const spec = {
      ...common,
      ...(appId !== undefined && { appId }),
      name,
      on,
      secret: newSigningSecret(),
      isInside: true,
    };
    return (await this.resources.create(notificationType, { spec })).id;
  }

  async status(id: string) {
    return (await this.resources.get(notificationType, id)).status;
  }

  /** As the controller that looks writes it. */
  async put(...findings: object[]): Promise<void> {
    const open = Object.fromEntries(findings.map((one, at) => [String(at), one]));
    const value = JSON.stringify({ teller: { id: 't', at: this.#now }, open, recent: [] });
    await this.plain.transact({ then: [{ put: eventsKey, value }] });
  }

  async find(count: number): Promise<void> {
    const all = Array.from({ length: count }, (_, at) => {
      return { check: 'disks', severity: 'critical', subject: `host h${at}`, at: '', text: 'it is full', remedy: 'r' };
    });
    await this.put(...all);
  }

  async look(afterMs: number): Promise<void> {
    this.#now += afterMs;
    await stepWatching(
      {
        store: this.#store,
        resources: this.resources,
        now: () => this.#now,
        deployments: { snapshot: { entries: [] } },
      },
      { signal },
    );
  }

  /** The receiver takes so many; whose they are. */
  async take(id: string, count: number): Promise<string[]> {
    const sent = (await this.status(id)).waiting.slice(0, count);
    for (const message of sent) {
      const ok = { status: 200, text: '' };
      await this.resources.updateStatus(notificationType, id, ({ status }) =>
        answered(status, message, ok, this.#now, 0),
      );
    }
    return sent.map(({ subject }) => subject.name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.plain.close();
  }
}

test('of a burst each message reaches a receiver that keeps up, however slow, and no other waits for one that does not', async () => {
  await using world = new World();
  const [ops, away] = [await world.add('ops', 'finding'), await world.add('away', 'finding')];
  await world.find(120);
  await world.look(0);
  await world.look(60_000);
  const got = new Set<string>();
  for (let looks = 0; looks < 80; looks += 1) {
    for (const name of await world.take(ops, 4)) got.add(name);
    await world.find(120);
    await world.look(3_000);
  }
  assert.deepEqual([got.size, (await world.status(ops)).lost], [120, undefined]);
  assert.equal((await world.status(away)).waiting.at(-1)?.type, 'notification.dropped');
});

test('what ails one receiver holds up no other, and is made up for', async () => {
  await using world = new World();
  const [ill, well] = [await world.add('ill', 'finding', 'heartbeat'), await world.add('well', 'finding')];
  await world.find(1);
  await world.look(0);
  world.broken.add(ill);
  await assert.rejects(world.look(60_000), /no room/);
  await world.find(2);
  await assert.rejects(world.look(3_000), /no room/);
  await assert.rejects(world.look(60_000), /no room/);
  assert.deepEqual(await world.take(well, 9), ['h0', 'h1']);
  world.broken.clear();
  await world.look(3_000);
  assert.deepEqual(await world.take(ill, 9), ['h0', 'h1']);
  assert.deepEqual(await world.take(well, 9), [], 'nothing twice');
});

test('of a burst that one receiver cannot be given the other, which has it all, gets nothing twice', async () => {
  await using world = new World();
  const [ill, well] = [await world.add('ill', 'finding'), await world.add('well', 'finding')];
  await world.find(maxWaiting);
  await world.look(0);
  world.broken.add(ill);
  await assert.rejects(world.look(60_000), /no room/);
  assert.equal((await world.take(well, maxWaiting)).length, maxWaiting);
  await assert.rejects(world.look(3_000), /no room/);
  assert.deepEqual(await world.take(well, maxWaiting), []);
});

test('there is a pulse as long as what is to be told is found and handed on, and no longer', async () => {
  await using world = new World();
  const [pulse, other] = [await world.add('pulse', 'heartbeat'), await world.add('other', 'finding')];
  const beaten = async () => (await world.status(pulse)).heartbeatMs ?? 0;
  await world.look(0);
  const first = await beaten();
  assert.ok(first > 0);
  await world.plain.transact({ then: [{ put: watchStateKey, value: '{"unreadable":' }] });
  await assert.rejects(world.look(60_000));
  assert.equal(await beaten(), first, 'nobody would be told anything');
  await world.plain.transact({ then: [{ delete: watchStateKey }] });
  await world.look(60_000);
  assert.ok((await beaten()) > first);
  assert.equal((await world.status(other)).beat, undefined);
});

test('a clock that was ahead stops no pulse once it is right', async () => {
  await using world = new World();
  const pulse = await world.add('pulse', 'heartbeat');
  const beaten = async () => (await world.status(pulse)).heartbeatMs ?? 0;
  await world.look(0);
  const first = await beaten();
  await world.look(6 * 3_600_000);
  await world.look(-6 * 3_600_000 + 60_000);
  assert.equal(await beaten(), first + 60_000);
});

test('how a later version ended an update is nothing that would keep anybody from looking', async () => {
  await using world = new World();
  const ops = await world.add('ops', 'update', 'finding');
  const update = lastUpdatePut({ version: 'v9', outcome: 'moved', at: '2026-06-01T12:01:00.000Z' });
  await world.plain.transact({
    then: [{ ...update, value: '{"version":"v9","outcome":"split","at":"2026-06-01T12:01:00.000Z"}' }],
  });
  await world.find(1);
  await world.look(0);
  await world.look(180_000);
  assert.deepEqual(
    (await world.status(ops)).waiting.map(({ type }) => type),
    ['finding.began'],
  );
});

test('a certificate is of the apps that any of its names is routed to', async () => {
  await using world = new World();
  const { resources } = world;
  for (const id of ['shop', 'blog']) {
    await resources.create(appType, { id, spec: { name: id, meta: {}, isSystem: false, deployTimeoutMs: 1 } });
    const spec = { type: 'http' as const, appId: id, domain: `${id}.example.com`, service: `${id}-web` };
    await resources.create(routeType, { owner: ownedBy(id), spec });
  }
  await resources.create(certificateType, { spec: { source: 'acme', domains: ['example.com', 'shop.example.com'] } });
  const [shop, blog] = [await world.addTo('shop', 's', 'certificate'), await world.addTo('blog', 'b', 'certificate')];
  await world.put({
    check: 'certificates',
    severity: 'warning',
    subject: 'certificate example.com',
    at: '',
    text: 't',
    remedy: 'r',
  });
  await world.look(0);
  await world.look(60_000);
  const told = async (id: string) => (await world.status(id)).waiting.map(({ type }) => type);
  assert.deepEqual([await told(shop), await told(blog)], [['certificate.failed'], []]);
});
