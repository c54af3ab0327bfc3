/**
 * Has the cluster another store by now, of which this host's member is none? Then it was made anew while this host was away
 * (`recovery.ts`), and two such members together would go on as the store they were, beside it.
 *
 * Asked before the member is started: until each of the others' machines has said something, if only that no store answers there,
 * as after a power cut of all, and all are to come back. One that says nothing is off, or the way there is not up yet: that is
 * waited for, but not for long. So is a store that is not up yet there, where it may have been made anew: it takes a person to do
 * that, and a host that was away for less than a minute need not think of it.
 *
 * Of who has a store it is asked as well whether another machine lives as this host: one was made of a copy of the other's disk,
 * and two members of one id, with different data, would break what etcd promised. Where it did, that no store answers is no reason
 * to start until what it may have left is gone; and where it was certain, none is.
 */
import { pause } from '@flynn/kit/clock';
import { messageOf } from '@flynn/kit/errors';
import { readJsonFile } from '@flynn/kit/files';
import type { Logger } from '@flynn/kit/log';
import { silentLogger } from '@flynn/kit/log';
import { withDeadline } from '@flynn/kit/retry';
import { connectEtcd } from '@flynn/store/etcd';
import type { EtcdTls } from '@flynn/store/etcd-members';
import type { Entry, Store } from '@flynn/store/store';
import { cellKeys } from '@flynn/scheduler/cell';
import { z } from 'zod';
import type { Config } from '../config.ts';
import { ownAddresses } from '../hosts/own-addresses.ts';
import type { OwnRuns } from '../fencing/own-runs.ts';
import type { Rivals } from '../fencing/rivals.ts';
import { connectFailure } from './connect-failure.ts';
import { clientUrlOf, etcdVolume, residentFile } from './etcd-resident.ts';
import { memberPrefix, memberSchema } from './member-keys.ts';
import type { Member } from './member-keys.ts';
import { knownEndpoints } from './membership.ts';
import { readTls } from './start.ts';

const askMs = 1_500;
const askAgainMs = 500;
/** Within it a switch has a machine's port up, and its neighbours know where it is. */
const usualPatienceMs = 15_000;
/** Hosts that all begin together have their stores up within it of each other. */
const storePatienceMs = 10_000;
/** The others have to be away for a while before they are given up, and then it is typed, and done. */
const leastAbsenceMs = 60_000;

const volumesSchema = z.object({
  template: z.object({ volumes: z.array(z.object({ name: z.string() })).default([]) }),
});

/** By host, as a store has them. `volumes`: what this host's member runs with. */
export function isLeftBehind(
  members: ReadonlyMap<string, Member>,
  hostId: string,
  volumes: readonly string[],
): boolean {
  // One that has none at all was never told who they are.
  if (members.size === 0) return false;
  const own = members.get(hostId);
  if (own === undefined) return true;
  // It is to become another one. What a voter's key says of its data may be of before.
  return own.state === 'joining' && !volumes.includes(etcdVolume(own.memberId));
}

/**
 * What another member's machine says: what `isLeftBehind` makes of its store, that another machine lives as this host, that no
 * store answers there, or nothing at all.
 */
export type Word = 'left behind' | 'taken' | 'a member' | 'no store' | 'silence';

/**
 * Pure. While one says nothing it may be the way there that is not up yet, as at a boot, and where no store answers it may be one
 * that is not: then it is asked again, for as long as there is patience for that. Where none says anything there is no majority
 * to be missed meanwhile. `wasTaken`: it was, a moment ago, and only who has a store can say that it is no more.
 */
export function verdictOf(
  words: readonly Word[],
  patience: Readonly<{ withSilence: boolean; withStores: boolean; wasTaken: boolean }>,
): 'start' | 'left behind' | 'taken' | 'ask again' {
  if (words.includes('left behind')) return 'left behind';
  if (words.includes('taken')) return 'taken';
  if (words.includes('a member')) return 'start';
  if (patience.wasTaken) return 'taken';
  const isAwaited =
    (patience.withSilence && words.includes('silence')) || (patience.withStores && words.includes('no store'));
  return isAwaited ? 'ask again' : 'start';
}

/**
 * Pure. For how long a host waits for stores that are not up yet. One that has the store alone, as after a recovery, is who the
 * others wait for.
 */
export function storePatienceOf({ absenceMs, isAlone }: { absenceMs: number; isAlone: boolean }): number {
  return isAlone || absenceMs < leastAbsenceMs ? 0 : storePatienceMs;
}

export type AskOptions = Readonly<{
  runs: Pick<OwnRuns, 'elsewhere'>;
  rivals: Pick<Rivals, 'before' | 'seen' | 'wasMetLately'>;
  log: Pick<Logger, 'warn'>;
  signal: AbortSignal;
  /** For how long this host had no agent before this one. */
  absenceMs: number;
  patienceMs?: number;
  addresses?: () => Promise<ReadonlySet<string>>;
}>;

/**
 * `start` where nobody answers, and whatever else is wrong: a member that is not started may be missing for the majority. `aside`
 * where another machine was this host for certain: nobody is asked then, and people have to say that this one is.
 */
export async function mayMemberStart(
  config: Config,
  { runs, rivals, log, signal, absenceMs, patienceMs = usualPatienceMs, addresses = ownAddresses }: AskOptions,
): Promise<'start' | 'left behind' | 'taken' | 'aside'> {
  const { FLYNN_STATE_DIR: stateDir, FLYNN_ADDRESS: address, FLYNN_HOST_ID: hostId } = config;
  try {
    if ((await rivals.before(await addresses())) !== undefined) return 'aside';
    const tls = await readTls(config);
    const endpoints = await knownEndpoints(stateDir, config.FLYNN_ETCD_ENDPOINTS);
    const own = clientUrlOf(address);
    const volumes = (await readJsonFile(residentFile(stateDir), volumesSchema))?.template.volumes ?? [];
    const names = volumes.map(({ name }) => name);
    const isAlone = (await knownEndpoints(stateDir, [])).join() === own;
    const beganMs = performance.now();
    const storesMs = storePatienceOf({ absenceMs, isAlone });
    for (;;) {
      const limited = withDeadline(askMs, signal);
      const here = await addresses();
      // On a copy of this host's disk its address is not this machine's, and who answers there is another.
      const others = endpoints.filter((endpoint) => endpoint !== own || !here.has(address));
      const asked: Asked = {
        isLeftBehind: (members) => isLeftBehind(members, hostId, names),
        async isTaken(record) {
          const rival = runs.elsewhere(record, here);
          if (rival !== undefined) await rivals.seen(rival, here);
          return rival !== undefined;
        },
      };
      const asking = { tls, hostId, asked, signal: limited };
      const said = await Promise.all(others.map((endpoint) => askOther(endpoint, asking)));
      const words = said.map(({ word }) => word);
      signal.throwIfAborted();
      const tookMs = performance.now() - beganMs;
      const verdict = verdictOf(words, {
        withSilence: tookMs < patienceMs,
        withStores: tookMs < storesMs,
        wasTaken: rivals.wasMetLately(),
      });
      if (verdict !== 'ask again') {
        const unheard = said.flatMap(({ endpoint, why }) => (why === undefined ? [] : `${endpoint}: ${why}`));
        if (unheard.length > 0) log.warn({ unheard, verdict }, 'other hosts did not say what store they have');
        return verdict;
      }
      await pause(askAgainMs, signal);
    }
  } catch (error) {
    signal.throwIfAborted();
    log.warn(`the other hosts could not be asked of the store they have: ${messageOf(error)}`);
    return rivals.wasMetLately() ? 'taken' : 'start';
  }
}

/** What a store is asked: of whom it has as members, and of the record of this host. */
type Asked = Readonly<{
  isLeftBehind: (members: ReadonlyMap<string, Member>) => boolean;
  isTaken: (record: Entry | undefined) => Promise<boolean>;
}>;

type Asking = Readonly<{ tls: EtcdTls | undefined; hostId: string; asked: Asked; signal: AbortSignal }>;

/** `why`: what came in the place of its word, of a store that is off, not up yet, or that does not trust this host. */
async function askOther(
  endpoint: string,
  { tls, hostId, asked, signal }: Asking,
): Promise<Readonly<{ endpoint: string; word: Word; why?: string }>> {
  const { hostname, port } = new URL(endpoint);
  const ask = async (): Promise<{ word: Word }> => {
    const access = { endpoints: [endpoint], timeoutMs: askMs, log: silentLogger() };
    await using store = connectEtcd({ ...access, ...(tls === undefined ? {} : { tls }) });
    return { word: await wordOf(store, hostId, asked, signal) };
  };
  const [answer, isThere] = await Promise.all([
    ask().catch(messageOf),
    isMachineThere({ address: hostname, port: Number(port) }, signal),
  ]);
  if (typeof answer === 'string') return { endpoint, word: isThere ? 'no store' : 'silence', why: answer };
  return { endpoint, ...answer };
}

/** That nothing listens there it says itself; of a machine that is off, or a way that is not up, nobody says anything. */
async function isMachineThere(place: { address: string; port: number }, signal: AbortSignal): Promise<boolean> {
  const failure = await connectFailure(place, signal).catch(() => 'no answer');
  return failure === undefined || failure.includes('ECONNREFUSED');
}

/** As a majority has it, or not at all. Both are read at once, and of a slow store the members alone tell who was left behind. */
export async function wordOf(
  store: Pick<Store, 'get' | 'list'>,
  hostId: string,
  { isLeftBehind, isTaken }: Asked,
  signal: AbortSignal,
): Promise<Word> {
  const record = store.get(cellKeys.host(hostId), { signal });
  // It is waited for only where the members are there.
  record.catch(() => undefined);
  const { entries } = await store.list(memberPrefix, { signal });
  const members = new Map(
    entries.map(({ key, value }) => [key.slice(memberPrefix.length), memberSchema.parse(JSON.parse(value))]),
  );
  if (isLeftBehind(members)) return 'left behind';
  return (await isTaken(await record)) ? 'taken' : 'a member';
}
