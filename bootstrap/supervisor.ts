/**
 * The host agent on a machine without systemd: `supervise` keeps it running. A supervisor that was killed leaves its agent
 * behind, with the ports and the jobs of the host.
 */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { open, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { hasErrno } from '@flynn/kit/errors';
import { readTextFile } from '@flynn/kit/files';
import { waitFor } from '@flynn/kit/retry';
import { installedProgram } from './agent-program.ts';
import { root } from './origin.ts';
import { commandOf } from './program.ts';

const supervise = join(root, 'bootstrap/supervise');
/** Of the supervisor. */
const pidFile = 'agent.pid';
/** Of the agent itself, and after its end where its supervisor was killed. */
const childFile = 'agent.child';
/** Taken away by the next supervisor. */
const returnFile = 'agent.return';

/** The agent takes up to 25 s to stop. */
export const stopMs = 40_000;

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
  return endSupervised(stateDir);
}

/** A supervisor ends its agent, with the signal that is meant; of one without, this does. */
async function endSupervised(stateDir: string): Promise<boolean> {
  if (await end(() => supervisorPid(stateDir), 'SIGTERM')) return true;
  return end(() => agentPid(stateDir), existsSync(join(stateDir, returnFile)) ? 'SIGUSR2' : 'SIGTERM');
}

async function end(find: () => Promise<number | undefined>, signal: NodeJS.Signals): Promise<boolean> {
  const pid = await find();
  if (pid === undefined) return false;
  try {
    process.kill(pid, signal);
  } catch (error) {
    // It ended since it was looked for.
    if (!hasErrno(error, 'ESRCH')) throw error;
  }
  const isGone = async (): Promise<boolean> => (await find()) === undefined;
  await waitFor(isGone, { what: 'the host agent to stop', deadlineMs: stopMs, intervalMs: 100 });
  return true;
}

async function supervisorPid(stateDir: string): Promise<number | undefined> {
  return pidOf(join(stateDir, pidFile), (command) => {
    const at = command.findIndex((word) => word.endsWith('supervise'));
    return at >= 0 && command[at + 1] === stateDir;
  });
}

async function agentPid(stateDir: string): Promise<number | undefined> {
  // A supervisor has it among its words, too.
  return pidOf(
    join(stateDir, childFile),
    (command) => command.at(-1) === installedProgram(stateDir) && command[0] !== 'sh',
  );
}

/** The pid may have passed on to another program after a power cut. */
async function pidOf(file: string, isIt: (command: readonly string[]) => boolean): Promise<number | undefined> {
  const pid = Number(await readTextFile(file));
  return Number.isInteger(pid) && pid > 1 && isIt(await commandOf(pid)) ? pid : undefined;
}
