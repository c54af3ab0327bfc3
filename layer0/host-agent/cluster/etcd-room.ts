/**
 * A store that has no room left takes no writes: nothing is placed, no lease is granted. What fills it is mostly history, and
 * room that was given back inside the file only: both can go without anybody.
 */
import { pause } from '@flynn/kit/clock';
import type { Clock } from '@flynn/kit/clock';
import type { Logger } from '@flynn/kit/log';
import { withDeadline } from '@flynn/kit/retry';
import { leads } from '@flynn/store/etcd-status';
import type { EtcdStatus } from '@flynn/store/etcd-status';
import type { Revision } from '@flynn/store/store';

const lookEveryMs = 30_000;
/** Where it fills again at once it is no history: members that answer nothing for a moment would not help. */
const afterMs = 600_000;
const deadlineMs = 600_000;
/** Of its quota: beyond it one does not wait until nothing can be written any more. */
const nearShare = 0.8;
/** Of the file: with less to be had, members need not stand still for it. */
const looseShare = 0.2;
/** What is watched is a moment behind what is written: history of before this goes, and nobody who watches has to begin anew. */
const behindMs = 5_000;
/** Compacting is done a while after it was answered. */
const compactionMs = 20_000;

export type EtcdRoom = Readonly<{
  /** Of this host's member, and of the others where it leads; of no member when it has none. */
  status: (signal: AbortSignal) => Promise<EtcdStatus>;
  /** How large its file may get. */
  quotaBytes: () => Promise<number>;
  /** The present. */
  revision: (signal: AbortSignal) => Promise<Revision>;
  /** History up to there goes. Who watches from before lists anew. */
  compact: (revision: Revision, signal: AbortSignal) => Promise<void>;
  /** How many the cluster has. */
  hosts: (signal: AbortSignal) => Promise<number>;
  /** Of all members, one after the other; alarms for want of room end with it. `failures`: of those that are away. */
  defragment: (signal: AbortSignal) => Promise<{ failures: readonly string[] }>;
}>;

type Options = { log: Logger; signal: AbortSignal; clock: Pick<Clock, 'sleep'> };

type Need = 'full' | 'near';

/**
 * What is to be done here: only where the leader is, for of several at once none would gain anything. Their files are not of one
 * size, and it takes one that is full for none to take writes.
 */
export function needOf(status: EtcdStatus, quotaBytes: number): Need | undefined {
  const [own] = status.members;
  return own !== undefined && leads(own) ? wantOf(status, quotaBytes) : undefined;
}

function wantOf({ members, alarms }: EtcdStatus, quotaBytes: number): Need | undefined {
  if (alarms.some(({ kind }) => kind === 'nospace')) return 'full';
  return members.some(({ answer }) => (answer?.sizeBytes ?? 0) >= quotaBytes * nearShare) ? 'near' : undefined;
}

/** There is room to be had of one of them. */
function isLoose({ members }: EtcdStatus): boolean {
  return members.some(({ answer: { sizeBytes, usedBytes } = { sizeBytes: 0, usedBytes: 0 } }) => {
    return sizeBytes > 0 && sizeBytes - usedBytes >= sizeBytes * looseShare;
  });
}

/** What there was need of, if it is one of those that something is done about now. */
export async function makeRoom(
  room: EtcdRoom,
  { log, signal, clock, needs = ['full', 'near'] }: Options & { needs?: readonly Need[] },
): Promise<Need | undefined> {
  const limited = withDeadline(deadlineMs, signal);
  const before = await room.status(limited);
  const need = needOf(before, await room.quotaBytes());
  if (need === undefined || !needs.includes(need)) return undefined;
  if (need === 'full') {
    log.warn('etcd is full and takes no writes: its history and what it no longer needs are given back');
    await dropHistory(room, limited, clock);
    await giveBack(room, limited, log);
    // By then another member may lead.
    if (wantOf(await room.status(limited), await room.quotaBytes()) !== undefined) {
      // Of much history the last is dropped a while after the answer: it fills the room again that was given back too early.
      await pause(compactionMs, limited, clock);
      await giveBack(room, limited, log);
    }
    log.info('etcd takes writes again');
    return need;
  }
  // Where one member is all hosts' it keeps its room: its file grows no more until that is used up.
  const keepsRoom = before.members.length === 1 && (await room.hosts(limited)) > 1;
  if (keepsRoom && isLoose(before)) return need;
  log.warn('etcd is nearly full: its history goes before it takes no more writes');
  await dropHistory(room, limited, clock);
  await pause(compactionMs, limited, clock);
  if (!isLoose(await room.status(limited))) {
    log.warn('etcd is nearly full of what is in use: flynn-host doctor tells what to do');
  } else if (keepsRoom) {
    log.warn(
      'etcd has room inside its file again, which "flynn-host etcd defragment" gives back: it has but one member, so all hosts would lose their leases meanwhile, and stop jobs with volumes for a moment',
    );
  } else {
    await giveBack(room, limited, log);
    log.info('etcd gave the room of its history back');
  }
  return need;
}

async function giveBack(room: EtcdRoom, signal: AbortSignal, log: Logger): Promise<void> {
  const { failures } = await room.defragment(signal);
  if (failures.length > 0) log.warn({ failures }, 'not all members of etcd gave room back');
}

async function dropHistory(room: EtcdRoom, signal: AbortSignal, clock: Pick<Clock, 'sleep'>): Promise<void> {
  const revision = await room.revision(signal);
  await pause(behindMs, signal, clock);
  await room.compact(revision, signal);
}

/** Until the signal. Throws what the room does. */
export async function keepRoom(room: EtcdRoom, options: Options): Promise<void> {
  const { signal, clock } = options;
  // A store that fills up after all is not left alone for what was done before it was full.
  let nearAgainMs = 0;
  while (!signal.aborted) {
    const need = await makeRoom(room, { ...options, needs: nearAgainMs > 0 ? ['full'] : ['full', 'near'] });
    const restMs = need === 'full' ? afterMs : lookEveryMs;
    nearAgainMs = (need === 'near' ? afterMs : nearAgainMs) - restMs;
    await pause(restMs, signal, clock);
  }
}
