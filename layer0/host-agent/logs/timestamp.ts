/** Times with nanoseconds: ISO 8601 as the engine writes them, and bigint to count with. */
import { FlynnError } from '@flynn/kit/errors';

const pattern = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$/;
const nsPerSecond = 1_000_000_000n;

/** Nanoseconds since the epoch; anything else than a time is `invalid`. */
export function parseTimestamp(text: string): bigint {
  const match = pattern.exec(text);
  const ms = match === null ? Number.NaN : Date.parse(`${match[1]}${match[3]}`);
  if (Number.isNaN(ms)) throw new FlynnError('invalid', `not a time with nanoseconds: ${text}`);
  return BigInt(ms) * 1_000_000n + BigInt((match?.[2] ?? '').padEnd(9, '0'));
}

/** Always nine digits, so that times sort as text. */
export function formatTimestamp(ns: bigint): string {
  const seconds = new Date(Number(ns / nsPerSecond) * 1000).toISOString().slice(0, 19);
  return `${seconds}.${String(ns % nsPerSecond).padStart(9, '0')}Z`;
}

/** Seconds with nine decimals, the engine's form of a point in time. */
export function formatSeconds(ns: bigint): string {
  return `${ns / nsPerSecond}.${String(ns % nsPerSecond).padStart(9, '0')}`;
}
