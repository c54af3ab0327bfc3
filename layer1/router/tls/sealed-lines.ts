/**
 * Lines that only who has the secret can read or make. A file has a key of its own, made of the secret and the salt in its
 * first line (RFC 5869), and a line's number is its nonce: a line at another place, or of another file, does not open.
 * AES-256-GCM.
 */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
import { FlynnError } from '@flynn/kit/errors';

const cipher = 'aes-256-gcm';
const tagBytes = 16;
const saltBytes = 32;

export class SealedLines {
  readonly #key: Buffer;
  readonly salt: string;
  #count = 0;

  /** Without a salt it is for writing; with one for reading the file that has it. Lines come in the file's order. */
  constructor(options: { secret: string; purpose: string; salt?: string }) {
    const { secret, purpose, salt = randomBytes(saltBytes).toString('base64') } = options;
    this.salt = salt;
    this.#key = Buffer.from(hkdfSync('sha256', secret, Buffer.from(salt, 'base64'), purpose, 32));
  }

  close(text: string): string {
    const sealing = createCipheriv(cipher, this.#key, this.#nextNonce(), { authTagLength: tagBytes });
    const sealed = Buffer.concat([sealing.update(text, 'utf8'), sealing.final()]);
    return Buffer.concat([sealed, sealing.getAuthTag()]).toString('base64');
  }

  /** Throws `invalid` for what was not closed here, at this place, with this secret. */
  open(line: string): string {
    const bytes = Buffer.from(line, 'base64');
    const end = bytes.length - tagBytes;
    try {
      const opening = createDecipheriv(cipher, this.#key, this.#nextNonce(), { authTagLength: tagBytes });
      opening.setAuthTag(bytes.subarray(Math.max(end, 0)));
      return Buffer.concat([opening.update(bytes.subarray(0, end)), opening.final()]).toString('utf8');
    } catch (error) {
      throw new FlynnError('invalid', 'it was sealed with another key, or changed', { cause: error });
    }
  }

  #nextNonce(): Buffer {
    const nonce = Buffer.alloc(12);
    nonce.writeUInt32BE(this.#count, 8);
    this.#count += 1;
    return nonce;
  }
}
