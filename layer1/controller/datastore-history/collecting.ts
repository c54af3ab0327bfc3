/**
 * What a datastore's own programs say of its history, stored: the log since a place, and a copy of all there is. Memory for it does
 * not grow with either.
 */
import type { History, LogPlace } from '@flynn/appliances/appliance';
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import { Stall } from '@flynn/kit/stall';
import { z } from 'zod';
import type { Bytes } from '../backup/archive.ts';
import { type DumpBlobs, openDump, storeSealed } from '../datastore-backups/making.ts';
import { type Member, outputOf } from '../datastore-backups/member.ts';
import type { StepDeps, StepOptions } from '../datastore-backups/subject.ts';
import type { Piece } from './types.ts';

type Stored = Pick<Piece, 'digest' | 'blobBytes' | 'bytes'>;
type Place = Readonly<{ member: Member; secret: string }>;
type Limits = Pick<StepOptions, 'signal' | 'quietMs'>;

const mostHeaderBytes = 4_096;

const foundSchema = z.object({
  system: z.string(),
  timeline: z.int(),
  /** By its clock. */
  at: z.int(),
  /** All that was committed by then is before `to`. */
  until: z.int(),
  /** Of all its files, by then; not asked for where nothing was written, and not waited for. */
  data: z.int().optional(),
});
const collectedSchema = z.union([
  foundSchema.extend({ gap: z.string() }),
  /** `left`: where the timeline that was collected before went over to another, if it did. */
  foundSchema.extend({ gap: z.undefined().optional(), from: z.int(), to: z.int(), left: z.int().optional() }),
]);
/** `stored`: none where nothing was written since. */
export type Collected = z.output<typeof collectedSchema> & { stored?: Stored };

export async function collectLog(
  { hosts }: Pick<StepDeps, 'hosts'>,
  blobs: Pick<DumpBlobs, 'put'>,
  { collect }: History,
  { member, secret, since }: Place & { since: LogPlace | undefined },
  limits: Limits,
): Promise<Collected> {
  using stall = new Stall({ what: 'collecting the log', ...limits });
  const { header, rest } = await splitHeader(stall.watched(outputOf(hosts, member, collect(since), stall)));
  const collected = collectedSchema.parse(header);
  if (collected.gap !== undefined || collected.from === collected.to || since === undefined) {
    // Its end says whether it was well.
    for await (const _ of rest);
    return collected;
  }
  return { ...collected, stored: await storeSealed(blobs, rest, { secret, signal: stall.signal }) };
}

export async function copyAll(
  { hosts }: Pick<StepDeps, 'hosts'>,
  blobs: Pick<DumpBlobs, 'put'>,
  { base }: History,
  { member, secret }: Place,
  limits: Limits,
): Promise<Stored & { dataBytes: number }> {
  using stall = new Stall({ what: 'the copy', ...limits });
  const { header, rest } = await splitHeader(stall.watched(outputOf(hosts, member, base, stall)));
  const { bytes: dataBytes } = z.object({ bytes: z.int() }).parse(header);
  return { ...(await storeSealed(blobs, rest, { secret, signal: stall.signal })), dataBytes };
}

/** Several in a row as one blob. Throws `LostBlob` where one of them is not what it was. */
export async function mergeStored(
  blobs: Pick<DumpBlobs, 'put' | 'get'>,
  pieces: readonly Piece[],
  { secret }: Pick<Place, 'secret'>,
  limits: Limits,
): Promise<Stored> {
  using stall = new Stall({ what: 'merging the log', ...limits });
  const { signal } = stall;
  return await storeSealed(blobs, stall.watched(contentOf(blobs, pieces, { secret, signal })), { secret, signal });
}

/** Throws `LostBlob` where it is not there, or not what it was. */
export async function readStored(
  blobs: Pick<DumpBlobs, 'get'>,
  one: Stored,
  { secret }: Pick<Place, 'secret'>,
  limits: Limits,
): Promise<void> {
  using stall = new Stall({ what: 'reading a part of the history', ...limits });
  for await (const _ of stall.watched(contentOf(blobs, [one], { secret, signal: stall.signal })));
}

/** What programs wrote, in a row. Fails where one is anything else than it was. */
async function* contentOf(
  blobs: Pick<DumpBlobs, 'get'>,
  pieces: readonly Stored[],
  { secret, signal }: Pick<Place, 'secret'> & { signal: AbortSignal },
): AsyncGenerator<Uint8Array> {
  for (const { digest, bytes } of pieces) {
    let left = bytes;
    try {
      for await (const chunk of await openDump(blobs, { digest, secret }, signal)) {
        left -= chunk.length;
        yield chunk;
      }
    } catch (error) {
      if (hasCode(error, 'not_found', 'invalid', 'internal')) throw new LostBlob(digest, messageOf(error));
      throw error;
    }
    if (left !== 0) throw new LostBlob(digest, 'it is not as long as it was when it was stored');
  }
}

/** Nobody has it, or not as it was. */
export class LostBlob extends FlynnError {
  readonly digest: string;

  constructor(digest: string, message: string) {
    super('internal', `${digest} of the history cannot be read: ${message}`);
    this.digest = digest;
  }
}

/** A copy and the log after it, as its program takes them. `bytes`: how many these are. */
export function recoveryInput(
  blobs: Pick<DumpBlobs, 'get'>,
  { base, pieces }: Readonly<{ base: Stored; pieces: readonly Stored[] }>,
  options: Pick<Place, 'secret'> & { signal: AbortSignal },
): { input: Bytes; bytes: number } {
  const parts = [base, ...pieces].map((one, at) => {
    return { one, line: Buffer.from(`${at === 0 ? 'base' : 'wal'} ${one.bytes}\n`) };
  });
  const end = Buffer.from('end\n');
  const input = async function* (): AsyncGenerator<Uint8Array> {
    for (const { one, line } of parts) {
      yield line;
      yield* contentOf(blobs, [one], options);
    }
    yield end;
  };
  const bytes = parts.reduce((sum, { one, line }) => sum + line.length + one.bytes, end.length);
  return { input: input(), bytes };
}

/** Its first line as JSON, and what comes after it. */
async function splitHeader(source: AsyncGenerator<Uint8Array>): Promise<{ header: unknown; rest: Bytes }> {
  let head = Buffer.alloc(0);
  while (!head.includes('\n') && head.length < mostHeaderBytes) {
    const next = await source.next();
    if (next.done === true) break;
    head = Buffer.concat([head, next.value]);
  }
  const end = head.indexOf('\n');
  if (end < 0) {
    await source.return(undefined);
    throw new FlynnError('internal', "the history's program did not say what it writes");
  }
  const rest = async function* (): AsyncGenerator<Uint8Array> {
    if (head.length > end + 1) yield head.subarray(end + 1);
    yield* source;
  };
  return { header: JSON.parse(head.toString('utf8', 0, end)), rest: rest() };
}
