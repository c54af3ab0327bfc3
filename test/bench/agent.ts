import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { waitFor } from '@flynn/kit/retry';
import type { Checkout } from '../checkout.ts';
import type { TestCluster } from '../test-cluster.ts';
import { memoryByPart } from './memory.ts';
import { cpuSecondsWithChildren, settle } from './probe.ts';
import type { Bench } from './bench.ts';
import { figure, type Figure } from './figure.ts';

const jobs = 100;
/** For each: with the defaults two cores take 78 jobs, and 24 GB of memory 82 besides the platform. */
const small = { cpuMillis: 100, memoryBytes: 128 * 2 ** 20 };
const seconds = 60;
const windowSeconds = 20;

/** What the host agent takes of a core, and of memory, with jobs on its host that do nothing but answer its checks. */
async function benchAgent(cluster: TestCluster): Promise<Figure[]> {
  const app = await cluster.checkout('express', 'idle');
  await app.push();
  await makeSmall(cluster, app);
  await app.flynn(['scale', `web=${jobs}`], { timeoutMs: 600_000 });
  await waitFor(async () => (await cluster.containers('idle', 'web')).length === jobs, {
    what: `${jobs} containers`,
    deadlineMs: 60_000,
    intervalMs: 1_000,
  });
  await settle(cluster);
  // Its supervisor, its watchdog, its shells and whatever they start are parts of it.
  const pids = ['host-agent.mjs', 'flynn-watchdog', 'sh -s'].flatMap((text) => cluster.host.pids(text));
  const spent = () => pids.reduce((sum, pid) => sum + cpuSecondsWithChildren(pid), 0);
  const shareOf = async (ofSeconds: number) => {
    const before = spent();
    await new Promise((resolve) => setTimeout(resolve, ofSeconds * 1_000));
    return ((spent() - before) / ofSeconds) * 100;
  };
  await untilLevel(() => shareOf(windowSeconds));
  const share = await shareOf(seconds);
  const memory = (await memoryByPart(cluster)).find(({ name }) => name === 'host agent');
  return [
    figure({ name: `agent with ${jobs} idle jobs`, value: share, unit: '%', must: '<= 2 % of a core' }),
    figure({ name: 'its memory', value: memory?.megabytes ?? Number.NaN, unit: 'MB', must: '<= 120 MB' }),
  ];
}

/**
 * Jobs that have just started are not idle ones yet: their ports are tried often until they have accepted fifteen times, and
 * what the agent runs now and then is being compiled. So: until a window of time costs no less than the one before.
 */
async function untilLevel(shareOfWindow: () => Promise<number>): Promise<void> {
  let before = await shareOfWindow();
  await waitFor(
    async () => {
      const now = await shareOfWindow();
      const isLevel = now > before * 0.9;
      before = now;
      return isLevel;
    },
    { what: 'the agent to have nothing left to do', deadlineMs: 300_000 },
  );
}

/** A release that asks for less of the host, which no command does yet. */
async function makeSmall(cluster: TestCluster, app: Checkout): Promise<void> {
  const file = join(cluster.env['FLYNN_CONFIG_DIR'] ?? '', 'clusters.json');
  const { clusters } = JSON.parse(await readFile(file, 'utf8')) as { clusters: { key: string; ca: string }[] };
  const { stdout } = await app.flynn(['release', 'show']);
  const { processes } = JSON.parse(stdout) as { processes: { web: object } };
  const script = `
    const [host, app, key, ca, body] = process.argv.slice(1);
    const headers = { host, authorization: 'Bearer ' + key, 'content-type': 'application/json' };
    const options = { host: '127.0.0.1', servername: host, ca, path: '/apps/' + app + '/releases', method: 'POST', headers };
    require('node:https').request(options, (answer) => {
      process.exitCode = answer.statusCode < 300 ? 0 : 1;
      answer.pipe(process.stderr);
    }).end(body);`;
  const body = JSON.stringify({ processes: { web: { ...processes.web, ...small } } });
  await cluster.exec([
    process.execPath,
    '-e',
    script,
    `controller.${cluster.domain}`,
    app.name,
    clusters[0]?.key ?? '',
    clusters[0]?.ca ?? '',
    body,
  ]);
  await app.flynn(['rollback', 'v2']);
}

export const bench: Bench = { needs: 'cluster', run: benchAgent };
