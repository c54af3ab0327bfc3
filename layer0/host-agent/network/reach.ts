/** Which hosts does this one not reach though it should, and for how long? */
import { type Hearing, hear, isSilent } from './hearing.ts';
import type { NetworkState } from './state.ts';
import type { WireguardPeer } from './wireguard.ts';

/** Who has just joined, or is updated, has its key told within seconds. */
const patienceMs = 60_000;
const silenceMs = 5 * 60_000;

/** Times are in milliseconds of a clock that does not jump. */
export class Reach {
  #hearing: Hearing = new Map();
  #peers: readonly WireguardPeer[] = [];
  /** By host. */
  #unreachable = new Map<string, { why: string; sinceMs: number }>();

  /** Of the bytes that came through WireGuard so far, by the peer's key. Answers which peers are lost that were not. */
  hear(received: ReadonlyMap<string, number>, nowMs: number): string[] {
    const before = new Set(this.lost);
    this.#hearing = hear(this.#hearing, received, nowMs);
    return this.lost.filter((peer) => !before.has(peer)).map(({ key }) => key);
  }

  follow({ wireguard, unreachable }: Pick<NetworkState, 'wireguard' | 'unreachable'>, nowMs: number): void {
    this.#peers = (wireguard?.peers ?? []).filter(({ keepaliveSeconds }) => keepaliveSeconds > 0);
    this.#unreachable = new Map(
      unreachable.map(({ hostId, why }) => [hostId, { why, sinceMs: this.#unreachable.get(hostId)?.sinceMs ?? nowMs }]),
    );
  }

  /** Peers that should be heard, and have not been for a while. */
  get lost(): WireguardPeer[] {
    return this.#peers.filter(({ key }) => this.#hearing.get(key)?.isLost === true);
  }

  /** Whether a peer is heard that should be; undefined of others. One that was not heard yet is not. */
  isHeard(key: string, nowMs: number): boolean | undefined {
    if (!this.#peers.some((peer) => peer.key === key)) return undefined;
    const heard = this.#hearing.get(key);
    return heard !== undefined && heard.received > 0 && !isSilent(heard, nowMs);
  }

  /** For people. */
  problems(nowMs: number): string[] {
    const unreachable = [...this.#unreachable]
      .filter(([, { sinceMs }]) => nowMs - sinceMs > patienceMs)
      .map(([hostId, { why }]) => `the containers of host ${hostId} are not reached: ${why}`);
    const silent = this.#peers.filter(({ key }) => nowMs - (this.#hearing.get(key)?.atMs ?? nowMs) > silenceMs);
    return [...unreachable, ...silent.map(silenceOf)];
  }
}

function silenceOf({ hostId, endpoint }: WireguardPeer): string {
  const advice =
    endpoint === undefined
      ? 'look there whether its agent runs, and whether it may send UDP to the other hosts'
      : `look whether its agent runs, and let UDP in at ${endpoint} and its answers out`;
  return `nothing has come from host ${hostId} through WireGuard for more than 5 minutes: if it is not off, ${advice}`;
}
