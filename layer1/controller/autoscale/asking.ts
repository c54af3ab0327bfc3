/** Asks hosts what their jobs use, and routers how much they sent where: so many at a time, each with a deadline. */
import { messageOf } from '@flynn/kit/errors';
import { withDeadline } from '@flynn/kit/retry';
import { Slots } from '@flynn/kit/slots';
import { servicesOf } from '../processes/compile.ts';
import type { Deps } from '../deps.ts';
import { routerStats } from '../routes/stats.ts';
import type { RouteStats } from '../routes/stats.ts';
import type { RouteCount, RouteCounts } from './meters.ts';
import type { Subject } from './subject.ts';

const askMs = 5_000;
const atOnce = 32;

/** Who did not tell, and why. */
export type Silent = ReadonlyMap<string, string>;

export type HostsAnswer = Readonly<{
  /** Of each job its processor time since its start, and when that was told. */
  seconds: ReadonlyMap<string, Readonly<{ atMs: number; seconds: number }>>;
  memoryBytes: ReadonlyMap<string, number>;
  /** By the host's id. */
  silent: Silent;
}>;

/** `counts`: undefined if no router answered. `isLedTo`: there is a route to the type. */
export type RoutersAnswer = Readonly<{ counts: RouteCounts | undefined; isLedTo: boolean; silent: Silent }>;

type Asked = Readonly<{
  app: Readonly<{ id: string; spec: Pick<Subject['app']['spec'], 'name'> }>;
  process: Pick<Subject['process'], 'ports'>;
  setting: Readonly<{ spec: Pick<Subject['setting']['spec'], 'type'> }>;
}>;

type AppAnswer = Readonly<{ byAddress: ReadonlyMap<string, readonly RouteStats[]> | undefined; silent: Silent }>;

/** Of one look: what is known of it is not asked again. */
export class Asking {
  readonly #deps: Pick<Deps, 'hosts' | 'routers' | 'routesByApp' | 'now'>;
  readonly #slots = new Slots(atOnce);
  readonly #apps = new Map<string, Promise<AppAnswer>>();
  /** Routers by address: one that hangs is waited for once, and not by every app. */
  readonly #silentRouters = new Map<string, string>();

  constructor(deps: Pick<Deps, 'hosts' | 'routers' | 'routesByApp' | 'now'>) {
    this.#deps = deps;
  }

  /** Each host once, whatever it runs, in this order. `until`: who has not told by then did not tell. */
  async hosts(hostIds: Iterable<string>, signal: AbortSignal, until: AbortSignal = signal): Promise<HostsAnswer> {
    const { hosts, now } = this.#deps;
    const limited = AbortSignal.any([signal, until]);
    const seconds = new Map<string, { atMs: number; seconds: number }>();
    const memory = new Map<string, number>();
    const silent = new Map<string, string>();
    const ask = async (hostId: string): Promise<void> => {
      try {
        const uses = await hosts.usage(hostId, withDeadline(askMs, limited));
        const atMs = now();
        for (const { jobId, cpuSeconds, memoryBytes } of uses) {
          seconds.set(jobId, { atMs, seconds: cpuSeconds });
          memory.set(jobId, memoryBytes);
        }
      } catch (error) {
        limited.throwIfAborted();
        silent.set(hostId, messageOf(error));
      }
    };
    const askInTurn = async (hostId: string): Promise<void> => {
      try {
        await this.#slots.run(() => ask(hostId), { signal: limited });
      } catch (error) {
        signal.throwIfAborted();
        silent.set(hostId, messageOf(error));
      }
    };
    await Promise.all(Array.from(hostIds, askInTurn));
    return { seconds, memoryBytes: memory, silent };
  }

  /** Each router once for each app: of all routes there may be a hundred thousand. */
  async routers({ app, process, setting }: Asked, signal: AbortSignal): Promise<RoutersAnswer> {
    const asked = this.#apps.get(app.id) ?? this.#askOf(app.id, signal);
    this.#apps.set(app.id, asked);
    const { byAddress, silent } = await asked;
    if (byAddress === undefined) return { counts: undefined, isLedTo: true, silent };
    const services = new Set(servicesOf(app.spec.name, setting.spec.type, process));
    const counts = countsOf(byAddress, ({ appId, service }) => appId === app.id && services.has(service));
    const hasRequests = counts.values().some(({ size }) => size > 0);
    // Routers tell of no route that had no request.
    const isLedTo = hasRequests || this.#deps.routesByApp.of(app.id).some(({ service }) => services.has(service));
    return { counts, isLedTo, silent };
  }

  async #askOf(appId: string, signal: AbortSignal): Promise<AppAnswer> {
    const known = this.#silentRouters;
    try {
      const ask = () =>
        this.#deps.routers.ask(routerStats.all, { query: { app: appId } }, { signal, timeoutMs: askMs, silent: known });
      const { byAddress, silent } = await this.#slots.run(ask, { signal });
      for (const { address, why } of silent) known.set(address, why);
      if (byAddress.size + silent.length === 0) return nobody('there is none');
      return {
        byAddress: byAddress.size === 0 ? undefined : byAddress,
        silent: new Map(silent.map(({ address, why }) => [`the router at ${address}`, why])),
      };
    } catch (error) {
      signal.throwIfAborted();
      return nobody(messageOf(error));
    }
  }
}

function nobody(why: string): AppAnswer {
  return { byAddress: undefined, silent: new Map([['routers', why]]) };
}

function countsOf(
  byAddress: ReadonlyMap<string, readonly RouteStats[]>,
  isOwn: (route: RouteStats) => boolean,
): RouteCounts {
  const countsAt = (routes: readonly RouteStats[]) =>
    new Map(routes.filter(isOwn).map((route) => [route.id, countOf(route)] as const));
  return new Map([...byAddress].map(([address, routes]) => [address, countsAt(routes)]));
}

/** By the router's code. What is nobody's work, whatever the jobs do … */
const notWork: ReadonlySet<string> = new Set([
  'rate-limited',
  'too-many-requests-at-once',
  'body-too-large',
  'http2-only',
  'client-slow',
]);
/** … and what is kept from them by people. All else is work that the jobs failed at, or were not there for. */
const keptAway: ReadonlySet<string> = new Set(['maintenance', 'busy']);

function countOf({ requests, active, refusals, sinceMs }: RouteStats): RouteCount {
  const sum = (isCounted: (code: string) => boolean) =>
    Object.entries(refusals).reduce((total, [code, count]) => total + (isCounted(code) ? count : 0), 0);
  return {
    ended: requests - sum((code) => notWork.has(code) || keptAway.has(code)),
    failed: sum((code) => !notWork.has(code)),
    active,
    sinceMs,
  };
}
