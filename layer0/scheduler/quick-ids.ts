/** Ids by the thousand: each looks like one of `shortId`, and follows from the one before. */
import { shortId } from '@flynn/kit/ids';

const alphabet = Array.from('abcdefghijklmnopqrstuvwxyz0123456789');
const pairs = alphabet.flatMap((a) => alphabet.map((b) => a + b));
const prefixLength = 8;

/** Eight characters of chance and four that count: no two of a process are alike, and two processes' hardly ever. */
export function quickIds(chance: () => string = shortId): () => string {
  let prefix = '';
  let next = pairs.length ** 2;
  return () => {
    if (next >= pairs.length ** 2) {
      prefix = chance().slice(0, prefixLength);
      next = 0;
    }
    const id = `${prefix}${pairs[Math.floor(next / pairs.length)] ?? ''}${pairs[next % pairs.length] ?? ''}`;
    next += 1;
    return id;
  };
}
