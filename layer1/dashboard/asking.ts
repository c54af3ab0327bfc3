/** Who asks, and from which page? Decided once for each request, before anything of it is done. */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { routedAddress } from '@flynn/kit/client-address';
import { FlynnError } from '@flynn/kit/errors';
import type { Surroundings } from '@flynn/kit/http-gate';
import { appRole } from '@flynn/kit/identity';
import { peerOf } from '@flynn/kit/mutual-door';

export type Asking = Readonly<{
  /** The person's, as the router saw it. */
  address: string;
  /** As the browser has it in its address bar: `dashboard.example.com`, with the port where that is not the scheme's own. */
  host: string;
  isSecure: boolean;
}>;

/** Of one request, as far as it counts here. */
export type Seen = Readonly<{
  headers: IncomingHttpHeaders;
  remoteAddress: string;
  /** Whose certificate its connection shows. */
  peer: string | undefined;
}>;

const router = appRole('router');
/** Letters, digits, dots and dashes, or an address; a port. What else a host may be called is put into no header of ours. */
const hostPattern = /^(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]{2,45}\])(?::\d{1,5})?$/;
const localPattern = /^(?:localhost|[a-z0-9.-]+\.localhost|127\.\d+\.\d+\.\d+|\[::1\])(?::\d+)?$/;

export function seen(request: IncomingMessage): Seen {
  const { headers, socket } = request;
  return { headers, remoteAddress: socket.remoteAddress ?? '', peer: peerOf(socket) };
}

/**
 * In a cluster browsers come by way of the router alone, which knows by which names, says whom it heard from, and shows its
 * certificate; without `surroundings`, outside of a cluster, as what this machine is called. `denied` for all else.
 */
export function askingOf({ headers, remoteAddress, peer }: Seen, surroundings: Surroundings | undefined): Asking {
  const host = headers.host?.toLowerCase() ?? '';
  if (!hostPattern.test(host)) throw new FlynnError('invalid', 'the request names no host that this could be');
  if (surroundings === undefined) {
    if (!localPattern.test(host)) throw new FlynnError('denied', `this is not at ${host}`);
    return { address: remoteAddress, host, isSecure: false };
  }
  const isByRouter = peer === undefined ? !surroundings.isEverybodyKnown : peer === router;
  if (!isByRouter) throw new FlynnError('denied', 'this is for browsers, which come by way of the router');
  return { address: routedAddress(headers) ?? remoteAddress, host, isSecure: headers['x-forwarded-proto'] === 'https' };
}

/**
 * Apps of the cluster are at names beside this one, and so of the same site to a browser, which sends them our cookie: only what
 * comes from a page of ours is carried out. `isChange`: of what changes something, and of WebSockets, it has to be said.
 */
export function checkOrigin(
  { host, isSecure }: Asking,
  headers: IncomingHttpHeaders,
  { isChange }: { isChange: boolean },
): void {
  const site = headers['sec-fetch-site'];
  // `none` is who typed the address.
  const isOwnSite = site === undefined || site === 'same-origin' || (site === 'none' && !isChange);
  const { origin } = headers;
  const isOwnOrigin = origin === undefined ? !isChange : isSameOrigin(origin, { host, isSecure });
  if (isOwnSite && isOwnOrigin) return;
  throw new FlynnError('denied', `this came from another page than one of ${host}, and was not carried out`);
}

function isSameOrigin(origin: string, { host, isSecure }: Pick<Asking, 'host' | 'isSecure'>): boolean {
  const [, scheme, from] = /^(https?):\/\/([^/]+)$/.exec(origin.toLowerCase()) ?? [];
  // Something in front of the router may speak TLS in its place, and not say so; the other way round nobody does.
  return from === host && (scheme === 'https' || !isSecure);
}
