/** Which member of the etcd cluster does a client talk to? One at a time, and the next as soon as it fails. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { Etcd3 } from 'etcd3';
import type { IOptions } from 'etcd3';

/** etcd3's own retries would multiply deadlines, and its circuit breaker would refuse calls for 5 s after an election. */
const direct: NonNullable<NonNullable<IOptions['faultHandling']>['global']> = {
  get _altReturn(): never {
    throw new FlynnError('internal', 'a type-level property was read');
  },
  onSuccess: () => ({ dispose: () => undefined }),
  onFailure: () => ({ dispose: () => undefined }),
  execute: async (fn, signal) => fn({ signal: signal ?? new AbortController().signal }),
};

const channelOptions = {
  // etcd takes pings more often than every 5 s for an attack ("too many pings") and hangs up.
  // Whoever only watches learns no sooner than by them that its member lost its power.
  'grpc.keepalive_time_ms': 6_000,
  'grpc.keepalive_timeout_ms': 3_000,
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': 1_000,
  // Pages and watch batches have no bound in bytes; refusing one over 4 MB would stall its reader for ever.
  'grpc.max_receive_message_length': -1,
};

/** A member without a leader says so at once and ends its watches, which would otherwise be quiet for ever. */
const withLeader = {
  callInvocationTransformer: (call: { metadata: { set(key: string, value: string): void } }) => {
    call.metadata.set('hasleader', 'true');
    return call;
  },
};

export type Member = Readonly<{ endpoint: string; client: Etcd3 }>;

export type CurrentMember = Member & {
  /** Aborts when calls moved on to another member: a watch there may be cut off from the cluster without knowing. */
  readonly left: AbortSignal;
};

/** How members are known, and how they know us: PEM. Read at each connection, so it may be a view of what is renewed. */
export type EtcdTls = Readonly<{ ca: string; certificate: string; privateKey: string }>;

type OwnMember = CurrentMember & { readonly leaving: AbortController; readonly enteredMs: number };

/** What is known of a member, of performance.now(). */
type News = { answeredMs: number; fault?: Readonly<{ isSilent: boolean; atMs: number }> };

export class EtcdMembers {
  readonly #connect: (endpoint: string) => Etcd3;
  readonly #clients = new Map<string, Etcd3>();
  readonly #news = new Map<string, News>();
  /** Ends what was left when the certificate changed. */
  readonly #retiring = new Set<() => void>();
  #endpoints: readonly string[] = [];
  #isClosed = false;
  #current: OwnMember;

  /** Without `needsLeader` a member answers what it can by itself, also one that has lost the others. */
  constructor(endpoints: readonly string[], tls?: EtcdTls, { needsLeader = true }: { needsLeader?: boolean } = {}) {
    const options = needsLeader ? { ...channelOptions, ...withLeader } : channelOptions;
    const faultHandling = { global: direct, host: () => direct };
    this.#connect = (hosts) => {
      checkScheme(hosts, tls);
      // Whoever has a certificate of the authority is a member; which address it is at says nothing more.
      const name = tls === undefined ? {} : { 'grpc.ssl_target_name_override': 'localhost' };
      const credentials = tls === undefined ? {} : { credentials: credentialsOf(tls) };
      return new Etcd3({ hosts, grpcOptions: { ...options, ...name }, faultHandling, ...credentials });
    };
    this.#take(endpoints);
    // Clients started together spread over the members.
    this.#current = this.#enter(anyOf(endpoints));
  }

  get current(): CurrentMember {
    return this.#current;
  }

  get endpoints(): readonly string[] {
    return this.#endpoints;
  }

  /** From now on these are the members. What is under way at one that stays is not disturbed. */
  set endpoints(endpoints: readonly string[]) {
    if (this.#isClosed) return;
    const gone = this.#endpoints.filter((endpoint) => !endpoints.includes(endpoint));
    this.#take(endpoints);
    if (gone.includes(this.#current.endpoint)) this.#leave(anyOf(endpoints), 'this etcd member left the cluster');
    for (const endpoint of gone) {
      this.#clients.get(endpoint)?.close();
      this.#clients.delete(endpoint);
      this.#news.delete(endpoint);
    }
  }

  /** The current one first, then the others from the most promising on: those that hang are last. */
  order(): readonly [Member, ...Member[]] {
    return [this.#current, ...this.#others().map((endpoint) => this.#memberAt(endpoint))];
  }

  answered({ endpoint }: Member): void {
    const news = this.#news.get(endpoint);
    if (news === undefined) return;
    news.answeredMs = performance.now();
    delete news.fault;
  }

  /**
   * Tells that this member failed what it was asked at `sentMs` (of performance.now()). What hung is no news of a member that
   * has answered since: it may have waited for another that leads no more. Nor is any of before calls moved there.
   */
  failed({ endpoint }: Member, error: FlynnError, sentMs: number): void {
    const news = this.#news.get(endpoint);
    if (news === undefined) return;
    const isSilent = hasCode(error, 'timeout');
    if (isSilent && news.answeredMs > sentMs) return;
    // Who hung goes on being one that hangs until it answers, also when its connection breaks in the end.
    news.fault = { isSilent: isSilent || news.fault?.isSilent === true, atMs: performance.now() };
    const { endpoint: current, enteredMs } = this.#current;
    const [next] = this.#others();
    if (endpoint !== current || sentMs < enteredMs || next === undefined) return;
    this.#leave(next, 'this etcd member did not answer: going on with the next');
  }

  /** Whether it was asked in vain, and has not answered since. */
  isHanging({ endpoint }: Member): boolean {
    return this.#news.get(endpoint)?.fault?.isSilent === true;
  }

  /** Connects anew, to be known by the certificate as it is now. Watches move there at once, calls under way have `graceMs`. */
  renew(graceMs: number): void {
    if (this.#isClosed) return;
    const old = [...this.#clients.values()];
    this.#clients.clear();
    this.#take(this.#endpoints);
    this.#leave(this.#current.endpoint, 'the certificate was renewed: connecting with the new one');
    const timer = setTimeout(() => {
      this.#retiring.delete(retire);
      for (const client of old) client.close();
    }, graceMs);
    const retire = () => {
      clearTimeout(timer);
      for (const client of old) client.close();
    };
    this.#retiring.add(retire);
  }

  /** Nothing connects any more. */
  close(): void {
    this.#isClosed = true;
    for (const client of this.#clients.values()) client.close();
    for (const retire of this.#retiring) retire();
    this.#retiring.clear();
  }

  #take(endpoints: readonly string[]): void {
    if (endpoints.length === 0) {
      throw new FlynnError('invalid', 'no etcd endpoint was given: name at least one, such as http://127.0.0.1:2379');
    }
    this.#endpoints = [...endpoints];
    for (const endpoint of endpoints) {
      if (this.#clients.has(endpoint)) continue;
      this.#clients.set(endpoint, this.#connect(endpoint));
      this.#news.set(endpoint, { answeredMs: 0 });
    }
  }

  /** From who answered last to who hangs, the fault longest ago first; else as they follow the current one. */
  #others(): string[] {
    const at = this.#endpoints.indexOf(this.#current.endpoint);
    const ring = [...this.#endpoints.slice(at + 1), ...this.#endpoints.slice(0, at)];
    const badness = (endpoint: string): [number, number] => {
      const { answeredMs = 0, fault } = this.#news.get(endpoint) ?? {};
      return fault === undefined ? [0, -answeredMs] : [fault.isSilent ? 2 : 1, fault.atMs];
    };
    return ring.toSorted((a, b) => {
      const [aKind, aMs] = badness(a);
      const [bKind, bMs] = badness(b);
      return aKind - bKind || aMs - bMs;
    });
  }

  #leave(next: string, why: string): void {
    const { leaving } = this.#current;
    this.#current = this.#enter(next);
    leaving.abort(new FlynnError('unavailable', why));
  }

  #enter(endpoint: string): OwnMember {
    const leaving = new AbortController();
    return { ...this.#memberAt(endpoint), left: leaving.signal, leaving, enteredMs: performance.now() };
  }

  #memberAt(endpoint: string): Member {
    const client = this.#clients.get(endpoint);
    if (client === undefined) throw new FlynnError('internal', `there is no etcd member ${endpoint}`);
    return { endpoint, client };
  }
}

function credentialsOf({ ca, certificate, privateKey }: EtcdTls) {
  return {
    rootCertificate: Buffer.from(ca),
    certChain: Buffer.from(certificate),
    privateKey: Buffer.from(privateKey),
  };
}

function anyOf(endpoints: readonly string[]): string {
  return endpoints[Math.floor(Math.random() * endpoints.length)] ?? '';
}

/** Neither would fail by itself before the first call's deadline, and then without saying why. */
function checkScheme(endpoint: string, tls: EtcdTls | undefined): void {
  if (endpoint.startsWith('https://') && tls === undefined) {
    throw new FlynnError(
      'invalid',
      `${endpoint} speaks TLS: give the cluster's authority and a client certificate with its key`,
    );
  }
  if (!endpoint.startsWith('https://') && tls !== undefined) {
    throw new FlynnError('invalid', `${endpoint} does not speak TLS, but there is a client certificate: say https://`);
  }
}
