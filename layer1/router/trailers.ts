/** Which fields may come after a body? The same in both protocols, of requests and of answers. */
import { neverForwarded } from './policy/origin.ts';

/**
 * RFC 9110 6.5.1: framing, routing, authentication and what says how to read the body have no place after it. Nor has what the
 * router says itself, such as where a request is from: some readers put fields after a body among those before it.
 */
const notAfterBodies: ReadonlySet<string> = new Set([
  'authorization',
  'cache-control',
  'connection',
  'content-encoding',
  'content-length',
  'content-range',
  'content-type',
  'cookie',
  'expect',
  'host',
  'http2-settings',
  'keep-alive',
  'max-forwards',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'set-cookie',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  ...neverForwarded,
]);

/** `name` is in lower case. For CGI `_` and `-` are the same. */
export function mayFollowBody(name: string): boolean {
  const read = name.replaceAll('_', '-');
  return !notAfterBodies.has(read) && !read.startsWith('x-forwarded-') && !read.startsWith('x-flynn-');
}
