/**
 * How does a value look at rest that only who has the key can read? `sealed:1:<key's id>:<base64url>` of salt, nonce,
 * AES-256-GCM of the text, and tag. No text of JSON begins like this.
 *
 * Nobody seals with the key itself: each process does with one of its own, HMAC-SHA256 of a random salt, so that the many
 * values of a cluster's life stay far below the 2^32 random nonces that NIST SP 800-38D allows a key. The path of the value is
 * authenticated with it: one that is copied to another path does not open there.
 */
import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto';
import { FlynnError } from '@flynn/kit/errors';

const mark = 'sealed:1:';
const saltBytes = 16;
const nonceBytes = 12;
const tagBytes = 16;
const headBytes = saltBytes + nonceBytes;
const secretBytes = 32;
const maxIdLength = 36;
/** Of processes whose values were opened. */
const maxKnownSalts = 1_000;

export function isSealed(value: string): boolean {
  return value.startsWith(mark);
}

/** Characters of a value of so many bytes once it is sealed, at most. */
export function sealedLength(bytes: number): number {
  return mark.length + maxIdLength + 1 + Math.ceil(((headBytes + bytes + tagBytes) * 4) / 3);
}

/** undefined for a value in clear. */
export function keyIdOf(value: string): string | undefined {
  if (!isSealed(value)) return undefined;
  return value.slice(mark.length, value.indexOf(':', mark.length));
}

/** Of one process. */
export class SealKey {
  readonly id: string;
  readonly #secret: Buffer;
  readonly #salt = randomBytes(saltBytes);
  readonly #own: Buffer;
  readonly #derived = new Map<string, Buffer>();

  /** 32 random bytes. */
  constructor(id: string, secret: Buffer) {
    this.id = id;
    this.#secret = secret;
    this.#own = this.#derive(this.#salt);
  }

  seal(path: string, text: string): string {
    const nonce = randomBytes(nonceBytes);
    const cipher = createCipheriv('aes-256-gcm', this.#own, nonce);
    cipher.setAAD(Buffer.from(path));
    const body = Buffer.concat([this.#salt, nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]);
    return `${mark}${this.id}:${body.toString('base64url')}`;
  }

  /** `invalid` for what was not sealed with this key for this path, or was changed since. */
  open(path: string, value: string): string {
    const body = Buffer.from(value.slice(mark.length + this.id.length + 1), 'base64url');
    try {
      const key = this.#keyOf(body.subarray(0, saltBytes));
      const nonce = body.subarray(saltBytes, headBytes);
      const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: tagBytes });
      decipher.setAAD(Buffer.from(path));
      decipher.setAuthTag(body.subarray(-tagBytes));
      const text = decipher.update(body.subarray(headBytes, -tagBytes));
      return Buffer.concat([text, decipher.final()]).toString('utf8');
    } catch (error) {
      const why = 'it was sealed with another key or for another path, or was changed';
      throw new FlynnError('invalid', `the sealed value of ${path} does not open: ${why}`, { cause: error });
    }
  }

  #keyOf(salt: Buffer): Buffer {
    const name = salt.toString('latin1');
    const known = this.#derived.get(name);
    if (known !== undefined) return known;
    if (this.#derived.size >= maxKnownSalts) this.#derived.clear();
    const key = this.#derive(salt);
    this.#derived.set(name, key);
    return key;
  }

  #derive(salt: Buffer): Buffer {
    return createHmac('sha256', this.#secret).update(salt).digest();
  }
}

export function newSecretOfKey(): Buffer {
  return randomBytes(secretBytes);
}

/** Of a text that is as good as random already; the same text makes the same key. The id tells nothing of it. */
export function sealKeyOf(text: string): SealKey {
  const derive = (what: string): Buffer =>
    Buffer.from(hkdfSync('sha256', text, '', `flynn sealing ${what}`, secretBytes));
  return new SealKey(derive('id').toString('hex').slice(0, 12), derive('key'));
}
