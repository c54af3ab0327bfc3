/** Programs that start others: run as the first of a process group of their own, they end together. */
import type { ChildProcess } from 'node:child_process';
import { hasErrno } from './errors.ts';

/** A script's last act, such as taking away what it had half made. */
const graceMs = 5_000;

/** Of a child that was spawned `detached`: it and all that it started. One that is gone already is fine. */
export function signalGroup(child: Pick<ChildProcess, 'pid'>, signal: 'SIGTERM' | 'SIGKILL'): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, signal);
  } catch (error) {
    if (!hasErrno(error, 'ESRCH')) throw error;
  }
}

/** TERM to all of the group, KILL to what is left of it after some seconds. Its `close` says when all is over. */
export function endGroup(child: ChildProcess): void {
  signalGroup(child, 'SIGTERM');
  const timer = setTimeout(() => signalGroup(child, 'SIGKILL'), graceMs);
  child.once('close', () => clearTimeout(timer));
}
