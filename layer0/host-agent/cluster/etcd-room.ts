/**
 * A store that has no room left takes no writes: nothing is placed, no lease is granted. What fills it is mostly history, and
 * room that was given back inside the file only: both can go without anybody.
 */
import { pause } from '@flynn/kit/clock';
import type { Clock } from '@flynn/kit/clock';
import type { Logger } from '@flynn/kit/log';
import { withDeadline } from '@flynn/kit/retry';
import type { EtcdStatus } from '@flynn/store/etcd-status';

const lookEveryMs = 30_000;
/** Where it fills again at once it is no history: members that answer nothing for a moment would not help. */
const afterMs = 600_000;
const deadlineMs = 180_000;

export type EtcdRoom = Readonly<{
  /** Of this host's member; of no member when it has none. */
  status: (signal: AbortSignal) => Promise<EtcdStatus>;
  /** History up to now goes. Who watches from before lists anew. */
  compact: (signal: AbortSignal) => Promise<void>;
  /** Of all members, one after the other; alarms for want of room end with it. */
  defragment: (signal: AbortSignal) => Promise<void>;
}>;

type Options = { log: Logger; signal: AbortSignal };

/** Whether it is to be done here: only where the leader is, for of several at once none would gain anything. */
export function isFullHere({ members, alarms }: EtcdStatus): boolean {
  const answer = members[0]?.answer;
  const isLeader = answer !== undefined && answer.leaderId === answer.id;
  return isLeader && alarms.some(({ kind }) => kind === 'nospace');
}

/** Whether there was a need. */
export async function makeRoom(room: EtcdRoom, { log, signal }: Options): Promise<boolean> {
  const limited = withDeadline(deadlineMs, signal);
  if (!isFullHere(await room.status(limited))) return false;
  log.warn('etcd is full and takes no writes: its history and what it no longer needs are given back');
  await room.compact(limited);
  await room.defragment(limited);
  log.info('etcd takes writes again');
  return true;
}

/** Until the signal. Throws what the room does. */
export async function keepRoom(room: EtcdRoom, options: Options & { clock: Pick<Clock, 'sleep'> }): Promise<void> {
  const { signal, clock } = options;
  while (!signal.aborted) {
    const wasFull = await makeRoom(room, options);
    await pause(wasFull ? afterMs : lookEveryMs, signal, clock);
  }
}
