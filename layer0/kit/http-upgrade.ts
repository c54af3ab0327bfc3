/** The client's side of an upgrade. */
import http from 'node:http';
import https from 'node:https';
import type { Duplex } from 'node:stream';
import type { ConnectionOptions } from 'node:tls';
import { json } from 'node:stream/consumers';
import { FlynnError, codeOfHttpStatus } from './errors.ts';
import { lookup } from './lookup.ts';
import { remoteError } from './sse.ts';

/** Resolves with the raw connection once the server has answered 101. When one side ends it, so does the other. */
export async function openUpgrade(
  url: URL,
  options: {
    method: string;
    headers: Record<string, string>;
    signal: AbortSignal;
    /** For https. */
    tls?: ConnectionOptions;
  },
): Promise<Duplex> {
  const { tls, ...rest } = options;
  const { promise, resolve, reject } = Promise.withResolvers<Duplex>();
  const request = (url.protocol === 'https:' ? https : http).request(url, {
    ...rest,
    ...tls,
    headers: { ...options.headers, connection: 'upgrade', upgrade: 'flynn' },
    lookup,
    agent: false,
  });
  request.once('upgrade', (_response, socket, head) => {
    // The signal covers the opening only: after it, the caller owns the connection.
    if (head.length > 0) socket.unshift(head);
    socket.setNoDelay(true).setKeepAlive(true, 30_000);
    socket.on('error', () => socket.destroy());
    resolve(socket);
  });
  request.once('response', (response) => {
    refusalOf(response).then(reject, reject);
  });
  request.once('error', reject);
  request.end();
  return promise;
}

async function refusalOf(response: http.IncomingMessage): Promise<FlynnError> {
  const status = response.statusCode ?? 500;
  // One of a stranger in between has no error of ours in it, or is cut off: its status says what there is to say.
  const body: unknown = await json(response).catch(() => undefined);
  return remoteError(body) ?? new FlynnError(codeOfHttpStatus(status), `the upgrade was answered with ${status}`);
}
