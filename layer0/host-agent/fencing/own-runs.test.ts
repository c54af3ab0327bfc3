import assert from 'node:assert/strict';
import { cp, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { cellKeys, hostRecordSchema } from '@flynn/scheduler/cell';
import type { HostRecord } from '@flynn/scheduler/cell';
import { createMemoryStore } from '@flynn/store/memory';
import type { MemoryStore } from '@flynn/store/memory';
import type { Lease } from '@flynn/store/store';
import { z } from 'zod';
import { prepareAbsence } from '../hosts/absence.ts';
import { keepAnnounced } from '../hosts/record.ts';
import type { Meeting } from '../hosts/record.ts';
import { followNeighbours } from '../hosts/neighbours.ts';
import { OwnRuns } from './own-runs.ts';

const log = silentLogger();
const key = cellKeys.host('h1');
const runsSchema = z.object({ runs: z.array(z.string()) });
const readRuns = async (dir: string) => runsSchema.parse(JSON.parse(await readFile(join(dir, 'runs.json'), 'utf8')));
const beginsAnew = { code: 'conflict', message: /begins anew/ };

function recordAt(address: string): HostRecord {
  return {
    id: 'h1',
    address,
    apiPort: 1113,
    capacity: { memoryBytes: 1, cpuMillis: 1 },
    attributes: {},
    cordoned: false,
    startedAt: 1,
  };
}

type Agent = {
  own: MemoryStore;
  runs: OwnRuns;
  /** On which leases it stood, at each look. */
  held: Lease[];
  rivals: { address: string; how: Meeting }[];
  /** Rejects where it does not go on. */
  running: Promise<unknown>;
  /** Its process is gone: nothing is renewed any more. `leaves`: it is to be back, and says so; `isCut`: not to the end. */
  end: (options?: { leaves: boolean; isCut?: true }) => Promise<void>;
};

async function scenario(t: TestContext) {
  let nowMs = 0;
  const store = createMemoryStore({ now: () => nowMs });
  const root = await mkdtemp(join(tmpdir(), 'flynn-runs-'));
  const ends: (() => Promise<void>)[] = [];
  t.after(async () => {
    for (const end of ends) await end();
    await store.close();
    await rm(root, { recursive: true, force: true });
  });
  let dirs = 0;
  const standing = async () => {
    const entry = await store.get(key);
    return entry === undefined ? undefined : { entry, record: hostRecordSchema.parse(JSON.parse(entry.value)) };
  };
  return {
    store,
    standing,
    dir: async (copyOf?: string) => {
      const dir = await mkdtemp(join(root, `${(dirs += 1)}-`));
      // What an agent is at writing may be gone when it is its turn.
      const filter = (path: string): boolean => !path.endsWith('.tmp');
      if (copyOf !== undefined) await cp(copyOf, dir, { recursive: true, filter });
      return dir;
    },
    pass: (ms: number): void => {
      nowMs += ms;
      store.expireLeases();
    },
    /** `dir`: undefined for an agent of a version that knows of no runs. */
    start: async (dir: string | undefined, address = '10.0.0.1'): Promise<Agent> => {
      const own = store.connect();
      const stop = new AbortController();
      const runs = await OwnRuns.open(dir ?? join(root, 'none'), log);
      const neighbours = await followNeighbours({ store: own, hostId: 'h1', log, signal: stop.signal });
      const [held, rivals]: [Agent['held'], Agent['rivals']] = [[], []];
      const running = keepAnnounced(own, () => recordAt(address), {
        signal: stop.signal,
        log,
        onAnnounced: async (lease) => void held.push(lease),
        onRival: ({ record }, how) => void rivals.push({ address: record.address, how }),
        untilTaken: (now, limit) => neighbours.untilTaken(now, limit),
        ...(dir === undefined ? {} : { runs }),
      });
      const end: Agent['end'] = async ({ leaves, isCut } = { leaves: false }) => {
        stop.abort();
        const announced = await running.catch(() => undefined);
        const registry = { outlive: async () => undefined };
        const extend = async (): Promise<void> => {
          if (isCut) throw new Error('cut');
        };
        const deps = { store: own, registry, fence: { extend }, runs, hostId: 'h1', log };
        if (leaves && announced !== undefined) await prepareAbsence(announced, deps);
        await own.close();
      };
      ends.push(end);
      running.catch(() => undefined);
      return { own, runs, held, rivals, running, end };
    },
    stands: (agent: Agent) =>
      waitFor(async () => agent.held.at(-1)?.id === (await standing())?.entry.lease && agent.held.length > 0, {
        what: 'the agent to stand',
        deadlineMs: 30_000,
        intervalMs: 5,
      }),
  };
}

for (const [how, leaves] of [
  ['was stopped to be back', true],
  ['was killed', false],
] as const) {
  test(`an agent that begins after one that ${how} takes over at once, and nobody saw the host go`, async (t) => {
    const { start, stands, standing, dir } = await scenario(t);
    const own = await dir();
    const first = await start(own);
    await stands(first);
    const before = await standing();
    await first.end({ leaves });
    // No time passes: what the one before stood on has not ended.
    const second = await start(own);
    await stands(second);
    assert.equal((await standing())?.entry.createRevision, before?.entry.createRevision);
    assert.equal((await standing())?.record.run?.after, before?.record.run?.id);
    assert.deepEqual(second.rivals, []);
  });
}

test('so does one after agents that ended before their record stood, however often', async (t) => {
  const { start, stands, dir } = await scenario(t);
  const own = await dir();
  const first = await start(own);
  await stands(first);
  await first.end();
  for (let count = 0; count < 5; count += 1) await OwnRuns.open(own, log);
  const last = await start(own);
  await stands(last);
  assert.deepEqual(last.rivals, []);
});

test('an update from a version that knows of no runs, the way back, and an update again: each takes over at once', async (t) => {
  const { start, stands, standing, dir } = await scenario(t);
  const own = await dir();
  const created = new Set<number | undefined>();
  for (const version of [undefined, own, undefined, own, own]) {
    const agent = await start(version);
    await stands(agent);
    created.add((await standing())?.entry.createRevision);
    assert.equal((await standing())?.record.run === undefined, version === undefined);
    assert.deepEqual(agent.rivals, []);
    await agent.end({ leaves: true });
  }
  assert.equal(created.size, 1);
});

test('a host that lost the store for hours is back as soon as that is, and so is its agent if it was started meanwhile', async (t) => {
  const { start, stands, pass, standing, dir } = await scenario(t);
  const own = await dir();
  const agent = await start(own);
  await stands(agent);
  agent.own.disconnect();
  pass(3 * 3_600_000);
  assert.equal(await standing(), undefined);
  agent.own.reconnect();
  await waitFor(standing, { what: 'the host', deadlineMs: 30_000 });
  await stands(agent);
  assert.deepEqual(agent.rivals, []);
  await agent.end();
  pass(3 * 3_600_000);
  const next = await start(own);
  await stands(next);
  assert.deepEqual(next.rivals, []);
});

test('a host with a new disk waits for what its former agent left, and no longer: its next agent reads all anew', async (t) => {
  const { start, stands, pass, dir } = await scenario(t);
  const first = await start(await dir());
  await stands(first);
  await first.end();
  const disk = await dir();
  const again = await start(disk);
  await waitFor(() => again.rivals.length > 0, { what: 'a look', deadlineMs: 30_000, intervalMs: 5 });
  assert.equal(again.held.length, 0);
  pass(7_001);
  await assert.rejects(again.running, beginsAnew);
  assert.equal(again.held.length, 0);
  const next = await start(disk);
  await stands(next);
  assert.deepEqual(next.rivals, []);
});

test('a disk that takes nothing keeps no host out, now or after', async (t) => {
  const { start, stands, standing, dir } = await scenario(t);
  const own = await dir();
  await rm(own, { recursive: true });
  for (let count = 0; count < 2; count += 1) {
    const agent = await start(own);
    await stands(agent);
    assert.equal((await standing())?.record.run, undefined);
    assert.deepEqual(agent.rivals, []);
    await agent.end();
  }
});

test('a copy of a running host is sent away, again after its own restart, and has its place once that one is gone', async (t) => {
  const { start, stands, standing, pass, dir } = await scenario(t);
  const own = await dir();
  const host = await start(own);
  await stands(host);
  const { entry: before } = (await standing()) ?? {};
  const copied = await dir(own);
  const copy = await start(copied, '10.0.0.66');
  await waitFor(() => host.rivals.length > 0, { what: 'the host to notice', deadlineMs: 30_000, intervalMs: 5 });
  assert.deepEqual(host.rivals, [{ address: '10.0.0.66', how: 'taken back' }]);
  await stands(host);
  await waitFor(() => copy.rivals.length > 1, { what: 'the copy to notice', deadlineMs: 30_000, intervalMs: 5 });
  assert.deepEqual(copy.rivals[0], { address: '10.0.0.1', how: 'taken' });
  assert.equal((await standing())?.entry.lease, before?.lease);
  assert.equal((await standing())?.entry.createRevision, before?.createRevision);
  assert.equal((await standing())?.record.address, '10.0.0.1');
  await copy.end();

  const restarted = await start(copied, '10.0.0.66');
  await waitFor(() => restarted.rivals.length > 1, { what: 'two looks', deadlineMs: 30_000, intervalMs: 5 });
  assert.equal(restarted.held.length, 0);
  // The host's own agent may be updated beside it.
  await host.end({ leaves: true });
  const updated = await start(own);
  await stands(updated);
  assert.deepEqual(updated.rivals, []);
  await updated.end();
  pass(7_001);
  await assert.rejects(restarted.running, beginsAnew);
  await stands(await start(copied, '10.0.0.66'));
});

test('a host whose lease had ended does not take its place from the copy that has it: both would run a singleton', async (t) => {
  const { start, stands, standing, pass, dir } = await scenario(t);
  const own = await dir();
  const host = await start(own);
  await stands(host);
  const copied = await dir(own);
  host.own.disconnect();
  pass(60_000);
  const copy = await start(copied, '10.0.0.66');
  await stands(copy);
  host.own.reconnect();
  await waitFor(() => host.rivals.length > 1, { what: 'the host to notice', deadlineMs: 30_000, intervalMs: 5 });
  assert.deepEqual(host.rivals[0], { address: '10.0.0.66', how: 'found' });
  assert.equal((await standing())?.record.address, '10.0.0.66');
  assert.deepEqual(copy.rivals, []);
  // What it knows of jobs is of before the copy had them: it does not stand again, and the next one reads them.
  const { length } = host.held;
  await copy.end();
  pass(7_001);
  await assert.rejects(host.running, beginsAnew);
  assert.equal(host.held.length, length);
  assert.equal(await standing(), undefined);
  await stands(await start(own));
});

test('a copy of a version that knows of no runs does not have the host run its singletons beside it', async (t) => {
  const { start, stands, standing, dir } = await scenario(t);
  const host = await start(await dir());
  await stands(host);
  const looks = host.held.length;
  await start(undefined, '10.0.0.66');
  await waitFor(() => host.rivals.length > 1, { what: 'the host to notice', deadlineMs: 30_000, intervalMs: 5 });
  assert.deepEqual(
    host.rivals.slice(0, 2).map(({ how }) => how),
    ['taken', 'found'],
  );
  assert.equal(host.held.length, looks);
  assert.equal((await standing())?.record.address, '10.0.0.66');
});

test('at another address an agent takes over at once from one that ended in order, from a killed one within its lease; a copy never', async (t) => {
  const { start, standing, stands, pass, dir } = await scenario(t);
  const isWaitedFor = async (stateDir: string, address: string): Promise<boolean> => {
    const runs = await OwnRuns.open(stateDir, log);
    return runs.elsewhere((await standing())?.entry, new Set(['127.0.0.1', address])) !== undefined;
  };
  const own = await dir();
  const first = await start(own);
  await stands(first);
  const copied = await dir(own);
  assert.equal(await isWaitedFor(copied, '10.0.0.66'), true);
  // Who asks without being an agent leaves nothing.
  const asking = await OwnRuns.read(copied, log);
  assert.notEqual(asking.elsewhere((await standing())?.entry, new Set(['10.0.0.66'])), undefined);
  assert.equal(await isWaitedFor(own, '10.0.0.1'), false, 'a killed one at the same address');
  await first.end({ leaves: true });
  // Broken off before its record stood, too.
  await OwnRuns.open(own, log);
  assert.equal(await isWaitedFor(own, '10.0.0.2'), false);
  const second = await start(own, '10.0.0.2');
  await stands(second);
  assert.equal(await isWaitedFor(copied, '10.0.0.66'), true, 'of a run that the copy does not know');
  await second.end();
  assert.equal(await isWaitedFor(own, '10.0.0.3'), true);
  pass(7_001);
  assert.equal(await isWaitedFor(own, '10.0.0.3'), false);
  // After an agent of a version before.
  const old = await start(undefined, '10.0.0.3');
  await stands(old);
  await old.end();
  assert.equal(await isWaitedFor(own, '10.0.0.4'), false);
});

test('a record that was left is known for that wherever the agent that left it was cut, and that of a live one is not', async (t) => {
  const { start, stands, standing, dir } = await scenario(t);
  const own = await dir();
  const first = await start(own);
  await stands(first);
  const elsewhere = async () => {
    const runs = await OwnRuns.open(own, log);
    return runs.elsewhere((await standing())?.entry, new Set(['10.0.0.77']));
  };
  assert.equal((await elsewhere())?.mayBeOwn, true);
  const moved = first.runs.elsewhere((await standing())?.entry, new Set(['10.0.0.77']));
  assert.equal(moved, undefined, 'the machine of a live one was given another address');
  const before = (await standing())?.entry.lease;
  await first.end({ leaves: true, isCut: true });
  assert.notEqual((await standing())?.entry.lease, before);
  assert.equal(await elsewhere(), undefined);
});

test("another machine's record is known for one whatever else a later version says in it, and this disk's for its own", async (t) => {
  const { dir } = await scenario(t);
  const own = await dir();
  const runs = await OwnRuns.open(own, log);
  const entryOf = (run: object) => {
    const later = { ...recordAt('10.0.0.2'), run, capacity: { memory: '1 GiB' }, cordoned: 'for new jobs' };
    return { key, value: JSON.stringify(later), lease: 'other', createRevision: 1, modRevision: 1 };
  };
  assert.equal(runs.rivalIn(entryOf({ id: 'of another' }))?.record.address, '10.0.0.2');
  assert.equal(runs.elsewhere(entryOf({ id: 'of another' }), new Set(['10.0.0.1']))?.record.address, '10.0.0.2');
  const next = await OwnRuns.open(own, log);
  const [former] = (await readRuns(own)).runs;
  assert.equal(next.rivalIn(entryOf({ id: former })), undefined);
  assert.equal(next.isHere(entryOf({ id: former }), new Set(['10.0.0.2'])), true);
});
