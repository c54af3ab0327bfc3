/** Where may the code of an app come from? */
import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { Outside } from '@flynn/kit/outside';
import { raceAbort, withDeadline } from '@flynn/kit/retry';

const forms = 'https://HOST/PATH, ssh://USER@HOST/PATH or USER@HOST:PATH';

/** The host of it. Throws `invalid` for what git would not fetch over the network, or would read as something else. */
export function hostOfSource(url: string): string {
  const refuse = (why: string) => new FlynnError('invalid', `"${shown(url)}" is no repository: ${why}; write ${forms}`);
  const [, scp] = /^[\w.-]+@([A-Za-z0-9][A-Za-z0-9.-]*):(?![-/\s])[^\s]+$/.exec(url) ?? [];
  if (scp !== undefined) return scp;
  if (!URL.canParse(url) || /\s/.test(url)) throw refuse('it is no address');
  const { protocol, hostname, password, pathname, username } = new URL(url);
  if (!['https:', 'http:', 'ssh:'].includes(protocol)) throw refuse(`${protocol.replace(/:$/, '')} is not known`);
  if (hostname === '' || hostname.startsWith('-')) throw refuse('it names no host');
  // Nothing that git or a shell could read as another host than this one.
  if (!/^(?:[\w.-]+|\[[\da-f:.]+\])$/i.test(hostname)) throw refuse(`${hostname} is not the name of a host`);
  if (pathname.length < 2) throw refuse('it names no repository on that host');
  if (password !== '' || (username !== '' && protocol !== 'ssh:')) {
    throw new FlynnError(
      'invalid',
      `"${shown(url)}" holds a password or a token, which everybody who sees the app would see: give the app a key instead (--deploy-key FILE)`,
    );
  }
  return hostname.replace(/^\[(.*)\]$/, '$1');
}

/** Without what may be secret in it. */
function shown(url: string): string {
  return url.replace(/\/\/[^/@\s]*@/, '//***@');
}

/** A name server that does not answer keeps neither a person nor other sources waiting. */
const lookupMs = 10_000;

/**
 * The addresses it has now: whoever goes there is to go nowhere else. Throws `denied` for a host that is, or is found, inside
 * the cluster, `unavailable` for a name that is not found within 10 s.
 */
export async function checkOutside(host: string, inside: readonly string[], signal: AbortSignal): Promise<string[]> {
  const outside = new Outside();
  outside.setInside(inside);
  outside.check(host);
  if (isIP(host) !== 0) return [host];
  let found: { address: string }[];
  try {
    found = await raceAbort(lookup(host, { all: true }), withDeadline(lookupMs, signal));
  } catch (error) {
    if (signal.aborted) throw error;
    throw new FlynnError('unavailable', `${host} is not found: ${messageOf(error)}`, { cause: error });
  }
  for (const { address } of found) outside.check(address);
  return found.map(({ address }) => address);
}
