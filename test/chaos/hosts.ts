/** Hosts, agents and engines that end, stand still and come back. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { systemClock } from '@flynn/kit/clock';
import { waitFor } from '@flynn/kit/retry';
import type { Cell } from '@flynn/scheduler/cell-view';
import { wrongs } from './cell-watch.ts';
import { type Stage, scenario } from './stage.ts';
import { names } from './workloads.ts';

/** The lease of a host is 7 s, of what it announces 10 s, and of one whose agent is to be back 30 s. */
const awayMs = 12_000;
/** Then the last renewal of a lease that lasts 7 s was at most 1.5 s ago, and the watchdog strikes 0.5 s before its end. */
const inTimeMs = 4_500;
/** Of the 30 s of one that is to be back, from its signal on, when the watchdog strikes 0.5 s before their end. */
const returnedMs = 27_000;
/** A lease whose renewal waits for the store for no longer is good still: its singletons stop 2 s before the end of its 7 s. */
const steadyMs = 3_000;

/** What stops where its host may have no lease any more. */
const singletons: readonly string[] = [names.single, names.volume];

/** Until the host is not in the cell any more and all its work that can move runs on the others; how long that took. */
export async function untilReplaced(stage: Stage, gone: string): Promise<string> {
  const startedMs = performance.now();
  const seconds = (): string => ((performance.now() - startedMs) / 1_000).toFixed(1);
  const there = stage.hosts.map(({ name }) => name).filter((name) => name !== gone);
  const away = (cell: Cell): string[] => (cell.hosts.has(gone) ? [`${gone} is there`] : []);
  await stage.watch.until(away, { what: `${gone} to be missed`, deadlineMs: 120_000 });
  const missed = seconds();
  await stage.watch.until((cell) => [...away(cell), ...wrongs(cell, there)], {
    what: `the work of ${gone} to run elsewhere`,
    deadlineMs: 180_000,
  });
  return `missed after ${missed} s, all its work ran elsewhere after ${seconds()} s`;
}

export function describeHosts(theStage: () => Stage): void {
  scenario(
    theStage,
    'a host loses its power: its work runs elsewhere, and the host is used again when it is back',
    async (stage, t) => {
      const host = stage.hostOf(names.single);
      await host.cutPower();
      t.diagnostic(await untilReplaced(stage, host.name));
      await host.boot();
      stage.since('the host had booted');
    },
  );

  scenario(theStage, 'a host agent is killed: no container notices if another is there in time', async (stage, t) => {
    const host = stage.hostOf(names.single);
    const before = stage.cell.hosts.get(host.name);
    assert.ok(before !== undefined);
    const killedMs = performance.now();
    process.kill(host.agentPid(), 'SIGKILL');
    stage.since('the kill');
    await stage.watch.until(
      (cell) => {
        const startedAt = cell.hosts.get(host.name)?.value.startedAt;
        return startedAt === undefined || startedAt === before.value.startedAt ? ['no other agent announced it'] : [];
      },
      { what: 'another host agent', deadlineMs: 120_000 },
    );
    const awayMs = performance.now() - killedMs;
    t.diagnostic(`another was there ${(awayMs / 1_000).toFixed(1)} s after the kill`);
    await stage.untilHealthy();
    const isMissed = stage.missed.includes(host.name);
    assert.ok(!isMissed || awayMs >= inTimeMs, 'the host was missed before its lease ended');
    // On a machine that has too much to do for a start in time singletons have to stop, as of a host that is away. Of one that
    // is, all the rest runs elsewhere, too.
    assertUndisturbed(stage, isMissed ? Object.values(names) : awayMs < inTimeMs ? [] : singletons);
  });

  scenario(
    theStage,
    'a host agent that is to be back is away for longer than a host may be silent: nobody misses its host',
    async (stage, t) => {
      const host = stage.hostOf(names.single);
      const before = stage.cell.hosts.get(host.name);
      assert.ok(before !== undefined);
      const pid = host.agentPid();
      host.freezeSupervisor();
      const signalledMs = performance.now();
      try {
        process.kill(pid, 'SIGUSR2');
        await waitFor(() => !host.pids('host-agent.mjs').includes(pid), { what: 'its end', deadlineMs: 60_000 });
        await systemClock.sleep(awayMs);
      } finally {
        host.thawSupervisor();
      }
      stage.since('its supervisor went on');
      const { startedAt } = before.value;
      const isBack = (cell: Cell): boolean => (cell.hosts.get(host.name)?.value.startedAt ?? startedAt) !== startedAt;
      await stage.watch.until((cell) => (isBack(cell) ? [] : ['only the agent before announced it']), {
        what: 'another host agent',
        deadlineMs: 120_000,
      });
      const tookMs = performance.now() - signalledMs;
      t.diagnostic(`another was there ${(tookMs / 1_000).toFixed(1)} s after the signal`);
      await stage.untilHealthy();
      if (tookMs > returnedMs) return;
      assert.ok(!stage.missed.includes(host.name), 'the host was missed');
      assertUndisturbed(stage);
    },
  );

  scenario(
    theStage,
    'a host agent stands still past its lease: its singletons are stopped without it, and it catches up',
    async (stage, t) => {
      const host = stage.hostOf(names.single);
      host.freezeAgent();
      try {
        t.diagnostic(await untilReplaced(stage, host.name));
        assert.notEqual(stage.hostOf(names.single), host);
      } finally {
        host.thawAgent();
      }
      stage.since('the agent went on');
      await stage.watch.until((cell) => (cell.hosts.has(host.name) ? [] : [`${host.name} is away`]), {
        what: 'the host to be back',
        deadlineMs: 120_000,
      });
    },
  );

  scenario(theStage, 'a container engine is killed with all its containers and starts again', async (stage) => {
    const host = stage.hostOf(names.single);
    await host.killEngine();
    await host.startEngine();
    stage.since('the engine was back');
  });

  scenario(theStage, 'all hosts lose their power at once', async (stage) => {
    const startOf = (name: string): number | undefined => stage.cell.hosts.get(name)?.value.startedAt;
    const before = new Map(stage.hosts.map(({ name }) => [name, startOf(name)]));
    for (const host of stage.hosts) await host.cutPower();
    await Promise.all(stage.hosts.map((host) => host.boot()));
    stage.since('the hosts had booted');
    const isBack = (name: string): boolean => startOf(name) !== undefined && startOf(name) !== before.get(name);
    await stage.watch.until(() => [...before.keys()].filter((name) => !isBack(name)), {
      what: 'the hosts to be back',
      deadlineMs: 240_000,
    });
  });
}

/**
 * What may be stopped after so long without an answer of the store: an election takes longer on a machine that is too slow. Where a
 * lease of a host ended meanwhile, all that ran there may have moved.
 */
export function excusedBy(outageMs: number, stage: Stage, t: TestContext): readonly string[] {
  t.diagnostic(`the store gave no answer for ${(outageMs / 1_000).toFixed(1)} s at most`);
  if (outageMs < steadyMs) return [];
  if (stage.missed.length === 0) return singletons;
  t.diagnostic(`${stage.missed.join(', ')} was missed meanwhile`);
  return Object.values(names);
}

/** Nothing of the suite's steady work was stopped or started since the scenario began, but what is `excused`. */
export function assertUndisturbed(stage: Stage, excused: readonly string[] = []): void {
  stage.witness.look();
  const steady = new Set<string>(Object.values(names).filter((name) => !excused.includes(name)));
  const changed = stage.witness.changes().filter(({ name }) => steady.has(name));
  assert.deepEqual(changed, []);
}
