/** Which transactions does no driver accept? Checked before anything is sent, so that both refuse the same ones. */
import { FlynnError } from '@flynn/kit/errors';
import { isSealed, sealedLength } from './sealing/envelope.ts';
import type { Transaction } from './store.ts';

const maxValueBytes = 1024 * 1024;
/** As long as the longest value is once it is sealed. */
const maxSealedLength = sealedLength(maxValueBytes);

/** Throws `invalid`: a value over 1 MiB, an empty key, one key written twice, a write in `else`. */
export function checkTransaction(transaction: Transaction): void {
  const puts = new Set<string>();
  const deletedKeys: string[] = [];
  const deletedPrefixes: string[] = [];
  for (const operation of transaction.then) {
    if ('put' in operation) {
      checkKey(operation.put);
      checkValue(operation.put, operation.value);
      if (puts.has(operation.put)) throw writtenTwice(operation.put);
      puts.add(operation.put);
    } else if ('delete' in operation) {
      checkKey(operation.delete);
      deletedKeys.push(operation.delete);
    } else if ('deletePrefix' in operation) {
      checkKey(operation.deletePrefix);
      deletedPrefixes.push(operation.deletePrefix);
    } else checkKey('get' in operation ? operation.get : operation.list);
  }
  for (const key of deletedKeys) if (puts.has(key)) throw writtenTwice(key);
  for (const prefix of deletedPrefixes) {
    for (const key of puts) if (key.startsWith(prefix)) throw writtenTwice(key);
  }
  for (const operation of transaction.else ?? []) {
    if (!('get' in operation) && !('list' in operation)) {
      throw new FlynnError('invalid', 'the else branch of a transaction only reads: move the write to a second one');
    }
  }
}

function checkKey(key: string): void {
  if (key === '') throw new FlynnError('invalid', 'a key or prefix in a transaction is empty: name what it is about');
}

function checkValue(key: string, value: string): void {
  if (isSealed(value) && value.length <= maxSealedLength) return;
  // A UTF-16 unit is at most 3 bytes of UTF-8: most values need no counting.
  if (value.length * 3 <= maxValueBytes) return;
  const bytes = Buffer.byteLength(value);
  if (bytes <= maxValueBytes) return;
  throw new FlynnError(
    'invalid',
    `the value of ${key} is ${bytes} bytes, more than the 1 MiB an entry may hold: store it as a blob and keep its digest here`,
    { detail: { bytes, maxBytes: maxValueBytes } },
  );
}

function writtenTwice(key: string): FlynnError {
  return new FlynnError('invalid', `one transaction writes ${key} twice: keep only the last write`);
}
