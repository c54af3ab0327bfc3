import { waitFor } from '@flynn/kit/retry';
import type { TestCluster } from '../test-cluster.ts';
import { cpuSeconds, memoryByPart, settle } from './probe.ts';
import type { Bench } from './bench.ts';
import { figure, type Figure } from './figure.ts';

/** As many as two cores are given with the default limits, beside the platform itself. */
const jobs = 70;
const seconds = 60;

/** What the host agent takes of a core, and of memory, with jobs on its host that do nothing but answer its checks. */
async function benchAgent(cluster: TestCluster): Promise<Figure[]> {
  const app = await cluster.checkout('express', 'idle');
  await app.push();
  await app.flynn(['scale', `web=${jobs}`], { timeoutMs: 600_000 });
  await waitFor(async () => (await cluster.containers('idle', 'web')).length === jobs, {
    what: `${jobs} containers`,
    deadlineMs: 60_000,
    intervalMs: 1_000,
  });
  await settle(cluster);
  // Its supervisor and its watchdog are parts of it.
  const pids = [...cluster.host.pids('host-agent.mjs'), ...cluster.host.pids('flynn-watchdog')];
  const spent = () => pids.reduce((sum, pid) => sum + cpuSeconds(pid), 0);
  const before = spent();
  await new Promise((resolve) => setTimeout(resolve, seconds * 1_000));
  const share = ((spent() - before) / seconds) * 100;
  const memory = (await memoryByPart(cluster)).find(({ name }) => name === 'host agent');
  return [
    figure({ name: `agent with ${jobs} idle jobs`, value: share, unit: '%', must: '<= 2 % of a core' }),
    figure({ name: 'its memory', value: memory?.megabytes ?? Number.NaN, unit: 'MB', must: '<= 120 MB' }),
  ];
}

export const bench: Bench = { needs: 'cluster', run: benchAgent };
