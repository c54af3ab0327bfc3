/** How each member of etcd is, asked one by one: a cluster that answers may have a member that does not. */
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import { raceAbort, withDeadline } from '@flynn/kit/retry';
import { EtcdMembers } from './etcd-members.ts';
import type { EtcdTls } from './etcd-members.ts';
import { translateError } from './etcd-wire.ts';

export type EtcdMemberStatus = Readonly<{
  endpoint: string;
  /** Of what it said; absent when it did not answer, and then `error` says why. */
  answer?: Readonly<{
    id: string;
    /** The same of all members of one store, and of no other. */
    storeId: string;
    version: string;
    /** Of the file, which only defragmenting makes smaller, and of what is in it. */
    sizeBytes: number;
    usedBytes: number;
    /** Undefined while it knows of none. */
    leaderId: string | undefined;
    raftIndex: number;
    isLearner: boolean;
    tookMs: number;
  }>;
  error?: string;
}>;

/**
 * `nospace`: it takes no writes for want of room; `corrupt`: its data differs from that of the others. While there is either etcd
 * takes no writes and grants no leases, of whichever member it is. The id is `0` where members differ and none is in the majority.
 */
export type EtcdAlarm = Readonly<{ memberId: string; kind: 'nospace' | 'corrupt' }>;

export type EtcdStatus = Readonly<{ members: readonly EtcdMemberStatus[]; alarms: readonly EtcdAlarm[] }>;

type Options = { endpoints: readonly string[]; tls?: EtcdTls; signal: AbortSignal };

/** Never throws for members that do not answer: at the signal they are told as such. */
export async function etcdStatus(options: Options): Promise<EtcdStatus> {
  const asked = await Promise.all(options.endpoints.map((endpoint) => askMember(endpoint, options)));
  const alarms = new Map(asked.flatMap(({ alarms: own }) => own).map((one) => [`${one.memberId} ${one.kind}`, one]));
  return { members: asked.map(({ status }) => status), alarms: [...alarms.values()] };
}

async function askMember(
  endpoint: string,
  { tls, signal }: Options,
): Promise<{ status: EtcdMemberStatus; alarms: readonly EtcdAlarm[] }> {
  // One that has lost the others is there all the same, and is to say so.
  const members = new EtcdMembers([endpoint], tls, { needsLeader: false });
  const { maintenance } = members.current.client;
  const startedMs = performance.now();
  try {
    const said = await raceAbort(maintenance.status(), signal);
    const tookMs = performance.now() - startedMs;
    const answer = {
      id: said.header.member_id,
      storeId: said.header.cluster_id,
      version: said.version,
      sizeBytes: Number(said.dbSize),
      usedBytes: Number(said.dbSizeInUse),
      leaderId: said.leader === '0' ? undefined : said.leader,
      raftIndex: Number(said.raftIndex),
      isLearner: said.isLearner,
      tookMs,
    };
    return { status: { endpoint, answer }, alarms: said.errors.flatMap(alarmOf) };
  } catch (error) {
    const why = signal.aborted ? 'it did not answer in time' : messageOf(translateError(error, `asking ${endpoint}`));
    return { status: { endpoint, error: why }, alarms: [] };
  } finally {
    members.close();
  }
}

/** A member tells of them as text in its status; asking for them outright would need a majority. */
function alarmOf(text: string): EtcdAlarm[] {
  // What is 0 is left out.
  const [, memberId = '0', kind = ''] = /(?:memberID:(\d+) )?alarm:(NOSPACE|CORRUPT)/.exec(text) ?? [];
  if (kind === 'NOSPACE') return [{ memberId, kind: 'nospace' }];
  return kind === 'CORRUPT' ? [{ memberId, kind: 'corrupt' }] : [];
}

/** A file of 2 GiB takes half a minute; on a slow disk four times that. */
const memberDeadlineMs = 120_000;
const askMs = 5_000;

type Defragmented = { disarmed: number; failures: readonly string[] };

/**
 * Gives the room of what was deleted back, one member after the other: each carries out nothing meanwhile, for some 15 s per GB
 * that is in use. While the leader does, no lease is renewed: so it is the last, and another leads by then; where no other can, it
 * keeps its room unless it is full, or alone. Afterwards members that had no room take writes again, if there is some now. One that
 * is away is in the way of none of it: it is among the `failures`, for people. One that does not come to an end is the last. Throws
 * where none gave room back.
 */
export async function defragmentEtcd(
  options: Options & { onMember: (endpoint: string) => void },
): Promise<Defragmented> {
  const done: EtcdMemberStatus[] = [];
  const failures: string[] = [];
  const waiting = new Set(options.endpoints);
  while (waiting.size > 0) {
    const next = await nextOf(waiting, options, failures);
    if (next === undefined) break;
    const { endpoint } = next;
    waiting.delete(endpoint);
    options.onMember(endpoint);
    try {
      if (leads(next)) await handOver(next, done, options);
      await onMember(endpoint, options, 'defragmenting', ({ maintenance }) => maintenance.defragment());
      done.push(next);
    } catch (error) {
      options.signal.throwIfAborted();
      failures.push(messageOf(error));
      // It may be at it still: another beside it would leave no majority.
      if (hasCode(error, 'timeout')) break;
    }
  }
  const [first] = done;
  if (first === undefined) throw new FlynnError('unavailable', failures.join('; '));
  const { alarms } = await etcdStatus({ ...options, endpoints: done.map(({ endpoint }) => endpoint) });
  const full = alarms.filter(({ kind }) => kind === 'nospace');
  for (const alarm of full) await endAlarm(first.endpoint, alarm, options);
  return { disarmed: full.length, failures };
}

/** One that does not lead by now, if there is one. Those that do not answer are let go, and told. */
async function nextOf(
  waiting: Set<string>,
  options: Options,
  failures: string[],
): Promise<EtcdMemberStatus | undefined> {
  const { members } = await etcdStatus({
    ...options,
    endpoints: [...waiting],
    signal: withDeadline(askMs, options.signal),
  });
  options.signal.throwIfAborted();
  for (const { endpoint, error } of members) {
    if (error === undefined) continue;
    failures.push(`${endpoint}: ${error}`);
    waiting.delete(endpoint);
  }
  const answering = members.filter(({ answer }) => answer !== undefined);
  return answering.find((member) => !leads(member)) ?? answering[0];
}

export function leads({ answer }: EtcdMemberStatus): boolean {
  return answer !== undefined && answer.leaderId === answer.id;
}

/** To one of those that have stood still already. One that is alone goes on leading. */
async function handOver(leader: EtcdMemberStatus, done: readonly EtcdMemberStatus[], options: Options): Promise<void> {
  if (options.endpoints.length === 1) return;
  const next = done.find(({ answer }) => answer?.isLearner === false)?.answer;
  if (next !== undefined) {
    await onMember(leader.endpoint, options, 'having another member lead than', ({ maintenance }) =>
      maintenance.moveLeader({ targetID: next.id }),
    );
    return;
  }
  const { alarms } = await etcdStatus({ ...options, endpoints: [leader.endpoint] });
  if (alarms.some(({ kind }) => kind === 'nospace')) return;
  throw new FlynnError(
    'unavailable',
    `${leader.endpoint} leads, and no other member could give its room back and lead meanwhile: it keeps its room until one can`,
  );
}

/** By that member, whichever it is about; etcd needs its majority for it. One that is not there any more is fine. */
export async function endAlarm(
  endpoint: string,
  { memberId, kind }: EtcdAlarm,
  options: Omit<Options, 'endpoints'>,
): Promise<void> {
  await onMember(endpoint, options, 'ending the alarm', ({ maintenance }) =>
    maintenance.alarm({ action: 'Deactivate', alarm: kind === 'nospace' ? 'Nospace' : 'Corrupt', memberID: memberId }),
  );
}

async function onMember<T>(
  endpoint: string,
  { tls, signal }: Omit<Options, 'endpoints'>,
  what: string,
  work: (client: EtcdMembers['current']['client']) => Promise<T>,
): Promise<T> {
  const members = new EtcdMembers([endpoint], tls);
  const limited = withDeadline(memberDeadlineMs, signal);
  try {
    return await raceAbort(work(members.current.client), limited);
  } catch (error) {
    throw translateError(error, `${what} ${endpoint}`);
  } finally {
    members.close();
  }
}
