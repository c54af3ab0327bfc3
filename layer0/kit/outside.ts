/** Whether an address lies outside the cluster: for connections to addresses that somebody without a say in the cluster chose. */
import type { LookupAddress, LookupOptions } from 'node:dns';
import { lookup as systemLookup } from 'node:dns';
import { once } from 'node:events';
import { BlockList, isIP } from 'node:net';
import type { Socket } from 'node:net';
import { FlynnError } from './errors.ts';

/**
 * Oneself, one's link (where clouds tell their machines secrets), carrier space (where clusters have their containers),
 * everybody at once.
 */
const neverOutside = [
  ['0.0.0.0', 8, 'ipv4'],
  ['127.0.0.0', 8, 'ipv4'],
  ['169.254.0.0', 16, 'ipv4'],
  ['100.64.0.0', 10, 'ipv4'],
  ['224.0.0.0', 3, 'ipv4'],
  ['::', 127, 'ipv6'],
  ['fe80::', 10, 'ipv6'],
  ['ff00::', 8, 'ipv6'],
] as const;

/** What even who may lead into the cluster does not mean: one's link, and oneself by a name, which others may change. */
const neverMeant = neverOutside.filter(([network]) => network === '169.254.0.0' || network === 'fe80::');
const neverNamed = neverOutside.filter(([network]) => network !== '100.64.0.0');

type Never = readonly (typeof neverOutside)[number][];
type Answer = (error: NodeJS.ErrnoException | null, address: string | LookupAddress[], family?: number) => void;

/** Judged by the addresses a name has when it is connected to: a name that changes its mind changes nothing. */
export class Outside {
  readonly #never: Never;
  #closed: BlockList;

  constructor(never: Never = neverOutside) {
    this.#never = never;
    this.#closed = blockListOf(never, []);
  }

  /** For a host that an admin of the cluster chose, inside or outside. */
  static chosen(host: string): Outside {
    return new Outside(isIP(host) === 0 ? neverNamed : neverMeant);
  }

  /** The cluster's own hosts and subnets, as `192.0.2.7` and `100.100.3.0/24`. */
  setInside(networks: readonly string[]): void {
    this.#closed = blockListOf(this.#never, networks);
  }

  has(address: string): boolean {
    const family = isIP(address);
    return family !== 0 && !this.#closed.check(address, family === 4 ? 'ipv4' : 'ipv6');
  }

  /** Of a host as an address or a name; names are left to `lookup`. Throws `denied`. */
  check(host: string): void {
    if (isIP(host) !== 0 && !this.has(host)) throw insideError(host);
  }

  /** Connections to what has come to be inside, as a host that joined is. Resolves when they are closed. */
  async closeInside(sockets: readonly Socket[]): Promise<void> {
    const inside = sockets.filter(({ remoteAddress }) => remoteAddress !== undefined && !this.has(remoteAddress));
    await Promise.all(
      inside.map(async (socket) => {
        const closed = once(socket, 'close');
        socket.destroy();
        await closed;
      }),
    );
  }

  /** As `node:net` wants it: finds only addresses outside. */
  readonly lookup = (hostname: string, options: LookupOptions, answer: Answer): void => {
    systemLookup(hostname, { ...options, all: true }, (error, found) => {
      const outside = found?.filter(({ address }) => this.has(address)) ?? [];
      const [first] = outside;
      if (error !== null) answer(error, []);
      else if (first === undefined) answer(insideError(hostname), []);
      else if (options.all === true) answer(null, outside);
      else answer(null, first.address, first.family);
    });
  };
}

function insideError(host: string): FlynnError {
  return new FlynnError('denied', `${host} is inside the cluster, where only its admins may lead anything`);
}

function blockListOf(never: Never, networks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const [network, prefix, family] of never) list.addSubnet(network, prefix, family);
  for (const network of networks) {
    const [address = '', prefix] = network.split('/');
    const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
    if (isIP(address) === 0) continue;
    list.addSubnet(address, prefix === undefined ? (family === 'ipv4' ? 32 : 128) : Number(prefix), family);
  }
  return list;
}
