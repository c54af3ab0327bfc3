/** The other stores, as discovery knows them: one for each host, whose volume it has. */
import type { DiscoveryClient } from '@flynn/discovery/client';
import type { Instance } from '@flynn/discovery/api';
import { asPart, partUrl } from '@flynn/discovery/parts';
import { pause } from '@flynn/kit/clock';
import { HttpClient } from '@flynn/kit/http-client';
import type { LiveIdentity } from '@flynn/kit/identity';
import type { Logger } from '@flynn/kit/log';
import { messageOf } from '@flynn/kit/errors';
import type { Replication, StoreStatus } from './api.ts';
import { replicaRoutes } from './replica-api.ts';
import { remoteReplica } from './replica-client.ts';
import type { Peer } from './replicated.ts';

export const blobService = 'blobstore';
const statusMs = 2_000;

/** How often those are asked that have not said where they keep their blobs. */
const placeMs = 10_000;

type Known = Peer & { id: string; url: string; http: HttpClient; place: string | undefined };

export class Peers {
  readonly #host: string;
  readonly #key: string;
  readonly #identity: LiveIdentity | undefined;
  #known: readonly Known[] | undefined;
  /** One's own, as long as it is shared. */
  #place: string | undefined;

  /** `host` is one's own: what is announced there is this store, or the one that it takes the place of. */
  constructor(options: { host: string; key: string; identity?: LiveIdentity | undefined }) {
    this.#host = options.host;
    this.#key = options.key;
    this.#identity = options.identity;
  }

  /** Undefined until discovery has answered for the first time. Not those that keep their blobs in the same bucket. */
  get all(): readonly Peer[] | undefined {
    return this.#known?.filter(({ place }) => place === undefined || place !== this.#place);
  }

  /** Asks the others where they keep their blobs, as long as `ownPlace` says that one's own may be shared. */
  async followPlaces(ownPlace: () => string | undefined, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      this.#place = ownPlace();
      if (this.#place !== undefined)
        await Promise.all((this.#known ?? []).map((peer) => this.#learnPlace(peer, signal)));
      await pause(placeMs, signal);
    }
  }

  async #learnPlace(peer: Known, signal: AbortSignal): Promise<void> {
    if (peer.place !== undefined) return;
    try {
      peer.place = (await peer.http.call(replicaRoutes.status, {}, { signal, timeoutMs: statusMs })).place;
    } catch {
      // Until it says, it is asked for each blob as those elsewhere are: nothing is lost, and it is asked again.
    }
  }

  /** Follows discovery until the signal aborts; `onChange` is told of every store that came or went. */
  async follow(discovery: DiscoveryClient, options: { signal: AbortSignal; log: Logger; onChange: () => void }) {
    const set = await discovery.openServiceSet(blobService, options);
    const take = (instances: readonly Instance[]) => {
      if (this.set(instances)) options.onChange();
    };
    set.onChange(take);
    await set.ready;
    take(set.instances);
  }

  /** Whether that changed anything. What is under way to one that is gone ends as `unavailable`. */
  set(instances: readonly Pick<Instance, 'id' | 'address' | 'attributes'>[]): boolean {
    const before = this.#known ?? [];
    // While one takes another's place on a host, the newer one has the volume.
    const byHost = new Map(
      instances.map((one) => {
        const host = one.attributes['host'] ?? one.address;
        return [host, { host, id: one.id, url: partUrl(one, this.#identity) }];
      }),
    );
    byHost.delete(this.#host);
    // One that has the address of another may keep its blobs elsewhere.
    const isKept = ({ host, id, url }: Known) => byHost.get(host)?.url === url && byHost.get(host)?.id === id;
    const isSame = this.#known !== undefined && before.length === byHost.size && before.every(isKept);
    if (isSame) return false;
    const kept = new Map(before.filter(isKept).map((peer) => [peer.host, peer]));
    this.#known = [...byHost.values()].map((one) => kept.get(one.host) ?? this.#connect(one));
    for (const peer of before) if (!isKept(peer)) void peer.http.close();
    return true;
  }

  /** How far all stores are; one that does not answer says why. */
  async replication(own: StoreStatus, signal: AbortSignal): Promise<Replication> {
    const others = (this.#known ?? []).map(async ({ host, http }): Promise<Replication['stores'][number]> => {
      try {
        return { host, status: await http.call(replicaRoutes.status, {}, { signal, timeoutMs: statusMs }) };
      } catch (error) {
        return { host, problem: messageOf(error) };
      }
    });
    const stores = [{ host: this.#host, status: own }, ...(await Promise.all(others))];
    return { stores: stores.toSorted((a, b) => (a.host < b.host ? -1 : 1)) };
  }

  async close(): Promise<void> {
    await Promise.all((this.#known ?? []).map(({ http }) => http.close()));
  }

  #connect({ host, id, url }: Pick<Known, 'host' | 'id' | 'url'>): Known {
    const http = new HttpClient({
      baseUrl: url,
      key: this.#key,
      name: `the blob store on ${host}`,
      ...asPart(blobService, this.#identity),
    });
    return { host, id, url, http, place: undefined, replica: remoteReplica(http) };
  }
}
