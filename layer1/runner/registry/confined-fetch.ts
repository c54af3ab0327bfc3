/**
 * Fetches from a registry in whatever network the runner is in, and lets that registry lead it to no other place there: where a
 * redirect or a realm leads to another host, that has an address of the outside world.
 */
import { once } from 'node:events';
import { IncomingMessage, request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { Readable } from 'node:stream';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { Outside } from '@flynn/kit/outside';

export type Fetch = (
  url: URL,
  options: { headers: Readonly<Record<string, string>>; signal: AbortSignal },
) => Promise<Response>;

const redirects: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
const withoutBody: ReadonlySet<number> = new Set([204, 205, 304]);
const mostRedirects = 10;

const outside = new Outside();
outside.setInside(['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7']);

/** Answers as `fetch` does, with `denied` for what it does not follow, `invalid` for a redirect that leads nowhere. */
export function confinedTo(registry: string): Fetch {
  const ownHost = new URL(`http://${registry}`).hostname;
  return async (url, { headers, signal }) => {
    const { authorization: _known, ...unknown } = headers;
    let place = url;
    for (let followed = 0; followed <= mostRedirects; followed += 1) {
      // What the runner is known by stays where it was sent.
      const sent = place.origin === url.origin ? headers : unknown;
      const response = await ask(place, ownHost, sent, signal);
      const location = response.headers.get('location');
      if (!redirects.has(response.status) || location === null) return response;
      await response.body?.cancel();
      const next = URL.parse(location, place.href);
      if (next === null || !/^https?:$/.test(next.protocol)) {
        throw new FlynnError('invalid', `the registry ${registry} leads to "${location}", which is no address`);
      }
      place = next;
    }
    throw new FlynnError('invalid', `the registry ${registry} leads from one place to the next without an end`);
  };
}

async function ask(
  place: URL,
  ownHost: string,
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<Response> {
  const isOwn = place.hostname === ownHost;
  const send = place.protocol === 'https:' ? httpsRequest : httpRequest;
  try {
    // A name is judged by what it leads to, an address is looked up by nobody.
    if (!isOwn) outside.check(place.hostname.replace(/^\[(.*)\]$/, '$1'));
    const request = send(place, { agent: false, headers, signal, ...(isOwn ? {} : { lookup: outside.lookup }) });
    request.end();
    const [message]: unknown[] = await once(request, 'response', { signal });
    if (!(message instanceof IncomingMessage)) throw new FlynnError('internal', 'an answer that is none');
    return responseOf(message);
  } catch (error) {
    if (!hasCode(error, 'denied')) throw error;
    throw new FlynnError(
      'denied',
      `the registry at ${ownHost} leads to ${place.host}, which is in a private network: this runner follows a registry only to its own host and to the outside world. Have it answer by itself, or take a runner of the platform`,
      { cause: error },
    );
  }
}

function responseOf(message: IncomingMessage): Response {
  const { statusCode: status = 500 } = message;
  const headers = new Headers();
  for (const [name, value] of Object.entries(message.headers)) {
    if (typeof value === 'string') headers.set(name, value);
  }
  // A message that is only read step by step could not be given up while it is silent.
  if (!withoutBody.has(status)) return new Response(Readable.toWeb(message) as ReadableStream, { status, headers });
  message.resume();
  return new Response(null, { status, headers });
}
