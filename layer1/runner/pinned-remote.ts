/**
 * By which settings does git go to these addresses of a host and nowhere else? It would look the name up itself, and find what it
 * was told a moment later; and it would go on to where a server sends it. Pure.
 */
import { isIP } from 'node:net';
import type { SshAt } from '@flynn/kit/git-ssh';
import { FlynnError } from '@flynn/kit/errors';

/** `env` for git, `ssh` for how it calls ssh. What a proxy finds under a name is the proxy's. */
export type Pinned = { url: string; env: Record<string, string>; ssh?: SshAt };

/** Throws `invalid` for an address that names no host. */
export function pinned(url: string, addresses: readonly string[]): Pinned {
  const [address] = addresses;
  if (address === undefined) throw new FlynnError('internal', `there is no address for ${url}`);
  const [, scp] = /^[\w.-]+@([\w.-]+):/.exec(url) ?? [];
  if (scp !== undefined) return { url, env: {}, ssh: { address, known: scp } };
  if (!URL.canParse(url)) throw new FlynnError('invalid', `${url} is no address of a repository`);
  // As it was read when it was looked up: git and its transports read odd ones in other ways.
  const { protocol, hostname, port, href } = new URL(url);
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  if (protocol === 'ssh:') {
    return { url, env: {}, ssh: { address, known: port === '' || port === '22' ? host : `[${host}]:${port}` } };
  }
  const settings: [string, string][] = [['http.followRedirects', 'false']];
  if (isIP(host) === 0) {
    const at = addresses.map((one) => (isIP(one) === 6 ? `[${one}]` : one)).join(',');
    settings.push(['http.curloptResolve', `${host}:${port || (protocol === 'https:' ? '443' : '80')}:${at}`]);
  }
  const pairs = settings.flatMap(([name, value], index) => [
    [`GIT_CONFIG_KEY_${index}`, name],
    [`GIT_CONFIG_VALUE_${index}`, value],
  ]);
  return { url: href, env: { GIT_CONFIG_COUNT: String(settings.length), ...Object.fromEntries(pairs) } };
}
