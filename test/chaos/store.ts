/** The store: members that end and stand still, connections that break. */
import { runProgram } from '@flynn/bootstrap/machine/program';
import type { ClusterHost } from '@flynn/bootstrap/test-hosts/cluster-host';
import { isStoreLeader } from '@flynn/bootstrap/test-hosts/cluster-view';
import { systemClock } from '@flynn/kit/clock';
import { waitFor } from '@flynn/kit/retry';
import { isUp } from './cell-watch.ts';
import { assertUndisturbed, excusedBy } from './hosts.ts';
import { Pulse } from './pulse.ts';
import { type Stage, scenario } from './stage.ts';
import { names, put, web, webCount } from './workloads.ts';

/** Longer than any lease that a host or a job may have lasts without being renewed. */
const aWhileMs = 15_000;
const resetEveryMs = 100;
const resetsPerChange = 30;

export function leaderOf(hosts: readonly ClusterHost[]): Promise<ClusterHost> {
  return waitFor(
    async () => {
      for (const host of hosts) if (await isStoreLeader(host)) return host;
      return undefined;
    },
    { what: 'a member of etcd that leads', deadlineMs: 120_000, intervalMs: 100 },
  );
}

export function describeStore(theStage: () => Stage): void {
  scenario(theStage, 'the leader of etcd is killed: no job notices', async (stage, t) => {
    const leader = await leaderOf(stage.hosts);
    await using pulse = new Pulse(stage.store);
    const pid = leader.storePid();
    process.kill(pid, 'SIGKILL');
    stage.since('the kill');
    const next = await leaderOf(stage.hosts);
    t.diagnostic(next === leader ? 'it leads again' : 'another leads');
    await waitFor(() => leader.storePid() !== pid, { what: 'the member to be back', deadlineMs: 120_000 });
    await stage.untilHealthy();
    assertUndisturbed(stage, excusedBy(await pulse.stop(), stage, t));
  });

  scenario(
    theStage,
    'the leader of etcd stands still for longer than any lease lasts: no job notices',
    async (stage, t) => {
      const leader = await leaderOf(stage.hosts);
      await using pulse = new Pulse(stage.store);
      const startedMs = performance.now();
      leader.freezeStore();
      try {
        await leaderOf(stage.others(leader));
        t.diagnostic(`another led ${((performance.now() - startedMs) / 1_000).toFixed(1)} s later`);
        await systemClock.sleep(aWhileMs, { signal: t.signal });
        assertUndisturbed(stage, excusedBy(await pulse.stop(), stage, t));
      } finally {
        leader.thawStore();
      }
      stage.since('the old leader went on');
    },
  );

  scenario(
    theStage,
    'every connection of one host to etcd is reset ten times a second, while its work changes',
    async (stage, t) => {
      const host = stage.hostOf(names.single);
      for (const count of [webCount + 6, webCount, webCount + 3]) {
        await put(stage.store, [web(stage.image, count)]);
        for (let reset = 0; reset < resetsPerChange; reset += 1) {
          await resetConnections(host);
          await systemClock.sleep(resetEveryMs, { signal: t.signal });
        }
      }
      await put(stage.store, [web(stage.image)]);
      stage.since('the last reset');
      await stage.watch.until(
        (cell) => {
          const up = cell.jobsOf(names.web).filter((job) => isUp(cell, job)).length;
          return up === webCount ? [] : [`${up} of ${webCount} are up`];
        },
        { what: 'the last of the changes', deadlineMs: 180_000 },
      );
    },
  );
}

/** Without a goodbye, as the kernel does it; the next ones are let through. */
async function resetConnections(host: ClusterHost): Promise<void> {
  const [program, args] = host.command(['ss', '--kill', '--tcp', 'dport', '=', ':2379']);
  await runProgram(program, args, { timeoutMs: 10_000 });
}
