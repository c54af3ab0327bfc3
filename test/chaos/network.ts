/** Hosts that do not reach each other. */
import assert from 'node:assert/strict';
import { systemClock } from '@flynn/kit/clock';
import { startSteadyLoad } from '../steady-load.ts';
import { isUp } from './cell-watch.ts';
import { excusedBy, untilReplaced } from './hosts.ts';
import { Pulse } from './pulse.ts';
import { type Stage, scenario } from './stage.ts';
import { names } from './workloads.ts';

const etcdPorts = [2379, 2380];
/** A lease, the time after it, and placing and starting what would move. */
const nothingMovesMs = 20_000;

export function describeNetwork(theStage: () => Stage): void {
  scenario(
    theStage,
    'a host is cut off from etcd and not from its clients: its apps answer, and its singleton stops before it runs elsewhere',
    async (stage, t) => {
      const host = stage.hostOf(names.single);
      const webs = () => stage.witness.runs(names.web).filter((run) => run.host === host.name);
      const before = webs();
      const load = startSteadyLoad((signal) => stage.cluster.get('hello', '/', { signal, host }), {
        lanes: 2,
        pauseMs: 50,
        maxMs: 120_000,
      });
      await stage.cluster.partition([host], stage.others(host), { ports: etcdPorts });
      t.diagnostic(await untilReplaced(stage, host.name));
      const report = await load.stop();
      assert.deepEqual(
        before.filter(({ endedMs }) => endedMs !== undefined),
        [],
        'jobs of no singleton were stopped',
      );
      t.diagnostic(gapText(stage, names.single));
      await stage.cluster.heal();
      stage.since('the network was whole again');
      await stage.watch.until((cell) => (cell.hosts.has(host.name) ? [] : [`${host.name} is away`]), {
        what: 'the host to be back',
        deadlineMs: 120_000,
      });
      assert.deepEqual(report.failures, [], 'requests at the host failed');
      assert.ok(report.requests > 20, `only ${report.requests} requests`);
    },
  );

  scenario(
    theStage,
    'a host without the singleton is cut off from etcd: the singleton never notices, and what ran there twice by then ends',
    async (stage, t) => {
      const holder = stage.hostOf(names.single);
      const [host] = stage.others(holder);
      assert.ok(host !== undefined);
      const before = stage.witness.runs(names.web).filter((run) => run.host === host.name);
      // The host that is cut off may have led etcd.
      await using pulse = new Pulse(stage.store);
      await stage.cluster.partition([host], stage.others(host), { ports: etcdPorts });
      t.diagnostic(await untilReplaced(stage, host.name));
      stage.witness.look();
      assert.deepEqual(
        before.filter(({ endedMs }) => endedMs !== undefined),
        [],
        'jobs of no singleton were stopped',
      );
      await stage.cluster.heal();
      stage.since('the network was whole again');
      await stage.watch.until((cell) => (cell.hosts.has(host.name) ? [] : [`${host.name} is away`]), {
        what: 'the host to be back',
        deadlineMs: 120_000,
      });
      await stage.untilHealthy();
      if (excusedBy(await pulse.stop(), stage, t).includes(names.single)) return;
      const moved = stage.witness.changes().filter(({ name }) => name === names.single);
      assert.deepEqual(moved, [], 'the singleton was stopped or started');
      assert.equal(stage.hostOf(names.single), holder);
    },
  );

  scenario(
    theStage,
    'no two hosts reach each other: without a quorum nothing moves, and what runs runs on',
    async (stage, t) => {
      const [first, second, ...rest] = stage.hosts;
      assert.ok(first !== undefined && second !== undefined);
      const ids = stage.idsOf(names.web);
      await stage.cluster.partition([first], [second, ...rest]);
      await stage.cluster.partition([second], rest);
      await systemClock.sleep(nothingMovesMs, { signal: t.signal });
      assert.deepEqual(movedWebs(stage), [], 'jobs were started or stopped');
      await stage.cluster.heal();
      await using pulse = new Pulse(stage.store);
      stage.since('the network was whole again');
      await stage.watch.until(
        (cell) => cell.jobsOf(names.single).flatMap((job) => (isUp(cell, job) ? [] : [`${job.id} is not up`])),
        { what: 'the singleton', deadlineMs: 120_000 },
      );
      await stage.untilHealthy();
      // Leases that nobody could renew have their whole time once one leads again: a host that needs longer is missed.
      if (excusedBy(await pulse.stop(), stage, t).includes(names.web)) return;
      assert.deepEqual(stage.idsOf(names.web), ids, 'jobs were moved');
      assert.deepEqual(movedWebs(stage), [], 'jobs were started or stopped');
    },
  );
}

function movedWebs(stage: Stage): unknown[] {
  stage.witness.look();
  return stage.witness.changes().filter(({ name }) => name === names.web);
}

function gapText({ witness }: Stage, name: string): string {
  const [old, young] = witness.runs(name).toSorted((a, b) => a.startedMs - b.startedMs);
  assert.ok(old?.endedMs !== undefined && young !== undefined, `${name} did not move`);
  return `the singleton ran nowhere for ${((young.startedMs - old.endedMs) / 1_000).toFixed(1)} s`;
}
