/**
 * What of the API is asked for in clear, over the public port, though it need not be: who has sent a key so hears it, and goes
 * on no more.
 */
import type { IncomingMessage } from 'node:http';
import { FlynnError } from '@flynn/kit/errors';
import { eitherCommand } from '@flynn/kit/operator-commands';
import { isShownFor } from '../certificates/shown.ts';
import type { Shown } from '../certificates/shown.ts';

type Asked = Pick<IncomingMessage, 'headers' | 'method' | 'url'>;

/**
 * Where it is to be asked for instead, if nothing secret was sent; throws `denied` if something was, or may have been. Undefined
 * for what came over TLS or from inside, and where no certificate is shown for the name: there is no other way then.
 */
export function inClear(options: {
  certificates: () => Iterable<Shown>;
  /** The router's. */
  httpsPort: number;
  now: () => number;
}): (request: Asked) => string | undefined {
  const { certificates, httpsPort, now } = options;
  return ({ headers, method = 'GET', url = '/' }) => {
    // The router says so, and lets nobody else say it.
    if (headers['x-forwarded-proto'] !== 'http') return undefined;
    const name = nameOf(headers['x-forwarded-host'] ?? headers.host ?? '');
    if (!isShownFor(name, certificates(), now())) return undefined;
    const instead = `https://${name}${httpsPort === 443 ? '' : `:${httpsPort}`}`;
    const isSafe = headers.authorization === undefined && (method === 'GET' || method === 'HEAD');
    if (isSafe) return `${instead}${url}`;
    const key = headers.authorization === undefined ? 'a request' : 'the key of this request';
    throw new FlynnError(
      'denied',
      `${key} came in clear, for all on the way to read: the controller is at ${instead}. ` +
        `Tell the flynn command with "flynn cluster add NAME ${instead} KEY --pin FINGERPRINT"; ` +
        `${eitherCommand('up')} on the host that keeps the platform prints the fingerprint. A token that was sent so is better taken back`,
      { detail: { url: instead } },
    );
  };
}

function nameOf(host: string | readonly string[]): string {
  return String(host).toLowerCase().replace(/:\d+$/, '');
}
