/** For tests: a policy over routes and backends that the test says, with a clock and dice of its own. */
import { type Route, routeSchema } from '@flynn/controller/model';
import type { Instance } from '@flynn/discovery/api';
import type { ServiceSet } from '@flynn/discovery/service-set';
import { silentLogger } from '@flynn/kit/log';
import type { z } from 'zod';
import type { Counters } from '../api.ts';
import { Backends } from '../backends.ts';
import type { Client, Ending, Exchange, RequestHead, Verdict } from '../exchange.ts';
import { AccessLog } from './access-log.ts';
import { Cookies } from './cookies.ts';
import { Networks } from './networks.ts';
import { Passwords } from './passwords.ts';
import { RouterPolicy } from './policy.ts';
import type { PolicyOptions } from './policy.ts';
import { RouteBook } from './route-book.ts';

/** mulberry32: small, and even enough for shares. */
export function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

class FakeServices {
  readonly #sets = new Map<string, { instances: Instance[]; leader: Instance | undefined; tell: () => void }>();

  openServiceSet = async (name: string): Promise<ServiceSet> => {
    const known = this.#of(name);
    return {
      get instances() {
        return known.instances;
      },
      get leader() {
        return known.leader;
      },
      onChange(listener) {
        known.tell = () => listener(known.instances);
        return () => {};
      },
      ready: Promise.resolve(),
      silentSinceMs: undefined,
    };
  };

  /** Each `address` or `address release`; the first leads. */
  set(service: string, backends: readonly string[]): void {
    const known = this.#of(service);
    known.instances = backends.map((text, index) => {
      const [address = '', release] = text.split(' ');
      const attributes: Record<string, string> = release === undefined ? {} : { 'flynn.release': release };
      return { id: address.replaceAll(':', '-'), service, address, attributes, createdRevision: index };
    });
    [known.leader] = known.instances;
    known.tell();
  }

  #of(name: string) {
    let known = this.#sets.get(name);
    if (known === undefined) {
      known = { instances: [], leader: undefined, tell: () => {} };
      this.#sets.set(name, known);
    }
    return known;
  }
}

export type Asking = {
  method?: string;
  target?: string;
  host?: string;
  body?: RequestHead['body'];
  upgrade?: string;
  fields?: Record<string, string>;
  from?: string;
  isTls?: boolean;
  client?: Client;
};

export function headOf({
  method = 'GET',
  target = '/',
  host = 'app.test',
  body = 'none',
  upgrade,
  fields = {},
}: Asking) {
  const head: RequestHead = {
    method,
    target,
    host: host.replace(/:\d+$/, ''),
    protocol: 'HTTP/1.1',
    body,
    upgrade,
    header: (name) => ({ host, ...fields })[name],
  };
  return head;
}

type WorldOptions = Partial<Omit<PolicyOptions, 'trusted'>> & {
  trusted?: string[];
  share?: number;
  format?: 'json' | 'combined';
};

export class World {
  nowMs = 1_700_000_000_000;
  /** By how much the machine's clock was set back meanwhile. */
  setBackMs = 0;
  readonly lines: string[] = [];
  readonly counters: Counters = {
    requests: 0,
    upgrades: 0,
    tcpConnections: 0,
    dialFailures: 0,
    retries: 0,
    clientsGone: 0,
    refusals: {},
  };
  readonly discovery = new FakeServices();
  readonly backends = new Backends({ discovery: this.discovery, log: silentLogger() });
  readonly routes: RouteBook;
  readonly policy: RouterPolicy;
  readonly accessLog: AccessLog;

  constructor(options: WorldOptions = {}) {
    const { trusted = [], share = 1, format = 'json', ...others } = options;
    this.routes = new RouteBook({
      backends: this.backends,
      defaults: { dialMs: 1_000, firstByteMs: 30_000, idleMs: 55_000 },
      now: () => this.nowMs,
      log: silentLogger(),
      share,
    });
    const write = (text: string) => this.lines.push(...text.trimEnd().split('\n')) > 0;
    this.accessLog = new AccessLog({ format, stream: { write, once: () => undefined } });
    let ids = 0;
    this.policy = new RouterPolicy({
      routes: this.routes,
      cookies: new Cookies('the cluster key'),
      passwords: new Passwords({ elapsed: () => this.nowMs }),
      trusted: new Networks(trusted),
      httpsPort: () => 443,
      counters: this.counters,
      accessLog: this.accessLog,
      log: silentLogger(),
      now: () => this.nowMs - this.setBackMs,
      elapsed: () => this.nowMs,
      random: seeded(1),
      newId: () => `id-${(ids += 1)}`,
      ...others,
    });
  }

  /** A route for app.test to the service `web`, changed; and its backends, told already. */
  async serve(route: Partial<z.input<typeof routeSchema>> = {}, backends: string[] = ['10.0.0.1:80']): Promise<Route> {
    const whole = routeSchema.parse({
      id: 'r',
      appId: 'a',
      type: 'http',
      domain: 'app.test',
      service: 'web',
      createdAt: '2026-01-01T00:00:00.000Z',
      ...route,
    });
    this.discovery.set(whole.service, backends);
    const others = [...this.routes.counted()].filter(({ id }) => id !== whole.id);
    this.routes.replace([...others.map(({ route }) => route), whole]);
    await this.backends.opened();
    return whole;
  }

  ask(asking: Asking = {}): Verdict {
    const { from = '192.0.2.1', isTls = false } = asking;
    const client = asking.client ?? { address: from, port: 50_000, localPort: isTls ? 443 : 80, isTls };
    return this.policy.admit(headOf(asking), client);
  }

  exchange(asking: Asking = {}): Exchange {
    const verdict = this.ask(asking);
    if ('answer' in verdict) throw new Error(`refused: ${verdict.answer.status} ${verdict.answer.code}`);
    return verdict.exchange;
  }

  /** What it is answered by a backend that always answers so; undefined for what was refused. */
  async get(asking: Asking = {}, status = 200): Promise<{ address: string; fields: readonly string[] } | undefined> {
    const verdict = this.ask(asking);
    if ('answer' in verdict) return undefined;
    const { exchange } = verdict;
    const backend = await exchange.pick();
    if (backend === undefined) throw new Error('there is no backend');
    const fields = exchange.answered(backend, status, true);
    if (!Array.isArray(fields)) throw new Error('it was answered in its place');
    exchange.release(backend);
    exchange.end(ended(status));
    return { address: backend.address, fields };
  }
}

export function ended(status: number, changes: Partial<Ending> = {}): Ending {
  return { status, bytesIn: 0, bytesOut: 0, how: 'answered', ...changes };
}

/** Name, value … as an object; of several of one name, the last. */
export function recordOf(fields: readonly string[]): Record<string, string> {
  const record: Record<string, string> = {};
  for (let i = 0; i + 1 < fields.length; i += 2) record[fields[i] ?? ''] = fields[i + 1] ?? '';
  return record;
}

/** The name and value of a cookie that is set. */
export function cookieIn(fields: readonly string[] | undefined, name: string): string | undefined {
  return fields?.find((text) => text.startsWith(`${name}=`))?.split(';', 1)[0];
}
