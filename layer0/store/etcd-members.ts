/** Which member of the etcd cluster does a client talk to? One at a time, and the next as soon as it fails. */
import { FlynnError } from '@flynn/kit/errors';
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
  // A member without a leader says so at once and ends its watches, which would otherwise be quiet for ever.
  callInvocationTransformer: (call: { metadata: { set(key: string, value: string): void } }) => {
    call.metadata.set('hasleader', 'true');
    return call;
  },
};

export type Member = {
  readonly client: Etcd3;
  /** Aborts when calls moved on to another member: a watch there may be cut off from the cluster without knowing. */
  readonly left: AbortSignal;
};

/** How members are known, and how they know us: PEM. */
export type EtcdTls = Readonly<{ ca: string; certificate: string; privateKey: string }>;

type OwnMember = Member & { readonly leaving: AbortController };

export class EtcdMembers {
  readonly #connect: (endpoint: string) => Etcd3;
  readonly #clients = new Map<string, Etcd3>();
  #endpoints: readonly string[] = [];
  #index: number;
  #current: OwnMember;

  constructor(endpoints: readonly string[], tls?: EtcdTls) {
    const credentials =
      tls === undefined
        ? {}
        : {
            credentials: {
              rootCertificate: Buffer.from(tls.ca),
              certChain: Buffer.from(tls.certificate),
              privateKey: Buffer.from(tls.privateKey),
            },
          };
    const faultHandling = { global: direct, host: () => direct };
    this.#connect = (hosts) => {
      checkScheme(hosts, tls);
      // Whoever has a certificate of the authority is a member; which address it is at says nothing more.
      const name = tls === undefined ? {} : { 'grpc.ssl_target_name_override': 'localhost' };
      return new Etcd3({ hosts, grpcOptions: { ...channelOptions, ...name }, faultHandling, ...credentials });
    };
    this.#take(endpoints);
    // Clients started together spread over the members.
    this.#index = Math.floor(Math.random() * endpoints.length);
    this.#current = this.#enter();
  }

  get current(): Member {
    return this.#current;
  }

  get endpoints(): readonly string[] {
    return this.#endpoints;
  }

  /** From now on these are the members. What is under way at one that stays is not disturbed. */
  set endpoints(endpoints: readonly string[]) {
    const before = this.#endpoints[this.#index] ?? '';
    const gone = this.#endpoints.filter((endpoint) => !endpoints.includes(endpoint));
    this.#take(endpoints);
    const at = this.#endpoints.indexOf(before);
    if (at >= 0) this.#index = at;
    else this.#leave(Math.floor(Math.random() * endpoints.length), 'this etcd member left the cluster');
    for (const endpoint of gone) {
      this.#clients.get(endpoint)?.close();
      this.#clients.delete(endpoint);
    }
  }

  /** Tells that this member does not answer. Late news about one that was left already changes nothing. */
  failed(member: Member): void {
    if (member !== this.#current || this.#endpoints.length === 1) return;
    this.#leave((this.#index + 1) % this.#endpoints.length, 'this etcd member did not answer: going on with the next');
  }

  close(): void {
    for (const client of this.#clients.values()) client.close();
  }

  #take(endpoints: readonly string[]): void {
    if (endpoints.length === 0) {
      throw new FlynnError('invalid', 'no etcd endpoint was given: name at least one, such as http://127.0.0.1:2379');
    }
    this.#endpoints = [...endpoints];
    for (const endpoint of endpoints) {
      if (!this.#clients.has(endpoint)) this.#clients.set(endpoint, this.#connect(endpoint));
    }
  }

  #leave(nextIndex: number, why: string): void {
    const { leaving } = this.#current;
    this.#index = nextIndex;
    this.#current = this.#enter();
    leaving.abort(new FlynnError('unavailable', why));
  }

  #enter(): OwnMember {
    const client = this.#clients.get(this.#endpoints[this.#index] ?? '');
    if (client === undefined) throw new FlynnError('internal', `there is no etcd member ${this.#index}`);
    const leaving = new AbortController();
    return { client, left: leaving.signal, leaving };
  }
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
