/** The host agent on this machine: started, kept running, restarted when it or its settings changed, stopped. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { installedProgram } from '@flynn/host-agent/agent-process';
import { tlsFiles } from '@flynn/host-agent/cluster/etcd-resident';
import { writeIfOther } from '@flynn/host-agent/trust/certificate-files';
import { readTextFile } from '@flynn/kit/files';
import { agentProgram, installAgent, isGivenUp } from './program.ts';
import { hostAllocatorEnv } from './allocator.ts';
import { isSystemdRunning } from '../machine/engine.ts';
import { digestOf } from '../images/tag.ts';
import { isInstalled, node, root } from '../origin.ts';
import { runProgram } from '../machine/program.ts';
import type { Cluster, Options } from '../settings.ts';
import { hasSupervisor, isSupervised, startSupervisor, stopMs, stopSupervised } from './supervisor.ts';
import { hasUnit, isUnitActive, removeDropIns, removeUnit, startUnit, unitJournal, unitOf, unitText } from './unit.ts';

export type AgentSetup = Readonly<{ stateDir: string; cluster: Cluster; supervisor: 'systemd' | 'own' }>;

export function setupOf(options: Options, cluster: Cluster): AgentSetup {
  const stateDir = options.FLYNN_STATE_DIR;
  const machine = {
    hasSystemd: isSystemdRunning(),
    hasOwn: () => hasSupervisor(stateDir) && !hasUnit(cluster, stateDir),
  };
  return { stateDir, cluster, supervisor: supervisorOf(options.FLYNN_SUPERVISOR ?? cluster.supervisor, machine) };
}

/** `hasOwn`: of an `up` of a version before, which did not write down what it was given. An empty word is for the usual one. */
export function supervisorOf(
  given: string | undefined,
  { hasSystemd, hasOwn }: { hasSystemd: boolean; hasOwn: () => boolean },
): AgentSetup['supervisor'] {
  if (given === 'systemd' || given === 'own') return given;
  return hasSystemd && (given !== undefined || !hasOwn()) ? 'systemd' : 'own';
}

/** The agent's configuration, as NAME=value lines. */
export function agentEnvironment(options: Options, cluster: Cluster): string {
  const variables = {
    FLYNN_CLUSTER: cluster.name,
    FLYNN_HOST_ID: cluster.hostId,
    FLYNN_STATE_DIR: options.FLYNN_STATE_DIR,
    FLYNN_KEY: cluster.key,
    FLYNN_ADDRESS: cluster.address,
    ...(cluster.site === undefined ? {} : { FLYNN_SITE: cluster.site }),
    ...(cluster.localAddress === undefined ? {} : { FLYNN_LOCAL_ADDRESS: cluster.localAddress }),
    FLYNN_SUBNET: cluster.subnet,
    FLYNN_BRIDGE: cluster.bridge,
    FLYNN_RANGE: cluster.range,
    ...(cluster.networkBackend === undefined ? {} : { FLYNN_NETWORK_BACKEND: cluster.networkBackend }),
    FLYNN_ETCD_ENDPOINTS: cluster.etcdEndpoints.join(','),
    FLYNN_ETCD_CA_FILE: join(options.FLYNN_STATE_DIR, tlsFiles.authority),
    FLYNN_ETCD_CERT_FILE: join(options.FLYNN_STATE_DIR, tlsFiles.certificate),
    FLYNN_ETCD_KEY_FILE: join(options.FLYNN_STATE_DIR, tlsFiles.key),
    ...(cluster.peers.length === 0 ? {} : { FLYNN_PEERS: cluster.peers.join(',') }),
    FLYNN_DOCKER_SOCKET: options.FLYNN_DOCKER_SOCKET,
    ...(isInstalled ? { FLYNN_INSTALLATION: root } : {}),
    ...(cluster.dnsUpstreams === undefined ? {} : { FLYNN_DNS_UPSTREAMS: cluster.dnsUpstreams }),
    ...(cluster.cloudMetadata === undefined ? {} : { FLYNN_CLOUD_METADATA: cluster.cloudMetadata }),
    ...(cluster.schedulers === undefined ? {} : { FLYNN_SCHEDULERS: cluster.schedulers }),
    ...hostAllocatorEnv(),
  };
  return Object.entries(variables)
    .map(([name, value]) => `${name}=${value}\n`)
    .join('');
}

export type AgentOutcome = Readonly<{
  what: 'started' | 'restarted' | 'unchanged';
  /** Of the program that was put in place; as `isGivenUp` takes it. */
  program: string;
}>;

/**
 * Answers once the process is started; whether it serves shows in discovery. `identity` is the fingerprint of the cluster's
 * authority, whose key a running agent has read; its own certificate it makes again itself.
 */
export async function ensureAgent(setup: AgentSetup, environment: string, identity: string): Promise<AgentOutcome> {
  const fingerprintFile = join(setup.stateDir, 'agent.fingerprint');
  const program = await agentProgram();
  const { code, name } = program;
  const fingerprint = digestOf(`${digestOf(code)}\n${environment}\n${identity}\n${textOf(setup)}`);
  const before = await readTextFile(fingerprintFile);
  const isRunning = await isAgentRunning(setup);
  if (isRunning && before === fingerprint && !(await isGivenUp(setup.stateDir, name))) {
    return { what: 'unchanged', program: name };
  }
  await mkdir(setup.stateDir, { recursive: true, mode: 0o700 });
  await installAgent(setup.stateDir, program);
  await writeIfOther(join(setup.stateDir, 'agent.env'), environment);
  if (setup.supervisor === 'systemd') {
    // An agent below the other one would have what this one needs: its ports, its jobs.
    await stopSupervised(setup.stateDir);
    await startUnit(setup.cluster, textOf(setup), { stateDir: setup.stateDir, stopMs });
  } else {
    await removeUnit(setup.cluster, setup.stateDir, stopMs);
    await startSupervisor(setup.stateDir, node);
  }
  await writeIfOther(fingerprintFile, fingerprint);
  return { what: isRunning ? 'restarted' : 'started', program: name };
}

/** Of whichever version it is, with the settings it has; nothing where it runs. */
export async function startAgentAsItIs(setup: AgentSetup): Promise<void> {
  if (await isAgentRunning(setup)) return;
  if (setup.supervisor === 'systemd')
    await runProgram('systemctl', ['start', unitOf(setup.cluster)], { timeoutMs: stopMs });
  else await startSupervisor(setup.stateDir, node);
}

export async function isAgentRunning(setup: AgentSetup): Promise<boolean> {
  if (setup.supervisor === 'own') return isSupervised(setup.stateDir);
  return isUnitActive(setup.cluster);
}

function textOf({ cluster, stateDir }: AgentSetup): string {
  return unitText(cluster, { stateDir, node, program: installedProgram(stateDir) });
}

/** What of the agent was there and is gone now. */
export async function removeAgent(
  setup: Pick<AgentSetup, 'stateDir'> & { cluster: Pick<Cluster, 'name'> },
): Promise<string[]> {
  const removed: string[] = [];
  if (await removeUnit(setup.cluster, setup.stateDir, stopMs))
    removed.push(`the systemd unit ${unitOf(setup.cluster)}`);
  if (await removeDropIns(setup.cluster)) removed.push(`settings of your own beside ${unitOf(setup.cluster)}`);
  if (await stopSupervised(setup.stateDir)) removed.push('the host agent');
  return removed;
}

/** What the agent said last, for when it does not come up. */
export async function agentLog(setup: AgentSetup, lines: number): Promise<string> {
  const text =
    setup.supervisor === 'systemd'
      ? await unitJournal(setup.cluster, lines)
      : ((await readTextFile(join(setup.stateDir, 'agent.log'))) ?? '');
  return text.trim().split('\n').slice(-lines).join('\n');
}
