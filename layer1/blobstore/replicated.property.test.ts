import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Clock } from '@flynn/kit/clock';
import { hasCode } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import * as fc from 'fast-check';
import { Comparison } from './comparison.ts';
import { Copying } from './copying.ts';
import { type Peer, ReplicatedStorage } from './replicated.ts';
import { MemoryReplica, chunks, digestOf, overNetwork } from './testing.ts';

const hosts = [0, 1, 2] as const;
const contents = ['a', 'b', 'c', 'd'] as const;
const hourMs = 3_600_000;
const never = new AbortController().signal;

/** A clock that whoever waits moves on. */
function quickClock(): Clock & { pass(ms: number): void } {
  let nowMs = 1_000;
  const pass = (ms: number) => void (nowMs += ms);
  return { now: () => nowMs, sleep: async (ms) => pass(ms), pass };
}

type Fault = { from: number; to: number; when: 'before' | 'after' };

/** Three stores whose network breaks and whose hosts go and come. */
class World {
  readonly clock = quickClock();
  /** Off: discovery has forgotten it, its disk keeps what it has. */
  readonly off = new Set<number>();
  readonly faults: Fault[] = [];
  readonly stores = hosts.map((host) => this.#store(host));

  #store(host: number) {
    const own = new MemoryReplica({ now: () => this.clock.now() });
    const peers = (): Peer[] =>
      this.stores.flatMap((store, to) => {
        if (to === host || this.off.has(to)) return [];
        const fate = (when: Fault['when']) =>
          this.faults.some((fault) => fault.from === host && fault.to === to && fault.when === when);
        return [{ host: `h${to}`, replica: overNetwork(store.own, fate) }];
      });
    const { clock } = this;
    const storage = new ReplicatedStorage({ own, peers, clock });
    const deps = { own, peers, clock, log: silentLogger() };
    const comparison = new Comparison(deps, new Copying(deps, { bytesPerSecond: 1e9 }));
    return { own, storage, comparison };
  }

  holders(digest: string): number[] {
    return hosts.filter((host) => this.stores[host]?.own.blobs.has(digest));
  }

  /** The host is lost with its disk; another takes its place. */
  lose(host: number): void {
    const own = this.stores[host]?.own;
    for (const kept of [own?.blobs, own?.removed, own?.names]) kept?.clear();
  }

  async heal(): Promise<void> {
    this.off.clear();
    this.faults.length = 0;
    // What reaches one store from a second in the first round reaches the third from there in the next.
    for (let round = 0; round < 2; round += 1)
      for (const { comparison } of this.stores) await comparison.compare(never);
  }
}

type Call = { do: 'put' | 'stat' | 'collect'; host: number; content: string } | { do: 'compare'; host: number };
type Step = Call | { do: 'off' | 'on' | 'lose'; host: number } | ({ do: 'break' } & Fault) | { do: 'mend' | 'pass' };

const host = fc.constantFrom(...hosts);
const steps: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 10,
    arbitrary: fc.record({
      do: fc.constantFrom('put', 'put', 'stat', 'collect'),
      host,
      content: fc.constantFrom(...contents),
    }),
  },
  { weight: 5, arbitrary: fc.record({ do: fc.constantFrom('compare', 'compare', 'off', 'on', 'lose'), host }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('break'),
      from: host,
      to: host,
      when: fc.constantFrom('before', 'after'),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom('mend', 'pass') }) },
);

type Outcome = 'done' | 'not_found' | 'conflict' | 'unavailable';

async function outcomeOf(work: Promise<unknown>): Promise<Outcome> {
  try {
    await work;
    return 'done';
  } catch (error) {
    for (const code of ['not_found', 'conflict', 'unavailable'] as const) if (hasCode(error, code)) return code;
    throw error;
  }
}

/** What was promised of a blob, and which disks it was promised on. */
class Promises {
  readonly #world: World;
  /** A use that was answered keeps the blob on each disk it was written to, until a removal of what is older. */
  readonly #kept = new Map<string, { usedAt: number; disks: Set<number> }>();
  /** A removal that was answered, and the disks that know of it. */
  readonly #gone = new Map<string, Set<number>>();
  readonly #lastTried = new Map<string, number>();

  constructor(world: World) {
    this.#world = world;
  }

  tried(digest: string): void {
    this.#lastTried.set(digest, this.#world.clock.now());
    this.#gone.delete(digest);
  }

  used(digest: string, usedAt: number): void {
    const { stores, off } = this.#world;
    const disks = hosts.filter((one) => (stores[one]?.own.blobs.get(digest)?.usedAt ?? -1) >= usedAt);
    const there = this.#world.holders(digest).filter((one) => !off.has(one)).length;
    assert.ok(disks.length >= Math.min(2, there) && disks.length > 0, 'a use is where two have the blob');
    this.#kept.set(digest, { usedAt, disks: new Set(disks) });
  }

  collected(digest: string, before: number, outcome: Outcome): void {
    if ((this.#kept.get(digest)?.usedAt ?? -1) < before) this.#kept.delete(digest);
    if (outcome !== 'done' || (this.#lastTried.get(digest) ?? -1) >= before) return;
    const disks = hosts.filter((one) => (this.#world.stores[one]?.own.removed.get(digest) ?? -1) >= before);
    if (disks.length > 0) this.#gone.set(digest, new Set(disks));
  }

  lost(disk: number): void {
    for (const { disks } of this.#kept.values()) disks.delete(disk);
    for (const disks of this.#gone.values()) disks.delete(disk);
  }

  check(): void {
    for (const [digest, { disks }] of this.#kept) {
      for (const disk of disks) assert.ok(this.#world.holders(digest).includes(disk), 'what was answered is kept');
    }
  }

  checkHealed(): void {
    for (const content of contents) {
      const digest = digestOf(content);
      const count = this.#world.holders(digest).length;
      assert.ok(count === 0 || count === hosts.length, `${count} of three have the blob`);
      if ((this.#kept.get(digest)?.disks.size ?? 0) > 0) assert.equal(count, hosts.length, 'it is everywhere');
      if ((this.#gone.get(digest)?.size ?? 0) > 0) assert.equal(count, 0, 'what was removed does not come back');
    }
  }
}

async function take(world: World, promises: Promises, step: Step): Promise<void> {
  switch (step.do) {
    case 'mend':
      world.faults.length = 0;
      return;
    case 'pass':
      world.clock.pass(2 * hourMs);
      return;
    case 'break':
      world.faults.push(step);
      return;
    case 'on':
      world.off.delete(step.host);
      return;
    case 'off':
      world.off.add(step.host);
      return;
    case 'lose':
      world.lose(step.host);
      promises.lost(step.host);
      return;
    case 'put':
    case 'stat':
    case 'collect':
    case 'compare':
      if (!world.off.has(step.host)) await call(world, promises, step);
  }
}

async function call(world: World, promises: Promises, step: Call): Promise<void> {
  const { clock, off, stores } = world;
  const store = stores[step.host];
  assert.ok(store);
  if (step.do === 'compare') {
    await store.comparison.compare(never);
    return;
  }
  const beganMs = clock.now();
  const digest = digestOf(step.content);
  const copies = () => world.holders(digest).filter((one) => !off.has(one)).length;
  if (step.do === 'collect') {
    const unusedSince = beganMs - hourMs;
    promises.collected(digest, unusedSince, await outcomeOf(store.storage.remove(digest, { unusedSince })));
    return;
  }
  const work = step.do === 'put' ? store.storage.put(chunks(step.content), {}) : store.storage.stat(digest);
  const outcome = await outcomeOf(work);
  promises.tried(digest);
  if (outcome === 'done' && step.do === 'put') {
    assert.ok(copies() >= Math.min(2, hosts.length - off.size), 'two have it, where there are two');
  }
  if (outcome === 'done') promises.used(digest, beganMs);
  if (outcome === 'not_found') assert.equal(copies(), 0, 'it is there');
}

test('whatever breaks: what was answered is kept while a disk that has it lives, and what was removed stays so', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(steps, { maxLength: 60 }), async (all) => {
      const world = new World();
      const promises = new Promises(world);
      for (const step of all) {
        await take(world, promises, step);
        promises.check();
      }
      await world.heal();
      promises.checkHealed();
    }),
    { numRuns: 200 },
  );
});
