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
  'grpc.keepalive_time_ms': 15_000,
  'grpc.keepalive_timeout_ms': 5_000,
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': 1_000,
  // Pages and watch batches have no bound in bytes; refusing one over 4 MB would stall its reader for ever.
  'grpc.max_receive_message_length': -1,
};

export type Member = {
  readonly client: Etcd3;
  /** Aborts when calls moved on to another member: a watch there may be cut off from the cluster without knowing. */
  readonly left: AbortSignal;
};

type OwnMember = Member & { readonly leaving: AbortController };

export class EtcdMembers {
  readonly #clients: readonly Etcd3[];
  #index: number;
  #current: OwnMember;

  constructor(endpoints: readonly string[]) {
    if (endpoints.length === 0) {
      throw new FlynnError('invalid', 'no etcd endpoint was given: name at least one, such as http://127.0.0.1:2379');
    }
    this.#clients = endpoints.map(
      (hosts) =>
        new Etcd3({ hosts, grpcOptions: channelOptions, faultHandling: { global: direct, host: () => direct } }),
    );
    // Clients started together spread over the members.
    this.#index = Math.floor(Math.random() * endpoints.length);
    this.#current = this.#enter();
  }

  get current(): Member {
    return this.#current;
  }

  /** Tells that this member does not answer. Late news about one that was left already changes nothing. */
  failed(member: Member): void {
    if (member !== this.#current || this.#clients.length === 1) return;
    const { leaving } = this.#current;
    this.#index = (this.#index + 1) % this.#clients.length;
    this.#current = this.#enter();
    leaving.abort(new FlynnError('unavailable', 'this etcd member did not answer: going on with the next'));
  }

  close(): void {
    for (const client of this.#clients) client.close();
  }

  #enter(): OwnMember {
    const client = this.#clients[this.#index];
    if (client === undefined) throw new FlynnError('internal', `there is no etcd member ${this.#index}`);
    const leaving = new AbortController();
    return { client, left: leaving.signal, leaving };
  }
}
