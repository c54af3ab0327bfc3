/**
 * Random ids of requests: version 4 UUIDs (RFC 9562). Many are written as bytes and made one text, of which each is a slice:
 * one put together of twenty strings is gone through piece by piece in every head that it stands in.
 */
import { randomFillSync } from 'node:crypto';

const idBytes = 16;
const idLength = 36;
/** Their text stays as long as one of them does, perhaps as long as a WebSocket. */
const atOnce = 16;
/** Of the random bytes, asked of the system in pieces worth the asking. */
const poolBytes = 256 * idBytes;

const digits = Buffer.from('0123456789abcdef');
const dash = 0x2d;

export class RequestIds {
  readonly #random = Buffer.alloc(poolBytes);
  readonly #written = Buffer.alloc(atOnce * idLength);
  #used = poolBytes;
  #text = '';
  #at = 0;

  next(): string {
    if (this.#at === this.#text.length) this.#write();
    const at = this.#at;
    this.#at += idLength;
    return this.#text.slice(at, this.#at);
  }

  #write(): void {
    if (this.#used === poolBytes) {
      randomFillSync(this.#random);
      this.#used = 0;
    }
    for (let i = 0; i < atOnce; i += 1) writeId(this.#written, i * idLength, this.#random, this.#used + i * idBytes);
    this.#used += atOnce * idBytes;
    this.#text = this.#written.toString('latin1');
    this.#at = 0;
  }
}

function writeId(out: Buffer, at: number, random: Buffer, from: number): void {
  let to = at;
  for (let i = 0; i < idBytes; i += 1) {
    let byte = random[from + i] ?? 0;
    if (i === 6) byte = (byte & 0x0f) | 0x40;
    else if (i === 8) byte = (byte & 0x3f) | 0x80;
    if (i === 4 || i === 6 || i === 8 || i === 10) out[to++] = dash;
    out[to++] = digits[byte >> 4] ?? 0;
    out[to++] = digits[byte & 15] ?? 0;
  }
}
