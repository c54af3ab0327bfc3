/** The machine's container engine: reached, and started when none runs. */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, open, readFile, rm } from 'node:fs/promises';
import { get } from 'node:http';
import { dirname, join } from 'node:path';
import { FlynnError, hasCode, hasErrno, messageOf } from '@flynn/kit/errors';
import { readJsonFile, readTextFile, writeFileAtomic } from '@flynn/kit/files';
import { raceAbort, waitFor, withDeadline } from '@flynn/kit/retry';
import Docker from 'dockerode';
import { z } from 'zod';
import { hasProgram, runProgram, tryProgram } from './program.ts';

export const defaultSocket = '/var/run/docker.sock';
export const defaultStateDir = '/var/lib/flynn';

/** Kept beside the cluster's state, so that `down` stops an engine that `up` started, and no other. */
const startedEngineSchema = z.object({
  pid: z.int().optional(),
  unit: z.string().optional(),
  /** Units of it that started at boot before. Notes of old do not say. */
  enabled: z.array(z.string()).default([]),
  socket: z.string(),
});
type StartedEngine = z.output<typeof startedEngineSchema>;

const startedEngineFile = 'engine.json';
const daemonPidFile = '/var/run/docker.pid';

export function engineAt(socket: string = defaultSocket): Docker {
  return new Docker({ socketPath: socket });
}

export const askMs = 20_000;

/** `unavailable` for one that says it is there and not what it is asked: where a lock in it hangs it is so for good. */
export async function askEngine<T>(
  socket: string,
  ask: (docker: Docker) => Promise<T>,
  patienceMs: number = askMs,
): Promise<T> {
  try {
    return await ask(new Docker({ socketPath: socket, timeout: patienceMs }));
  } catch (error) {
    if (!hasErrno(error, 'ECONNRESET')) throw error;
    throw silent(`the container engine at ${socket}`, error);
  }
}

/** The same of an engine at hand. Not every call of the library heeds a signal: such a one is left behind. */
export async function within<T>(patienceMs: number, ask: (abortSignal: AbortSignal) => Promise<T>): Promise<T> {
  const signal = withDeadline(patienceMs);
  try {
    return await raceAbort(ask(signal), signal);
  } catch (error) {
    if (!signal.aborted) throw error;
    throw silent('the container engine', error);
  }
}

function silent(engine: string, cause: unknown): FlynnError {
  return new FlynnError(
    'unavailable',
    `${engine} is there, and does not answer what it is asked: start it anew (systemctl restart docker; journalctl -u docker tells what it said), and run the same command again`,
    { cause },
  );
}

/** A frozen engine accepts connections and says nothing: it is hung up on, or it would hold this process as long as it is so. */
export function isEngineUp(socket: string, patienceMs = 5_000): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const options = { socketPath: socket, path: '/_ping', agent: false, signal: withDeadline(patienceMs) };
  const asking = get(options, (response) => {
    // What breaks off after the head changes nothing about the answer.
    response.on('error', () => undefined).resume();
    resolve(response.statusCode === 200);
  });
  asking.on('error', () => resolve(false));
  return promise;
}

export function isSystemdRunning(): boolean {
  return existsSync('/run/systemd/system');
}

/** Whether `ensureEngine` could start one; only the default socket's is ours to start. */
export function canStartEngine(socket: string): boolean {
  return socket === defaultSocket && hasProgram('dockerd');
}

/** Answers once the engine does. What it started it remembers in the state directory. */
export async function ensureEngine(
  options: { socket?: string; stateDir?: string } = {},
): Promise<{ docker: Docker; wasStarted: boolean }> {
  const socket = options.socket ?? defaultSocket;
  const stateDir = options.stateDir ?? defaultStateDir;
  if (await isEngineUp(socket)) return { docker: engineAt(socket), wasStarted: false };
  if (!canStartEngine(socket)) {
    throw new FlynnError('unavailable', `no container engine answers at ${socket}: start it, or install docker.io`);
  }
  await mkdir(stateDir, { recursive: true, mode: 0o700 });
  const log = join(stateDir, 'dockerd.log');
  if (isSystemdRunning()) {
    await startEngineUnit(stateDir, socket);
  } else if ((await daemonOf(daemonPidFile)) === undefined) {
    await remember(stateDir, { pid: await startDaemon(socket, log), enabled: [], socket });
  }
  try {
    await waitFor(() => isEngineUp(socket), { what: 'the container engine', deadlineMs: 60_000, intervalMs: 200 });
  } catch (error) {
    const lines = existsSync(log) ? (await readFile(log, 'utf8')).trim().split('\n').slice(-5).join('\n') : '';
    throw new FlynnError('unavailable', `the container engine does not come up: ${messageOf(error)}\n${lines}`, {
      cause: error,
    });
  }
  return { docker: engineAt(socket), wasStarted: true };
}

/**
 * Remembered first: broken off after it was started, it would be taken for somebody else's. One that runs, or is about to, is that:
 * it is only slow to answer.
 */
export async function startEngineUnit(stateDir: string, socket: string): Promise<void> {
  if (await isUnderWay('docker')) return;
  // What an earlier one enabled was not so before.
  if ((await startedEngine(stateDir))?.unit === undefined) {
    const enabled: string[] = [];
    for (const unit of engineUnits) if (await isEnabled(unit)) enabled.push(unit);
    await remember(stateDir, { unit: 'docker', enabled, socket });
  }
  await runProgram('systemctl', ['enable', '--now', 'docker'], { timeoutMs: 90_000 });
}

/** The socket would start it again. */
const engineUnits = ['docker', 'docker.socket'];

async function isEnabled(unit: string): Promise<boolean> {
  return (await tryProgram('systemctl', ['is-enabled', '--quiet', unit], { timeoutMs: 20_000 })).code === 0;
}

async function isUnderWay(unit: string): Promise<boolean> {
  const { stdout } = await tryProgram('systemctl', ['is-active', unit], { timeoutMs: 20_000 });
  return ['active', 'activating', 'reloading'].includes(stdout.trim());
}

function startedEngine(stateDir: string): Promise<StartedEngine | undefined> {
  return readJsonFile(join(stateDir, startedEngineFile), startedEngineSchema);
}

async function remember(stateDir: string, started: StartedEngine): Promise<void> {
  await writeFileAtomic(join(stateDir, startedEngineFile), `${JSON.stringify(started)}\n`);
}

async function startDaemon(socket: string, logFile: string): Promise<number> {
  // A daemon that died leaves its pid file; a new one refuses to start if something else has that pid by now.
  await rm(daemonPidFile, { force: true });
  await mkdir(dirname(socket), { recursive: true });
  await using log = await open(logFile, 'w', 0o600);
  const daemon = spawn('dockerd', ['-H', `unix://${socket}`], {
    detached: true,
    stdio: ['ignore', log.fd, log.fd],
    cwd: '/',
  });
  await new Promise<void>((resolve, reject) => {
    daemon.once('spawn', resolve);
    daemon.once('error', reject);
  });
  daemon.unref();
  return daemon.pid ?? 0;
}

/** An engine has 15 s for its containers, and there are none left. */
const stopPatienceMs = 60_000;
const killPatienceMs = 10_000;

export type EngineStop = 'stopped' | 'killed' | 'in use' | 'silent' | 'not ours';

/** Stops the engine if `up` started it and nothing runs or is kept in it any more. `killed`: it hung, and did not end by itself. */
export async function stopStartedEngine(stateDir: string, patienceMs: number = stopPatienceMs): Promise<EngineStop> {
  const started = await startedEngine(stateDir);
  if (started === undefined) return 'not ours';
  const { pid, unit } = started;
  // What was noted may be of an engine long gone: the one that answers now is whoever's that started it.
  if (unit === undefined && (pid === undefined || !(await isDaemon(pid)))) return 'not ours';
  if (await isEngineUp(started.socket)) {
    const containers = await askEngine(started.socket, (docker) => docker.listContainers({ all: true }));
    if (containers.length > 0) return 'in use';
  } else if (unit === undefined || (await isUnderWay(unit))) {
    // Nobody knows what is in it.
    return 'silent';
  }
  if (unit !== undefined) {
    await runProgram('systemctl', ['stop', ...engineUnits], { timeoutMs: 90_000 });
    const ours = engineUnits.filter((one) => !started.enabled.includes(one));
    if (ours.length > 0) await runProgram('systemctl', ['disable', ...ours], { timeoutMs: 90_000 });
    return 'stopped';
  }
  if (pid === undefined) return 'not ours';
  return stopDaemon(pid, patienceMs);
}

/** As systemd does with a unit. */
async function stopDaemon(pid: number, patienceMs: number): Promise<'stopped' | 'killed'> {
  const hasEnded = async (): Promise<boolean> => !(await isDaemon(pid));
  process.kill(pid, 'SIGTERM');
  try {
    await waitFor(hasEnded, { what: 'the container engine to stop', deadlineMs: patienceMs });
    return 'stopped';
  } catch (error) {
    if (!hasCode(error, 'timeout')) throw error;
  }
  // It may have ended since the last look.
  if (await hasEnded()) return 'stopped';
  process.kill(pid, 'SIGKILL');
  await waitFor(hasEnded, { what: 'the container engine to end at SIGKILL', deadlineMs: killPatienceMs });
  return 'killed';
}

/** The daemon of the pid file: beside one that is slow, or still about to answer, another would take its socket from it. */
export async function daemonOf(pidFile: string): Promise<number | undefined> {
  const pid = Number(await readTextFile(pidFile));
  return pid > 1 && (await isDaemon(pid)) ? pid : undefined;
}

/** A pid may have passed on to another program. */
async function isDaemon(pid: number): Promise<boolean> {
  try {
    return (await readFile(`/proc/${pid}/comm`, 'utf8')).trim() === 'dockerd';
  } catch {
    return false;
  }
}
