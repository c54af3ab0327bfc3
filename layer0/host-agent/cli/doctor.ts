/** `flynn-host status doctor etcd`: how this host and its cluster are, asked without Layer 1. */
import { asFlynnError, hasCode } from '@flynn/kit/errors';
import { systemClock } from '@flynn/kit/clock';
import { readJsonFile } from '@flynn/kit/files';
import type { EtcdStatus } from '@flynn/store/etcd-status';
import { z } from 'zod';
import { agentClient } from '../agent-client.ts';
import { routes } from '../api.ts';
import type { CliContext } from './context.ts';
import { positiveInteger } from './context.ts';
import { formatBytes, formatTable } from './format.ts';
import type { Installation } from './installation.ts';
import { doctorRoutes } from '../doctor/api.ts';
import type { ClusterExamination } from '../doctor/api.ts';
import { exitCodeOf, healthOf, together } from '../doctor/finding.ts';
import type { Verdict } from '../doctor/finding.ts';
import { ownCertificates } from '../doctor/own-certificates.ts';
import { clusterText, findingsText } from '../doctor/text.ts';
import { examineWithoutAgent } from '../doctor/without-agent.ts';
import { readHostIdentity } from '../trust/host-trust.ts';
import type { AgentStatus } from '../api.ts';

const statusPatienceMs = 900;
const doctorPatienceMs = 5_000;
/** Beyond the patience: for the way, and for a machine that is busy. */
const graceMs = 3_000;

type Seen = { status?: AgentStatus; cluster?: ClusterExamination; own?: Verdict };

export function addDoctorCommands(context: CliContext): void {
  const { program, print } = context;
  const seconds = (wanted: number | undefined, usualMs: number) => (wanted === undefined ? usualMs : wanted * 1_000);
  program
    .command('status')
    .description('this host, all hosts and etcd, and what is wrong; exit code 0: all is well, 1: see to it, 2: broken')
    .option('--json', 'as JSON')
    .option('-o, --output <format>', 'table or json')
    .option('--patience <seconds>', 'how long to wait for what does not answer', positiveInteger)
    .action(async (options: { json?: true; output?: string; patience?: number }) => {
      const seen = await look(context, { patienceMs: seconds(options.patience, statusPatienceMs), work: false });
      const verdict = verdictOf(seen);
      if (options.json === true || options.output === 'json') {
        const { findings, unknown } = verdict;
        print(
          `${JSON.stringify({ ...seen.status, health: healthOf(verdict), cluster: seen.cluster, findings, unknown }, undefined, 2)}\n`,
        );
      } else print(statusText(seen, verdict));
      process.exitCode = exitCodeOf(healthOf(verdict));
    });
  program
    .command('doctor')
    .description(
      'what is wrong with this host and its cluster: since when, why it matters, what to do; works without Layer 1',
    )
    .option('--json', 'as JSON')
    .option('-o, --output <format>', 'table or json')
    .option('--patience <seconds>', 'how long to wait for what does not answer', positiveInteger)
    .action(async (options: { json?: true; output?: string; patience?: number }) => {
      const seen = await look(context, { patienceMs: seconds(options.patience, doctorPatienceMs), work: true });
      const verdict = verdictOf(seen);
      const { findings, unknown } = verdict;
      if (options.json === true || options.output === 'json') {
        print(`${JSON.stringify({ health: healthOf(verdict), findings, unknown }, undefined, 2)}\n`);
      } else print(findings.length + unknown.length === 0 ? allIsWell(seen) : findingsText(verdict, systemClock.now()));
      process.exitCode = exitCodeOf(healthOf(verdict));
    });
}

/** What the agent tells; when it does not, what another host's tells, and what can be seen without any. */
async function look(context: CliContext, options: { patienceMs: number; work: boolean }): Promise<Seen> {
  try {
    return await context.withAgent(async (client) => {
      const timeoutMs = options.patienceMs + graceMs;
      const [status, cluster] = await Promise.all([
        client.call(routes.status, {}, { timeoutMs: timeoutMs + graceMs }),
        client.call(doctorRoutes.cluster, { query: options }, { timeoutMs }),
      ]);
      return { status, cluster };
    });
  } catch (error) {
    if (!hasCode(error, 'unavailable', 'timeout')) throw error;
    const installation = await context.installation();
    const { environment, stateDir } = installation;
    const cluster = await askOthers(installation, options);
    const own = await examineWithoutAgent({
      hostId: environment['FLYNN_HOST_ID'] ?? 'of this machine',
      address: environment['FLYNN_ADDRESS'],
      site: environment['FLYNN_SITE'],
      cluster: environment['FLYNN_CLUSTER'],
      bridge: environment['FLYNN_BRIDGE'],
      stateDir,
      certificates: () => ownCertificates(environment),
      etcd: cluster === undefined ? (signal) => askMembers(installation, signal) : undefined,
      error,
      now: systemClock.now(),
    });
    return cluster === undefined ? { own } : { own, cluster };
  }
}

/** Those that this host knew last. */
async function askMembers(installation: Installation, signal: AbortSignal): Promise<EtcdStatus> {
  // The etcd client takes half a second to load: only who needs it waits for it.
  const [{ etcdStatus }, { etcdOf }] = await Promise.all([
    import('@flynn/store/etcd-status'),
    import('../cluster/backup.ts'),
  ]);
  return etcdStatus({ ...(await etcdOf(installation)), signal });
}

/** Hosts that had a member of etcd when this host was last told. */
async function askOthers(
  { stateDir, key, environment }: Installation,
  options: { patienceMs: number; work: boolean },
): Promise<ClusterExamination | undefined> {
  const endpoints = (await readJsonFile(`${stateDir}/etcd-endpoints.json`, z.array(z.url()))) ?? [];
  const addresses = endpoints.map((endpoint) => new URL(endpoint).hostname);
  const others = addresses.filter((address) => address !== environment['FLYNN_ADDRESS']);
  const identity = await readHostIdentity(stateDir);
  const asking = others.map(async (address) => {
    await using client = agentClient(
      { id: '', address, apiPort: 1113, ...(identity === undefined ? {} : { mutual: { withoutIdentity: 0 } }) },
      { key, identity },
    );
    return await client.call(doctorRoutes.cluster, { query: options }, { timeoutMs: options.patienceMs + graceMs });
  });
  try {
    return asking.length === 0 ? undefined : await Promise.any(asking);
  } catch (error) {
    // Nobody answers: then there is only what this host knows of itself.
    if (error instanceof AggregateError) return undefined;
    throw asFlynnError(error);
  }
}

function verdictOf({ cluster, own }: Seen): Verdict {
  return together([cluster, own].filter((one) => one !== undefined));
}

function statusText({ status, cluster }: Seen, verdict: Verdict): string {
  const parts: string[] = [];
  if (status !== undefined) {
    const { host, lease, jobs } = status;
    const count = (state: string) => `${jobs[state] ?? 0} ${state}`;
    const left = lease.leftMs === undefined ? 'none' : `${(lease.leftMs / 1_000).toFixed(1)}s`;
    parts.push(
      formatTable([
        ['host', host.id],
        ['address', `${host.address}:${host.apiPort}`],
        ['version', status.version],
        ['engine', status.engine.isConnected ? `docker ${status.engine.version}` : 'does not answer'],
        ['store', status.store.isReachable ? 'reachable' : 'does not answer'],
        ['lease', lease.isAlone ? `${left} (the only host)` : left],
        ['jobs', ['running', 'starting', 'crashed', 'pending'].map(count).join(', ')],
        ['capacity', `${formatBytes(host.capacity.memoryBytes)}, ${host.capacity.cpuMillis} millicores`],
        ...status.conditions.map((condition) => ['condition', condition]),
      ]),
    );
  }
  const { findings, unknown } = verdict;
  if (cluster === undefined) parts.push(findingsText(verdict, systemClock.now()));
  else parts.push(clusterText({ ...cluster, findings, unknown }, systemClock.now()));
  return parts.join('\n');
}

function allIsWell({ cluster }: Seen): string {
  const hosts = cluster?.hosts.length ?? 0;
  return `all is well: ${hosts} host${hosts === 1 ? '' : 's'}, ${cluster?.etcd.length ?? 0} member${cluster?.etcd.length === 1 ? '' : 's'} of etcd\n`;
}
