/** Whom is a connection from? Its peer, or whom a trusted proxy says. */
import type { Socket } from 'node:net';
import type { Client } from '../exchange.ts';
import type { Deadlines } from '../http1/deadlines.ts';
import type { Networks } from '../policy/networks.ts';
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
export function acceptProxied(trusted: Pick<Networks, 'has'>, deadlines: Deadlines): Accept {
  return (socket, isTls, take) => {
    const peer = clientOf(socket, isTls);
    if (peer === undefined) {
      socket.destroy();
      return;
    }
    if (!trusted.has(peer.address)) {
      take(peer, undefined);
      return;
    }
    lookAtFirstBytes(socket, {
      look: readProxyHeader,
      timeoutMs: headerMs,
      deadlines,
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

/** Undefined of one that is gone already. */
function clientOf({ remoteAddress, remotePort, localPort }: Socket, isTls: boolean): Client | undefined {
  if (remoteAddress === undefined || remotePort === undefined || localPort === undefined) return undefined;
  return { address: remoteAddress.replace(/^::ffff:(?=\d)/, ''), port: remotePort, localPort, isTls };
}
