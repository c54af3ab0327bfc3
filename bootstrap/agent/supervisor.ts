/**
 * The host agent on a machine without systemd: `supervise` keeps it running. A supervisor that was killed leaves its agent
 * behind, with the ports and the jobs of the host.
 */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { open, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { installedProgram, isAgent } from '@flynn/host-agent/agent-process';
import { hasErrno } from '@flynn/kit/errors';
import { readTextFile } from '@flynn/kit/files';
import { commandOf, findProcesses, isShell } from '@flynn/kit/processes';
import { waitFor } from '@flynn/kit/retry';
import { root } from '../origin.ts';

const supervise = join(root, 'bootstrap/supervise');
/** Of the supervisor. */
const pidFile = 'agent.pid';
/** Of the agent itself, and after its end where its supervisor was killed. */
const childFile = 'agent.child';
/** Taken away by the next supervisor. */
const returnFile = 'agent.return';

/** The agent takes up to 25 s to stop. */
export const stopMs = 40_000;

/** Whether one was started, and not ended in order. */
export function hasSupervisor(stateDir: string): boolean {
  return existsSync(join(stateDir, pidFile));
}

export async function isSupervised(stateDir: string): Promise<boolean> {
  return (await supervisorPid(stateDir)) !== undefined;
}

/** In the place of the one that is there, whose agent is told that it is to be back at once. */
export async function startSupervisor(stateDir: string, node: string): Promise<void> {
  await writeFile(join(stateDir, returnFile), '');
  await endSupervised(stateDir);
  await using log = await open(join(stateDir, 'agent.log'), 'a', 0o600);
  const child = spawn('sh', [supervise, stateDir, node, installedProgram(stateDir)], {
    cwd: '/',
    detached: true,
    stdio: ['ignore', log.fd, log.fd],
  });
  await new Promise<void>((resolve, reject) => {
    child.once('spawn', resolve);
    child.once('error', reject);
  });
  child.unref();
  await waitFor(() => isSupervised(stateDir), {
    what: 'the supervisor of the host agent',
    deadlineMs: 10_000,
    intervalMs: 50,
  });
}

/** Whether there was an agent. `timeout` if it does not end. */
export async function stopSupervised(stateDir: string): Promise<boolean> {
  await rm(join(stateDir, returnFile), { force: true });
  const wasThere = await endSupervised(stateDir);
  // One that was killed, or went with the power, has left it: this host would be taken for one that it keeps.
  await rm(join(stateDir, pidFile), { force: true });
  return wasThere;
}

/** A supervisor ends its agent, with the signal that is meant; of one without, this does. */
async function endSupervised(stateDir: string): Promise<boolean> {
  if (await end(() => supervisorPid(stateDir), 'SIGTERM')) return true;
  return end(() => agentPid(stateDir), existsSync(join(stateDir, returnFile)) ? 'SIGUSR2' : 'SIGTERM');
}

async function end(find: () => Promise<number | undefined>, signal: NodeJS.Signals): Promise<boolean> {
  const told = new Set<number>();
  const isGone = async (): Promise<boolean> => {
    const pid = await find();
    if (pid === undefined) return true;
    if (!told.has(pid)) tell(pid, signal);
    told.add(pid);
    return false;
  };
  if (await isGone()) return false;
  await waitFor(isGone, { what: 'the host agent to stop', deadlineMs: stopMs, intervalMs: 100 });
  return true;
}

function tell(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    // It ended since it was looked for.
    if (!hasErrno(error, 'ESRCH')) throw error;
  }
}

function supervisorPid(stateDir: string): Promise<number | undefined> {
  return pidOf(join(stateDir, pidFile), (command) => {
    const at = command.findIndex((word) => word.endsWith('supervise'));
    return isShell(command) && at >= 0 && command[at + 1] === stateDir;
  });
}

function agentPid(stateDir: string): Promise<number | undefined> {
  return pidOf(join(stateDir, childFile), (command) => isAgent(command, stateDir));
}

/**
 * The pid may have passed on to another program after a power cut; and on a full disk it could not be written down, while
 * whose it is runs.
 */
async function pidOf(file: string, isIt: (command: readonly string[]) => boolean): Promise<number | undefined> {
  const pid = Number(await readTextFile(file));
  if (Number.isInteger(pid) && pid > 1 && isIt(await commandOf(pid))) return pid;
  for (const other of await findProcesses(isIt)) if (!(await isOfUnit(other))) return other;
  return undefined;
}

/** Whether systemd runs it, which is then the one to be told. */
async function isOfUnit(pid: number): Promise<boolean> {
  const groups = await readFile(`/proc/${pid}/cgroup`, 'utf8').catch(() => '');
  return /\/flynn-host-[a-z0-9]+\.service$/m.test(groups);
}
