/** Whom is a connection from? Its peer, or whom a trusted proxy says. */
import { BlockList, isIP } from 'node:net';
import type { Socket } from 'node:net';
import { FlynnError } from '@flynn/kit/errors';
import type { Client } from '../exchange.ts';
import { lookAtFirstBytes } from '../tls/first-bytes.ts';
import { readProxyHeader } from './header.ts';

/** A proxy says it at once. */
const headerMs = 5_000;

export type Accept = (
  socket: Socket,
  isTls: boolean,
  /** Not called for a connection that is gone, or that a trusted proxy sent without a sound header. */
  take: (client: Client, early: Buffer | undefined) => void,
) => void;

/** Everybody speaks for themselves. */
export const acceptPlain: Accept = (socket, isTls, take) => {
  const client = clientOf(socket, isTls);
  if (client === undefined) socket.destroy();
  else take(client, undefined);
};

/** Connections of those at these addresses or networks begin with a header; of others nothing is believed. */
export function acceptProxied(trusted: BlockList): Accept {
  return (socket, isTls, take) => {
    const peer = clientOf(socket, isTls);
    if (peer === undefined) {
      socket.destroy();
      return;
    }
    if (!trusted.check(peer.address, isIP(peer.address) === 6 ? 'ipv6' : 'ipv4')) {
      take(peer, undefined);
      return;
    }
    lookAtFirstBytes(socket, {
      look: readProxyHeader,
      timeoutMs: headerMs,
      done(header, bytes) {
        if (header === 'none') {
          socket.destroy();
          return;
        }
        const { source } = header.ends ?? { source: peer };
        const rest = bytes.subarray(header.length);
        take({ ...peer, address: source.address, port: source.port }, rest.length > 0 ? rest : undefined);
      },
    });
  };
}

/** Addresses and networks with commas between them: `10.0.0.0/8, 2001:db8::1`. Throws `invalid` for what is neither. */
export function parseNetworks(text: string): BlockList {
  const networks = new BlockList();
  for (const part of text.split(',').map((one) => one.trim())) {
    if (part === '') continue;
    const [address = '', bits, ...more] = part.split('/');
    const version = isIP(address);
    const most = version === 6 ? 128 : 32;
    const isSound = bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= most);
    if (version === 0 || !isSound || more.length > 0) {
      throw new FlynnError('invalid', `"${part}" is no address or network: write 192.0.2.7 or 10.0.0.0/8`);
    }
    networks.addSubnet(address, bits === undefined ? most : Number(bits), version === 6 ? 'ipv6' : 'ipv4');
  }
  return networks;
}

/** Undefined of one that is gone already. */
function clientOf({ remoteAddress, remotePort, localPort }: Socket, isTls: boolean): Client | undefined {
  if (remoteAddress === undefined || remotePort === undefined || localPort === undefined) return undefined;
  return { address: remoteAddress.replace(/^::ffff:(?=\d)/, ''), port: remotePort, localPort, isTls };
}
