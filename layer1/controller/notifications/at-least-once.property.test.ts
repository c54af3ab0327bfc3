/** Whoever looks and whoever sends may die at any step, and be followed by one who knows nothing but the store. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { lastUpdatePut } from '@flynn/host-agent/cluster/last-update';
import { silentLogger } from '@flynn/kit/log';
import { newId } from '@flynn/kit/ids';
import { ResourceService } from '@flynn/resource/service';
import { createMemoryStore } from '@flynn/store/memory';
import { storeWith } from '@flynn/store/store-with';
import type { Store } from '@flynn/store/store';
import * as fc from 'fast-check';
import { z } from 'zod';
import { eventsKey } from '../health/events.ts';
import { appType, deploymentType, ownedBy } from '../resources.ts';
import type { DeploymentResource } from '../resources.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { stepDelivery } from './delivery.ts';
import type { Send } from './sender.ts';
import { newSigningSecret } from './signature.ts';
import { notificationType } from './types.ts';
import { stepWatching } from './watch-steps.ts';

let world: TestController;
before(async () => {
  world = await startTestController({ hosts: 0, hasWorker: false });
});
after(async () => {
  await world?.[Symbol.asyncDispose]();
});

const { signal } = new AbortController();
const hosts = ['h1', 'h2', 'h3'];
const appIds = ['shop', 'blog'];
const receivedSchema = z.object({
  id: z.string(),
  type: z.string(),
  data: z.object({ subject: z.object({ name: z.string() }), since: z.string().optional() }),
});
type Received = z.output<typeof receivedSchema>;

const step = fc.oneof(
  { weight: 3, arbitrary: fc.record({ do: fc.constant('fail' as const), host: fc.constantFrom(...hosts) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('mend' as const), host: fc.constantFrom(...hosts) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('deploy' as const),
      app: fc.constantFrom(...appIds),
      hasFailed: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('update' as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('receiver' as const), isThere: fc.boolean() }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('pass' as const), seconds: fc.integer({ min: 1, max: 400 }) }) },
);
/** At how many of its calls somebody dies, and whether what was called happened. */
const crashes = fc.array(fc.constantFrom('no', 'no', 'no', 'before', 'after' as const), {
  minLength: 5,
  maxLength: 40,
});

class Crash extends Error {}

test('whoever dies when, each state that lasts reaches the receiver, and what it gets twice has one id', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 40 }), crashes, async (steps, plannedCrashes) => {
      const run = await Run.open(plannedCrashes);
      for (const one of steps) await run.act(one);
      await run.settle();
      run.check();
      await run.store.close();
    }),
    { numRuns: 40 },
  );
});

class Run {
  readonly store = createMemoryStore();
  readonly received: Received[] = [];
  readonly #open = new Set<string>();
  readonly #deployments = new Map<string, { value: DeploymentResource }>();
  readonly #lastOf = new Map<string, string>();
  #updates = 0;
  #now = Date.parse('2026-06-01T12:00:00Z');
  #isThere = true;
  #crashes: readonly string[];
  #calls = 0;
  #id = '';

  private constructor(planned: readonly string[]) {
    this.#crashes = planned;
  }

  static async open(planned: readonly string[]): Promise<Run> {
    const run = new Run(planned);
    const service = run.#service(run.store);
    for (const id of appIds)
      await service.create(appType, { id, spec: { name: id, meta: {}, isSystem: false, deployTimeoutMs: 1 } });
    const { id } = await service.create(notificationType, {
      spec: {
        name: 'ops',
        url: 'http://ops.example.com',
        format: 'json',
        on: ['finding', 'host', 'deployment', 'update'],
        severity: 'critical',
        everyMinutes: 5,
        secret: newSigningSecret(),
        isInside: true,
      },
    });
    run.#id = id;
    await run.#tell();
    await run.#work();
    return run;
  }

  async act(one: typeof step extends fc.Arbitrary<infer T> ? T : never): Promise<void> {
    if (one.do === 'fail') this.#open.add(one.host);
    if (one.do === 'mend') this.#open.delete(one.host);
    if (one.do === 'receiver') this.#isThere = one.isThere;
    if (one.do === 'deploy') await this.#deploy(one.app, one.hasFailed);
    if (one.do === 'update') {
      this.#updates += 1;
      const update = { version: `v${this.#updates}`, outcome: 'moved', at: new Date(this.#now).toISOString() } as const;
      await this.store.transact({ then: [lastUpdatePut(update)] });
    }
    this.#now += one.do === 'pass' ? one.seconds * 1_000 : 1_000;
    await this.#tell();
    await this.#work();
  }

  /** Nothing happens any more, nobody dies, and the receiver is there. */
  async settle(): Promise<void> {
    this.#isThere = true;
    this.#crashes = [];
    for (let minute = 0; minute < 45; minute += 1) {
      this.#now += 60_000;
      await this.#tell();
      await this.#work();
    }
  }

  check(): void {
    const typeOf = new Map<string, string>();
    const idOf = new Map<string, string>();
    for (const { id, type, data } of this.received) {
      const what = `${type} ${data.subject.name} ${data.since ?? ''}`;
      assert.equal(typeOf.get(id) ?? what, what, 'an id is of one thing');
      typeOf.set(id, what);
      if (data.since === undefined) continue;
      assert.equal(idOf.get(what) ?? id, id, `${what} has one id`);
      idOf.set(what, id);
    }
    const lastOf = (prefix: string, name: string) =>
      this.received.findLast(({ type, data }) => type.startsWith(prefix) && data.subject.name === name)?.type;
    for (const host of hosts) {
      const last = lastOf('host.', host);
      if (this.#open.has(host)) assert.equal(last, 'host.lost', host);
      else assert.ok(last === undefined || last === 'host.back', `${host}: ${last}`);
    }
    for (const [app, type] of this.#lastOf) assert.equal(lastOf('deployment.', app), type, app);
    const ids = new Set(this.received.filter(({ type }) => type.startsWith('deployment.')).map(({ id }) => id));
    assert.ok(ids.size <= this.#deployments.size, 'a deployment has one id');
    if (this.#updates > 0) assert.equal(lastOf('update.', `v${this.#updates}`), 'update.succeeded');
  }

  #service(store: Store): ResourceService {
    return new ResourceService({ store, now: () => this.#now, newId, log: silentLogger() });
  }

  async #deploy(app: string, hasFailed: boolean): Promise<void> {
    const state = hasFailed ? ('failed' as const) : ('complete' as const);
    const value = await this.#service(this.store).create(deploymentType, {
      owner: ownedBy(app),
      spec: { appId: app, newReleaseId: 'r', counts: {}, oldCounts: {}, knownJobs: [], timeoutMs: 1 },
      status: { state, progress: {}, endedAt: new Date(this.#now).toISOString() },
    });
    this.#deployments.set(value.id, { value });
    this.#lastOf.set(app, hasFailed ? 'deployment.failed' : 'deployment.succeeded');
  }

  /** As the controller that looks writes it. */
  async #tell(): Promise<void> {
    const open = Object.fromEntries(
      [...this.#open].map((host) => {
        const at = new Date(this.#now).toISOString();
        const finding = {
          check: 'hosts',
          severity: 'critical',
          subject: `host ${host}`,
          isAway: true,
          at,
          text: 'away',
        };
        return [`critical hosts host ${host}`, finding];
      }),
    );
    const value = JSON.stringify({ teller: { id: 't', at: this.#now }, open, recent: [] });
    await this.store.transact({ then: [{ put: eventsKey, value }] });
  }

  /** A worker that looks, and one that sends until nothing is due; whoever dies is followed by another the next time. */
  async #work(): Promise<void> {
    const store = this.#mortal(this.store);
    const resources = this.#service(store);
    const deps = {
      ...world.deps,
      store,
      resources,
      now: () => this.#now,
      deployments: { snapshot: { entries: this.#deployments } },
    };
    await unlessDead(() => stepWatching(deps, { signal }));
    const send: Send = async (_to, { body }) => {
      const fate = this.#fate();
      if (fate === 'before') throw new Crash();
      if (!this.#isThere) return { status: 503, text: 'away' };
      this.received.push(receivedSchema.parse(JSON.parse(body)));
      if (fate === 'after') throw new Crash();
      return { status: 200, text: '' };
    };
    await unlessDead(async () => {
      for (let more = true; more;) {
        const again = await stepDelivery(deps, this.#id, { send, random: () => 0, signal });
        more = again?.againInMs === 0;
      }
    });
  }

  #fate(): string {
    const fate = this.#crashes[this.#calls % Math.max(1, this.#crashes.length)] ?? 'no';
    this.#calls += 1;
    return fate;
  }

  #mortal(store: Store): Store {
    return storeWith(store, {
      transact: async (transaction, options) => {
        const fate = this.#fate();
        if (fate === 'before') throw new Crash();
        const result = await store.transact(transaction, options);
        if (fate === 'after') throw new Crash();
        return result;
      },
    });
  }
}

async function unlessDead(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof Crash)) throw error;
  }
}
