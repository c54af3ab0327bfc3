/**
 * A host loses its power, the leader of etcd is killed, a host is cut off, with the leader on it each time: for how long can
 * nothing be changed at the hosts that stay, and how long does who tries wait? `outage power|kill|cut` is one of them alone.
 */
import type { ClusterHost } from '@flynn/bootstrap/test-hosts/cluster-host';
import { systemClock } from '@flynn/kit/clock';
import { leaderOf } from '../chaos/store.ts';
import type { TestCluster } from '../test-cluster.ts';
import { type Write, WriteProbe, longestMs, outageMs } from '../write-probe.ts';
import type { Bench } from './bench.ts';
import { type Figure, figure } from './figure.ts';

const beforeMs = 5_000;
const afterMs = 20_000;
const app = 'outage';

type Fault = Readonly<{ name: string; strike: (cluster: TestCluster, leader: ClusterHost) => Promise<void> }>;

const faults: Readonly<Record<string, Fault>> = {
  power: { name: 'power cut', strike: (_cluster, leader) => leader.cutPower() },
  kill: {
    name: 'leader of etcd killed',
    strike: async (_cluster, leader) => void process.kill(leader.storePid(), 'SIGKILL'),
  },
  cut: {
    name: 'host cut off',
    strike: (cluster, leader) => cluster.partition([leader], others(cluster, leader)),
  },
};

const others = (cluster: TestCluster, host: ClusterHost): ClusterHost[] => cluster.hosts.filter((one) => one !== host);

export const bench: Bench = {
  needs: 'three hosts',
  run: async (cluster, names): Promise<Figure[]> => {
    await cluster.flynn(['create', app]);
    // The doors are known by their addresses, for which there is no certificate.
    await cluster.flynn(['-a', 'controller', 'env', 'set', 'FLYNN_PLAIN_HTTP=allowed']);
    await cluster.flynn(['-a', 'controller', 'scale', 'web=3']);
    const figures: Figure[] = [];
    for (const [key, { name, strike }] of Object.entries(faults)) {
      if (names.length > 0 && !names.includes(key)) continue;
      const leader = await leaderOf(cluster.hosts);
      const doors = others(cluster, leader).map(({ address }) => `http://${address}`);
      await using probe = new WriteProbe({
        doors,
        token: await cluster.adminKey(),
        domain: `controller.${cluster.domain}`,
        app,
      });
      await systemClock.sleep(beforeMs);
      const struckMs = performance.now();
      await strike(cluster, leader);
      await systemClock.sleep(afterMs);
      const writes = await probe.stop();
      tell(name, leader, writes, struckMs);
      figures.push(
        figure({ name: `${name}: nothing was changed`, value: outageMs(writes) / 1_000, unit: 's', must: '<= 5 s' }),
        figure({ name: `${name}: longest wait`, value: longestMs(writes) / 1_000, unit: 's', must: '<= 5 s' }),
      );
      await cluster.heal();
      await Promise.all(cluster.hosts.map((host) => host.boot()));
      await cluster.untilHealthy();
    }
    return figures;
  },
};

/** What took long, by when it began. */
function tell(name: string, leader: ClusterHost, writes: readonly Write[], struckMs: number): void {
  process.stderr.write(`${name} (${leader.name}, ${leader.address}):\n`);
  const at = (ms: number): string => ((ms - struckMs) / 1_000).toFixed(2);
  for (const { door, startedMs, endedMs, failure } of writes) {
    if (failure === undefined && endedMs - startedMs < 1_000) continue;
    process.stderr.write(`  ${at(startedMs)} to ${at(endedMs)} ${door} ${failure ?? 'done'}\n`);
  }
}
