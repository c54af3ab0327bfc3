/** Asks hosts what their jobs use, and routers how much they sent where: so many at a time, each with a deadline. */
import { messageOf } from '@flynn/kit/errors';
import { withDeadline } from '@flynn/kit/retry';
import { Slots } from '@flynn/kit/slots';
import { namesOf, serviceNameOf } from '../compile.ts';
import type { Deps } from '../deps.ts';
import { routerStats } from '../routes/stats.ts';
import type { RouteStats } from '../routes/stats.ts';
import type { RouterCount } from './meters.ts';
import type { Subject } from './subject.ts';

const askMs = 5_000;
const atOnce = 32;

/** Who did not tell, and why. */
export type Silent = ReadonlyMap<string, string>;

export type HostsAnswer = Readonly<{
  /** Of each job its processor time since its start, and when that was told. */
  seconds: ReadonlyMap<string, Readonly<{ atMs: number; seconds: number }>>;
  /** By the host's id. */
  silent: Silent;
}>;

export type RoutersAnswer = Readonly<{ byRouter: ReadonlyMap<string, RouterCount>; silent: Silent }>;

export class Asking {
  readonly #deps: Pick<Deps, 'hosts' | 'routers' | 'now'>;
  readonly #slots = new Slots(atOnce);

  constructor(deps: Pick<Deps, 'hosts' | 'routers' | 'now'>) {
    this.#deps = deps;
  }

  /** Each host once, whatever it runs. */
  async hosts(hostIds: Iterable<string>, signal: AbortSignal): Promise<HostsAnswer> {
    const { hosts, now } = this.#deps;
    const seconds = new Map<string, { atMs: number; seconds: number }>();
    const silent = new Map<string, string>();
    const ask = async (hostId: string): Promise<void> => {
      try {
        const uses = await hosts.usage(hostId, withDeadline(askMs, signal));
        const atMs = now();
        for (const { jobId, cpuSeconds } of uses) seconds.set(jobId, { atMs, seconds: cpuSeconds });
      } catch (error) {
        signal.throwIfAborted();
        silent.set(hostId, messageOf(error));
      }
    };
    await Promise.all([...hostIds].map((hostId) => this.#slots.run(() => ask(hostId), { signal })));
    return { seconds, silent };
  }

  /** Each router once for each app: of all routes there may be a hundred thousand. */
  async routers(subject: Subject, signal: AbortSignal): Promise<RoutersAnswer> {
    const { app } = subject;
    const isOwn = isOf(subject);
    try {
      const ask = () =>
        this.#deps.routers.ask(routerStats.all, { query: { app: app.id } }, { signal, timeoutMs: askMs });
      const { byAddress, silent } = await this.#slots.run(ask, { signal });
      if (byAddress.size + silent.length === 0) return nobody('there is none');
      return {
        byRouter: new Map([...byAddress].map(([address, routes]) => [address, countOf(routes.filter(isOwn))])),
        silent: new Map(silent.map(({ address, why }) => [`the router at ${address}`, why])),
      };
    } catch (error) {
      signal.throwIfAborted();
      return nobody(messageOf(error));
    }
  }
}

function nobody(why: string): RoutersAnswer {
  return { byRouter: new Map(), silent: new Map([['routers', why]]) };
}

/** What leads to the type: to the services that its ports are announced as. */
function isOf({ app, process, setting }: Subject): (route: RouteStats) => boolean {
  const named = process.ports.flatMap(namesOf);
  const services = new Set(named.length === 0 ? [serviceNameOf(app.spec.name, setting.spec.type)] : named);
  return ({ appId, service }) => appId === app.id && services.has(service);
}

/** What the router answered itself was nobody's work. */
function countOf(routes: readonly RouteStats[]): RouterCount {
  const sum = (of: (route: RouteStats) => number) => routes.reduce((total, route) => total + of(route), 0);
  return { ended: sum(({ requests, refusals }) => requests - refused(refusals)), active: sum(({ active }) => active) };
}

function refused(refusals: RouteStats['refusals']): number {
  return Object.values(refusals).reduce((total, count) => total + count, 0);
}
