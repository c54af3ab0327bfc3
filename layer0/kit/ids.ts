/** Identifiers made here are unique without asking anyone. */
import { randomBytes, randomInt } from 'node:crypto';

let lastMs = 0;
let sequence = 0;

/** A version 7 UUID (RFC 9562): sorts by time of making, and within this process in the exact order of making. */
export function newId(): string {
  const nowMs = Date.now();
  if (nowMs > lastMs) {
    lastMs = nowMs;
    sequence = randomInt(0x400);
  } else {
    // A clock that stands still or steps back must not reorder ids; 12 bits of sequence, then the next millisecond.
    sequence += 1;
    if (sequence > 0xfff) {
      lastMs += 1;
      sequence = 0;
    }
  }
  const time = lastMs.toString(16).padStart(12, '0');
  const counter = sequence.toString(16).padStart(3, '0');
  const random = randomBytes(8);
  random.writeUInt8((random.readUInt8(0) & 0x3f) | 0x80, 0);
  const tail = random.toString('hex');
  return `${time.slice(0, 8)}-${time.slice(8)}-7${counter}-${tail.slice(0, 4)}-${tail.slice(4)}`;
}

const alphabet = 'abcdefghijklmnopqrstuvwxyz0123456789';

/** 12 lower-case letters and digits (62 bits), starting with a letter so that it can be a DNS label or a file name. */
export function shortId(): string {
  let id = alphabet.charAt(randomInt(26));
  while (id.length < 12) id += alphabet.charAt(randomInt(alphabet.length));
  return id;
}
