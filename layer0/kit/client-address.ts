/** Whose address is it: as a field of a request names it, and who counts as one client? */
import type { IncomingHttpHeaders } from 'node:http';
import { isIP } from 'node:net';

/** Whom a proxy that the router trusts named as the client: the router alone says this, and only then. */
export const clientField = 'x-flynn-client';

/**
 * Whose request the router passed on, by its own word; what stands before that in X-Forwarded-For anybody could have written. A
 * router of a version before this field passes a client's own through: until an update has replaced them all it is no proof.
 */
export function routedAddress(headers: IncomingHttpHeaders): string | undefined {
  const named = headers[clientField] ?? headers['x-forwarded-for'] ?? '';
  return addressIn([named].flat().join(',').split(',').at(-1) ?? '');
}

/** An IPv4 address, or the network of 64 bits of an IPv6 address: whoever has one of its addresses has them all. */
export function clientOf(address: string): string {
  if (!address.includes(':')) return address;
  const [head = '', tail] = address.toLowerCase().split('::', 2);
  const groups = head === '' ? [] : head.split(':');
  if (tail !== undefined) {
    const after = tail === '' ? [] : tail.split(':');
    // An IPv4 address at the end stands for two groups.
    const width = after.length + (tail.includes('.') ? 1 : 0);
    while (groups.length + width < 8) groups.push('0');
    groups.push(...after);
  }
  return groups
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, ''))
    .join(':');
}

/** An address as a field names it: `192.0.2.1`, `192.0.2.1:80`, `[2001:db8::1]:80`, `"[2001:db8::1]"`. */
export function addressIn(text: string): string | undefined {
  const bare = text.trim().replace(/^"(.*)"$/, '$1');
  const address = bare.startsWith('[')
    ? bare.slice(1, bare.indexOf(']'))
    : isIP(bare) === 0
      ? bare.replace(/:\d+$/, '')
      : bare;
  if (isIP(address) === 0) return undefined;
  return address.toLowerCase().startsWith('::ffff:') && address.includes('.') ? address.slice(7) : address;
}
