/** The cookie in which a browser keeps its login: the token that was made for it, out of reach of scripts. */
import { parseToken } from '@flynn/controller/access/token-text';
import type { IncomingHttpHeaders } from 'node:http';

type Secure = Readonly<{ isSecure: boolean }>;

/** Over TLS with the prefix by which browsers let no other name, app or path set it. */
function nameOf({ isSecure }: Secure): string {
  return isSecure ? '__Host-flynn-session' : 'flynn-session';
}

/** One that is there twice was put there by somebody else: then there is none. */
export function tokenIn(headers: IncomingHttpHeaders, asking: Secure): string | undefined {
  const prefix = `${nameOf(asking)}=`;
  const pairs = (headers.cookie ?? '').split(';').map((pair) => pair.trim());
  const [token, ...more] = pairs.filter((pair) => pair.startsWith(prefix)).map((pair) => pair.slice(prefix.length));
  return token === undefined || more.length > 0 || parseToken(token) === undefined ? undefined : token;
}

export function cookieOf(token: string, { maxAgeSeconds, ...asking }: Secure & { maxAgeSeconds: number }): string {
  const secure = asking.isSecure ? '; Secure' : '';
  return `${nameOf(asking)}=${token}; Path=/; Max-Age=${maxAgeSeconds}; HttpOnly; SameSite=Strict${secure}`;
}

export function forgottenCookie(asking: Secure): string {
  return cookieOf('', { ...asking, maxAgeSeconds: 0 });
}
