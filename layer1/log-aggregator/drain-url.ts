/** Where a drain may lead, and how its address is shown. Pure. */
import { basicAuthorization } from '@flynn/kit/basic-login';
import { FlynnError } from '@flynn/kit/errors';

export type Target =
  | { kind: 'syslog'; host: string; port: number; isSecure: boolean }
  | { kind: 'http'; url: string; authorization: string | undefined };

const syslogPorts = { 'syslog+tcp:': 514, 'syslog+tls:': 6514 } as const;
const kinds = 'syslog+tcp://HOST:PORT, syslog+tls://HOST:PORT or https://HOST/PATH';

/** Throws `invalid` saying what a drain looks like. */
export function parseDrainUrl(text: string): Target {
  const shown = URL.canParse(text) ? hideSecrets(text) : text;
  const refuse = (why: string) => new FlynnError('invalid', `"${shown}" is no drain: ${why}`);
  if (!URL.canParse(text)) throw refuse(`it is not a URL; write ${kinds}`);
  const url = new URL(text);
  const { protocol, hostname } = url;
  if (hostname === '') throw refuse(`it names no host; write ${kinds}`);
  if (url.hash !== '') throw refuse('what follows a # is never sent; leave it out');
  if (protocol === 'https:' || protocol === 'http:') {
    const authorization = basicAuthorization(url);
    url.username = '';
    url.password = '';
    return { kind: 'http', url: url.href, authorization };
  }
  if (protocol !== 'syslog+tcp:' && protocol !== 'syslog+tls:') {
    throw refuse(`${protocol.replace(/:$/, '')} is not known; write ${kinds}`);
  }
  if (
    (url.pathname !== '' && url.pathname !== '/') ||
    url.search !== '' ||
    url.username !== '' ||
    url.password !== ''
  ) {
    throw refuse('syslog has a host and a port only');
  }
  const port = url.port === '' ? syslogPorts[protocol] : Number(url.port);
  if (port === 0) throw refuse('there is no port 0');
  // Of schemes of its own a URL keeps names as they were typed.
  const host = hostname.startsWith('[') ? hostname.slice(1, -1) : nameOf(hostname);
  if (host === undefined) throw refuse(`"${hostname}" is no name of a host`);
  return { kind: 'syslog', host, port, isSecure: protocol === 'syslog+tls:' };
}

/** As it is looked up; undefined for what nobody has as a name. */
function nameOf(hostname: string): string | undefined {
  const address = `http://${hostname}`;
  return URL.canParse(address) ? new URL(address).hostname : undefined;
}

/** As it is looked up: an address of IPv6 without its brackets. */
export function hostOf(target: Target): string {
  return target.kind === 'syslog' ? target.host : new URL(target.url).hostname.replace(/^\[(.*)\]$/, '$1');
}

/** Longer parts of a path are taken for keys. */
const longestName = 19;

/** User, password, values of the query and what looks like a key within the path become ***. */
export function hideSecrets(text: string): string {
  const url = new URL(text);
  const user = url.username === '' && url.password === '' ? '' : '***@';
  const path = url.pathname
    .split('/')
    .map((part) => (part.length > longestName ? '***' : part))
    .join('/');
  const query = [...url.searchParams.keys()].map((name) => `${name}=***`).join('&');
  return `${url.protocol}//${user}${url.host}${path === '/' ? '' : path}${query === '' ? '' : `?${query}`}`;
}
