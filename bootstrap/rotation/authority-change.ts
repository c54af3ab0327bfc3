/** The authority made anew: what `up` does to the cluster for it, each part of which may be repeated. */
import { type NamedAuthorities, authoritiesKey, namedOf, readNamed } from '@flynn/host-agent/cluster/authority-rounds';
import { maxClockDifferenceMs } from '@flynn/host-agent/cluster/join';
import type { ExaminedHost } from '@flynn/host-agent/doctor/api';
import { type Clock, pause } from '@flynn/kit/clock';
import { FlynnError } from '@flynn/kit/errors';
import { identityReadMs } from '@flynn/kit/identity';
import { waitFor } from '@flynn/kit/retry';
import type { Credentials } from '@flynn/kit/tls';
import type { Store } from '@flynn/store/store';
import { withClosing, withIssuing, withNextAuthority, withoutAuthorityChange } from './authority-round.ts';
import { awayOf, hostsOf } from '../update/host-move.ts';
import { commands } from '../origin.ts';
import { beginning } from './rotation.ts';
import type { Cluster } from '../settings.ts';
import { type Report, timed } from '../steps/timed.ts';

/** Members of etcd start again one after the other, and may have 2 GiB to read each. */
const handedMs = 10 * 60_000;
/** An agent that has just started says a moment later which round it has. */
const toldMs = 20_000;

export type AuthorityWork = Readonly<{
  /** With what the cluster is by now. */
  withStore: <T>(task: (store: Store) => Promise<T>) => Promise<T>;
  /** From then on the next `up` goes on with it. */
  become: (cluster: Cluster) => Promise<void>;
  /** Brings what the controllers trust and show up to date, and waits for it. */
  deployControllers: (report: Report) => Promise<void>;
  /** What the controller shows to people, and this machine's entry of it. */
  showToPeople: () => Promise<void>;
  /** Takes away what would bring the former back. */
  forgetFormer: () => Promise<void>;
  tell: (cluster: Cluster, outcome: 'begun' | 'done') => Promise<void>;
  report: Report;
  clock: Pick<Clock, 'sleep'>;
}>;

type Facts = Readonly<{
  /** As `sickMembers` names them. */
  sick: readonly string[];
  /** As this host's agent finds them. */
  hosts: readonly Pick<ExaminedHost, 'id' | 'clockOffsetMs'>[];
  patientMs?: number;
}>;

/** Throws `conflict` or `unavailable` where it may not begin: then nothing was changed. */
export async function checkBeginning(store: Store, { sick, hosts, patientMs = toldMs }: Facts): Promise<void> {
  const refuse = (why: string): never => {
    throw new FlynnError('conflict', `${why}. Nothing was changed`);
  };
  const away = await awayOf(store);
  if (away.length > 0) {
    const are = away.length === 1 ? 'is' : 'are';
    refuse(
      `${away.join(', ')} ${are} away, and would know nobody afterwards: flynn host remove where that is for good`,
    );
  }
  if (sick.length > 0) {
    refuse(`a member of the store does not answer on ${sick.join(', ')}: flynn-host status says what is wrong`);
  }
  // All are made anew at the same time: one that is not valid yet elsewhere would cut hosts off.
  const astray = hosts.filter(({ clockOffsetMs = 0 }) => Math.abs(clockOffsetMs) > maxClockDifferenceMs);
  if (astray.length > 0) {
    const ids = astray.map(({ id }) => id).join(', ');
    refuse(
      `the clocks of this host and of ${ids} differ so much that one takes the other's new certificates for not valid yet: timedatectl set-ntp true on them`,
    );
  }
  const old = await silentAfter(store, patientMs);
  if (old.length > 0) {
    refuse(
      `${old.join(', ')}: of a version that has the same authority for its life. Bring it up to date (${commands.up} there), then make the authority anew`,
    );
  }
}

/** Those that do not say which round they have. */
async function silentAfter(store: Store, deadlineMs: number): Promise<string[]> {
  let silent: string[] = [];
  try {
    await waitFor(
      async () => {
        silent = (await hostsOf(store))
          .filter(({ authorityRound }) => authorityRound === undefined)
          .map(({ id }) => id);
        return silent.length === 0;
      },
      { what: 'hosts to say whom they trust', deadlineMs, intervalMs: 1_000 },
    );
  } catch (error) {
    if (silent.length === 0) throw error;
  }
  return silent;
}

/** Of which the store has a later round was put back on this host: it would take the cluster back to what nobody trusts. */
function refuseEarlier(cluster: Cluster, named: NamedAuthorities | undefined): void {
  const { round } = namedOf(cluster);
  if (named === undefined || named.round <= round) return;
  throw new FlynnError(
    'conflict',
    `the cluster has authorities of round ${named.round}, and cluster.json here of round ${round}: it was put back. Start the host agent again, which fetches them, then ${commands.up}`,
  );
}

/** From now on hosts take them over. */
async function announce(store: Store, cluster: Cluster): Promise<void> {
  const before = await store.get(authoritiesKey);
  const { since } = cluster.authorityChange ?? {};
  const value = JSON.stringify({ ...namedOf(cluster), ...(since === undefined ? {} : { since }) });
  if (before?.value === value) return;
  refuseEarlier(cluster, await readNamed(store));
  const { succeeded } = await store.transact({
    compare: [{ key: authoritiesKey, modRevision: before?.modRevision ?? 0 }],
    then: [{ put: authoritiesKey, value }],
  });
  if (!succeeded) throw new FlynnError('conflict', `another ${commands.up} changes the authority as well: try again`);
}

/** Until all that are there trust, show and issue what this round has, with their jobs and members of the store. */
async function untilHostsHave({ withStore, report }: AuthorityWork, cluster: Cluster): Promise<void> {
  const { round } = namedOf(cluster);
  let told = '';
  const probe = async (): Promise<boolean> => {
    const behind = (await withStore(hostsOf)).filter(({ authorityRound = -1 }) => authorityRound < round);
    if (behind.length === 0) return true;
    const what = `not yet: ${behind.map(({ id }) => id).join(', ')}`;
    if (what !== told) report(what);
    told = what;
    throw new FlynnError('unavailable', what);
  };
  const what = 'waiting until all hosts have taken it over, and the store’s members in turn';
  await timed({ what, deadlineMs: handedMs + 5_000, report }, (signal) =>
    waitFor(probe, { what: 'all hosts to have taken it over', deadlineMs: handedMs, intervalMs: 1_000, signal }),
  );
}

/** Jobs read what their hosts gave them a moment later. */
async function untilJobsHaveRead({ report, clock }: AuthorityWork): Promise<void> {
  const what = 'waiting until all parts have read whom they trust';
  const readMs = identityReadMs + 10_000;
  await timed({ what, deadlineMs: readMs + 5_000, report }, (signal) => pause(readMs, signal, clock));
}

/** Goes through all phases that are left. Broken off, the next `up` goes on. */
export async function changeAuthority(work: AuthorityWork, begun: Cluster): Promise<Cluster> {
  let cluster = begun;
  const become = async (next: Cluster): Promise<void> => {
    await work.become(next);
    cluster = next;
  };
  while (cluster.authorityChange !== undefined) {
    const { phase } = cluster.authorityChange;
    if (phase === 'opening') await work.tell(cluster, 'begun');
    await work.withStore((store) => announce(store, cluster));
    await untilHostsHave(work, cluster);
    await untilJobsHaveRead(work);
    await work.deployControllers(work.report);
    if (phase === 'opening') await become(await withIssuing(cluster));
    else {
      await work.showToPeople();
      if (phase === 'issuing') await become(withClosing(cluster));
      else {
        await work.forgetFormer();
        await work.tell(cluster, 'done');
        const done = withoutAuthorityChange(cluster);
        await work.withStore((store) => announce(store, done));
        await become(done);
      }
    }
  }
  return cluster;
}

/** With a new one begun; nothing where one is under way. */
export async function beginAuthority(work: AuthorityWork, cluster: Cluster, next: Credentials): Promise<Cluster> {
  if (cluster.authorityChange !== undefined) return cluster;
  const begun = await withNextAuthority(cluster, next, beginning());
  await work.become(begun);
  return begun;
}
