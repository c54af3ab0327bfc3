/** One blob store among others: its copies, the others, what keeps them alike, and the API of it all. */
import { type Clock, systemClock } from '@flynn/kit/clock';
import { type Handler, handle } from '@flynn/kit/http-server';
import type { Logger } from '@flynn/kit/log';
import { routes } from './api.ts';
import type { StoreStatus } from './api.ts';
import { Comparison } from './comparison.ts';
import { Copying } from './copying.ts';
import type { Peers } from './peers.ts';
import type { Place } from './place.ts';
import { replicaRoutes } from './replica-api.ts';
import { replicaHandlers } from './replica-server.ts';
import type { OwnReplica } from './replica.ts';
import { ReplicatedStorage } from './replicated.ts';
import { Verification } from './verification.ts';

export class BlobStore {
  readonly #own: OwnReplica;
  readonly #place: Place;
  readonly #peers: Peers;
  readonly storage: ReplicatedStorage;
  readonly comparison: Comparison;
  readonly verification: Verification;
  readonly copying: Copying;

  constructor(options: { place: Place; peers: Peers; log: Logger; copyBytesPerSecond: number; clock?: Clock }) {
    const { place, peers, log, copyBytesPerSecond, clock = systemClock } = options;
    const { own } = place;
    const deps = { own, peers: () => peers.all, clock, log };
    this.#own = own;
    this.#place = place;
    this.#peers = peers;
    this.copying = new Copying(deps, { bytesPerSecond: copyBytesPerSecond });
    this.comparison = new Comparison(deps, this.copying);
    this.verification = new Verification(deps, this.copying, { readsAll: place.shared === undefined });
    this.storage = new ReplicatedStorage({
      ...deps,
      onMissing: (digest) => this.comparison.want(digest),
      onRead: (digest) => this.verification.onRead(digest),
    });
  }

  get status(): StoreStatus {
    const { completeMs: comparedAt } = this.comparison;
    const { completeMs: verifiedAt } = this.verification;
    const { moving } = this.#place;
    const left = moving?.left;
    return {
      missing: this.comparison.missing.told,
      damaged: this.verification.damaged.told,
      replaced: this.verification.replaced,
      comparedAt,
      verifiedAt,
      ...(moving === undefined || left === undefined
        ? { place: this.#place.shared }
        : { moving: { to: moving.name, left } }),
    };
  }

  /** Beside those of its storage. */
  get handlers(): Handler[] {
    return [
      ...replicaHandlers(this.#own, (digest) => this.verification.onRead(digest)),
      handle(replicaRoutes.status, async () => this.status),
      handle(routes.replication, ({ signal }) => this.#peers.replication(this.status, signal)),
    ];
  }

  onPeersChanged(): void {
    this.comparison.hurry();
    this.verification.retryDamaged();
  }

  /** Resolves when the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const moving = this.#place.moving?.run(signal);
    await Promise.all([this.comparison.run(signal), this.verification.run(signal), moving]);
  }
}
