/** Does this host reach the containers of the others? A firewall between drops what is forwarded, and nothing else is amiss. */
import { withDeadline } from '@flynn/kit/retry';
import { isReachable } from '../health/health.ts';
import type { Neighbour } from '../network/neighbours.ts';
import type { Found } from './finding.ts';

const timeoutMs = 1_500;
/** Of each host so many are tried: one may just have ended. */
const tried = 3;
/** In a large cluster each look is at some. */
const hostsAtOnce = 16;
const lookEveryMs = 30_000;
/** A host that goes has its containers in discovery for moments. */
const patienceMs = 60_000;

type Failing = Readonly<{ address: string; sinceMs: number }>;

export class ReachCheck {
  readonly #options: ReachOptions;
  readonly #failing = new Map<string, Failing>();
  #lookedMs = -Infinity;
  #turn = 0;

  constructor(options: ReachOptions) {
    this.#options = options;
  }

  /** Whoever asks often is told what was seen before. */
  async find(subject: string, signal: AbortSignal): Promise<Found[]> {
    const { nowMs = () => performance.now() } = this.#options;
    if (nowMs() - this.#lookedMs >= lookEveryMs) await this.#look(nowMs, signal);
    return [...this.#failing].flatMap(([hostId, { address, sinceMs }]) =>
      nowMs() - sinceMs < patienceMs ? [] : [foundOf(subject, hostId, address)],
    );
  }

  async #look(nowMs: () => number, signal: AbortSignal): Promise<void> {
    const all = this.#options.neighbours().filter(({ addresses }) => addresses.length > 0);
    const known = new Set(all.map(({ hostId }) => hostId));
    for (const hostId of this.#failing.keys()) if (!known.has(hostId)) this.#failing.delete(hostId);
    const failing = all.filter(({ hostId }) => this.#failing.has(hostId));
    const others = all.filter(({ hostId }) => !this.#failing.has(hostId));
    const from = this.#turn % Math.max(1, others.length);
    const inTurn = [...others.slice(from), ...others.slice(0, from)].slice(0, hostsAtOnce);
    this.#turn = from + inTurn.length;
    this.#lookedMs = nowMs();
    await Promise.all(
      [...failing, ...inTurn].map(async ({ hostId, addresses }) => {
        const answers = await this.#answers(addresses.slice(0, tried), signal);
        const [address = ''] = addresses;
        if (signal.aborted) return;
        if (answers) this.#failing.delete(hostId);
        else this.#failing.set(hostId, { address, sinceMs: this.#failing.get(hostId)?.sinceMs ?? nowMs() });
      }),
    );
  }

  async #answers(addresses: readonly string[], signal: AbortSignal): Promise<boolean> {
    const { reach = isReachable } = this.#options;
    const until = withDeadline(timeoutMs, signal);
    const looks = addresses.map((address) => reach({ address, port: 0 }, { timeoutMs, signal: until }));
    return (await Promise.all(looks)).includes(true);
  }
}

export type ReachOptions = Readonly<{
  /** Where containers of others are that are up, as their own hosts say. */
  neighbours: () => readonly Neighbour[];
  reach?: typeof isReachable;
  nowMs?: () => number;
}>;

function foundOf(subject: string, hostId: string, address: string): Found {
  return {
    severity: 'critical',
    subject,
    matter: `reach ${hostId}`,
    what: `it does not reach the containers of the host ${hostId}, such as ${address}, which are up there`,
    why: 'requests that come in here and are for an app there wait in vain, and so does what jobs here ask jobs there',
    remedy: `mostly a firewall of one of the two machines (firewalld, or a forward chain of nftables with "policy drop") refuses what is forwarded to containers, or one between them UDP 1115: look there with "nft list ruleset", and let it through as docs/installing.md says ("Ports and firewalls")`,
  };
}
