/** The host agent on this machine: started, kept running, restarted when it or its settings changed, stopped. */
import { spawn } from 'node:child_process';
import { mkdir, open, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { tlsFiles } from '@flynn/host-agent/cluster/etcd-resident';
import { readTextFile, writeFileAtomic } from '@flynn/kit/files';
import { waitFor } from '@flynn/kit/retry';
import { agentProgram, installAgent, installedProgram, isGivenUp } from './agent-program.ts';
import { hostAllocatorEnv } from './allocator.ts';
import { isSystemdRunning } from './engine.ts';
import { digestOf } from './images/tag.ts';
import { isInstalled, node, root } from './origin.ts';
import { commandOf } from './program.ts';
import type { Cluster, Options } from './settings.ts';
import { isUnitActive, removeUnit, startUnit, unitJournal, unitOf, unitText } from './unit.ts';

const supervise = join(root, 'bootstrap/supervise');
/** Taken away by the next supervisor. */
const returnFile = 'agent.return';
/** The agent takes up to 25 s to stop. */
const stopMs = 40_000;

export type AgentSetup = Readonly<{ stateDir: string; cluster: Cluster; supervisor: 'systemd' | 'own' }>;

export function setupOf(options: Options, cluster: Cluster): AgentSetup {
  return {
    stateDir: options.FLYNN_STATE_DIR,
    cluster,
    supervisor: options.FLYNN_SUPERVISOR ?? (isSystemdRunning() ? 'systemd' : 'own'),
  };
}

/** The agent's configuration, as NAME=value lines. */
export function agentEnvironment(options: Options, cluster: Cluster): string {
  const variables = {
    FLYNN_CLUSTER: cluster.name,
    FLYNN_HOST_ID: cluster.hostId,
    FLYNN_STATE_DIR: options.FLYNN_STATE_DIR,
    FLYNN_KEY: cluster.key,
    FLYNN_ADDRESS: cluster.address,
    FLYNN_SUBNET: cluster.subnet,
    FLYNN_BRIDGE: cluster.bridge,
    FLYNN_RANGE: cluster.range,
    FLYNN_ETCD_ENDPOINTS: cluster.etcdEndpoints.join(','),
    FLYNN_ETCD_CA_FILE: join(options.FLYNN_STATE_DIR, tlsFiles.authority),
    FLYNN_ETCD_CERT_FILE: join(options.FLYNN_STATE_DIR, tlsFiles.certificate),
    FLYNN_ETCD_KEY_FILE: join(options.FLYNN_STATE_DIR, tlsFiles.key),
    ...(cluster.peers.length === 0 ? {} : { FLYNN_PEERS: cluster.peers.join(',') }),
    FLYNN_DOCKER_SOCKET: options.FLYNN_DOCKER_SOCKET,
    ...(isInstalled ? { FLYNN_INSTALLATION: root } : {}),
    ...(cluster.dnsUpstreams === undefined ? {} : { FLYNN_DNS_UPSTREAMS: cluster.dnsUpstreams }),
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
  await writeFileAtomic(join(setup.stateDir, 'agent.env'), environment, { mode: 0o600 });
  if (setup.supervisor === 'systemd') {
    // An agent below the other one would have what this one needs: its ports, its jobs.
    await stopSupervisor(setup.stateDir);
    await startUnit(setup.cluster, textOf(setup), stopMs);
  } else {
    await removeUnit(setup.cluster, setup.stateDir, stopMs);
    await startSupervisor(setup);
  }
  await writeFileAtomic(fingerprintFile, fingerprint);
  return { what: isRunning ? 'restarted' : 'started', program: name };
}

export async function isAgentRunning(setup: AgentSetup): Promise<boolean> {
  if (setup.supervisor === 'own') return (await supervisorPid(setup.stateDir)) !== undefined;
  return isUnitActive(setup.cluster);
}

function textOf({ cluster, stateDir }: AgentSetup): string {
  return unitText(cluster, { stateDir, node, program: installedProgram(stateDir) });
}

async function startSupervisor(setup: AgentSetup): Promise<void> {
  // Read by the one that runs: its agent is back at once.
  await writeFile(join(setup.stateDir, returnFile), '');
  await stopSupervisor(setup.stateDir);
  await using log = await open(join(setup.stateDir, 'agent.log'), 'a', 0o600);
  const child = spawn('sh', [supervise, setup.stateDir, node, installedProgram(setup.stateDir)], {
    cwd: '/',
    detached: true,
    stdio: ['ignore', log.fd, log.fd],
  });
  await new Promise<void>((resolve, reject) => {
    child.once('spawn', resolve);
    child.once('error', reject);
  });
  child.unref();
  await waitFor(async () => (await supervisorPid(setup.stateDir)) !== undefined, {
    what: 'the supervisor of the host agent',
    deadlineMs: 10_000,
    intervalMs: 50,
  });
}

/** What of the agent was there and is gone now. */
export async function removeAgent(setup: AgentSetup): Promise<string[]> {
  await rm(join(setup.stateDir, returnFile), { force: true });
  const removed: string[] = [];
  if (await removeUnit(setup.cluster, setup.stateDir, stopMs))
    removed.push(`the systemd unit ${unitOf(setup.cluster)}`);
  if (await stopSupervisor(setup.stateDir)) removed.push('the host agent');
  return removed;
}

async function stopSupervisor(stateDir: string): Promise<boolean> {
  const pid = await supervisorPid(stateDir);
  if (pid === undefined) return false;
  process.kill(pid, 'SIGTERM');
  const isGone = async (): Promise<boolean> => (await supervisorPid(stateDir)) === undefined;
  await waitFor(isGone, { what: 'the host agent to stop', deadlineMs: stopMs, intervalMs: 100 });
  return true;
}

/** The pid may have passed on to another program after a power cut. */
async function supervisorPid(stateDir: string): Promise<number | undefined> {
  const pid = Number(await readTextFile(join(stateDir, 'agent.pid')));
  if (!Number.isInteger(pid) || pid <= 1) return undefined;
  const command = await commandOf(pid);
  const at = command.findIndex((word) => word.endsWith('supervise'));
  return at >= 0 && command[at + 1] === stateDir ? pid : undefined;
}

/** What the agent said last, for when it does not come up. */
export async function agentLog(setup: AgentSetup, lines: number): Promise<string> {
  const text =
    setup.supervisor === 'systemd'
      ? await unitJournal(setup.cluster, lines)
      : ((await readTextFile(join(setup.stateDir, 'agent.log'))) ?? '');
  return text.trim().split('\n').slice(-lines).join('\n');
}
