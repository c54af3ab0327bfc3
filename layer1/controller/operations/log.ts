/**
 * The log of an operation, in the store: chunks of lines under the number of their first line, and a head that counts.
 *
 * INVARIANTS. The head is compared and put with every chunk, so two writers never add the same line. Line numbers go up
 * by one. At `maxBytes` a notice takes the place of everything after it. The end marker is put by whoever ends the
 * operation, in that very transaction: a reader that sees it has seen every line. Of one that has ended the lines may go, for
 * their room: a notice is there in their place, under the number after the last of them.
 */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { decodeJson, encodeJson } from '@flynn/store/codec';
import type { Compare, Entry, Operation as StoreOperation, Revision, Store } from '@flynn/store/store';
import { z } from 'zod';

const logPrefix = '/flynn/operation-log/';
const maxBytes = 4 * 1024 * 1024;
const maxChunkBytes = 256 * 1024;
const maxLineChars = 10_000;
const droppedText = '--- this log is not kept any more: newer ones needed its room ---';

export const logKeys = {
  prefix: logPrefix,
  operation: (id: string) => `${logPrefix}${id}/`,
  /** Sorts before the chunks, the end marker after them. */
  head: (id: string) => `${logPrefix}${id}/0-head`,
  chunks: (id: string) => `${logPrefix}${id}/1-`,
  chunk: (id: string, line: number) => `${logPrefix}${id}/1-${String(line).padStart(9, '0')}`,
  end: (id: string) => `${logPrefix}${id}/2-end`,
} as const;

const headSchema = z.object({ lines: z.int(), bytes: z.int(), isFull: z.boolean() });
export type LogHead = z.output<typeof headSchema>;
export type LogSize = Pick<LogHead, 'lines' | 'bytes'> & { modRevision: Revision };
const chunkSchema = z.array(z.string());

export type Chunk = { line: number; lines: string[] };

/** What appending comes to: the head after it and the chunks to put. Throws `conflict` if lines in between are missing. */
export function planAppend(
  head: LogHead,
  offset: number,
  lines: readonly string[],
): { head: LogHead; chunks: Chunk[] } {
  if (offset > head.lines) {
    throw new FlynnError(
      'conflict',
      `lines ${head.lines} to ${offset} of the log are missing: send them from ${head.lines}`,
      {
        detail: { lines: head.lines },
      },
    );
  }
  const fresh = lines
    .slice(head.lines - offset)
    .map((line) => (line.length > maxLineChars ? `${line.slice(0, maxLineChars)}…` : line));
  const chunks: Chunk[] = [];
  let { bytes, isFull } = head;
  let chunkBytes = Infinity;
  for (const [index, line] of fresh.entries()) {
    if (isFull) break;
    const size = sizeOf(line);
    isFull = bytes + size > maxBytes;
    const text = isFull ? `--- the log is longer than ${maxBytes / 1024 / 1024} MiB: the rest is left out ---` : line;
    bytes += size;
    chunkBytes += size;
    if (chunkBytes > maxChunkBytes) {
      chunks.push({ line: head.lines + index, lines: [] });
      chunkBytes = size;
    }
    chunks.at(-1)?.lines.push(text);
  }
  return { head: { lines: head.lines + fresh.length, bytes, isFull }, chunks };
}

/** What it takes in the store, where a control character takes six bytes. */
function sizeOf(line: string): number {
  return Buffer.byteLength(JSON.stringify(line)) + 1;
}

const emptyHead: LogHead = { lines: 0, bytes: 0, isFull: false };

export class OperationLog {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Idempotent: lines that are there already are not added twice. */
  async append(
    id: string,
    offset: number,
    lines: readonly string[],
    options: { signal?: AbortSignal } = {},
  ): Promise<void> {
    for (let attempt = 0; attempt < 5; attempt += 1) {
      const entry = await this.#store.get(logKeys.head(id), options);
      const head = entry === undefined ? emptyHead : decodeJson(headSchema, entry.value, entry.key);
      const next = planAppend(head, offset, lines);
      if (next.head.lines === head.lines) return;
      const { succeeded } = await this.#store.transact(
        {
          compare: [
            { key: logKeys.head(id), modRevision: entry?.modRevision ?? 0 },
            { key: logKeys.end(id), modRevision: 0 },
          ],
          then: [
            { put: logKeys.head(id), value: encodeJson(next.head) },
            ...next.chunks.map((chunk) => ({ put: logKeys.chunk(id, chunk.line), value: encodeJson(chunk.lines) })),
          ],
        },
        options,
      );
      if (succeeded) return;
      if ((await this.#store.get(logKeys.end(id), options)) !== undefined) {
        throw new FlynnError('conflict', `operation ${id} has ended: its log is closed`);
      }
    }
    throw new FlynnError('conflict', `the log of operation ${id} is written by several at once: try again`);
  }

  /** Lines from number `from` on, with their numbers: those there are, or as they come until the operation ended. */
  async *read(
    id: string,
    options: { from: number; isFollowed?: boolean; signal: AbortSignal },
  ): AsyncGenerator<{ line: number; text: string }> {
    const { signal } = options;
    let next = options.from;
    for (;;) {
      const listing = await this.#store.list(logKeys.operation(id), { signal });
      for (const { line, text } of linesOf(listing.entries, id)) {
        if (line < next) continue;
        yield { line, text };
        next = line + 1;
      }
      if (options.isFollowed === false || listing.entries.some((entry) => entry.key === logKeys.end(id))) return;
      try {
        for await (const batch of this.#store.watch(logKeys.operation(id), { after: listing.revision, signal })) {
          const entries = batch.changes.flatMap((change) => (change.type === 'put' ? [change.entry] : []));
          for (const { line, text } of linesOf(entries, id)) {
            if (line < next) continue;
            yield { line, text };
            next = line + 1;
          }
          if (entries.some((entry) => entry.key === logKeys.end(id))) return;
          if (batch.changes.some((change) => change.type === 'delete')) return;
        }
        if (signal.aborted) return;
      } catch (error) {
        // The history was compacted while the reader was slow: the listing has it all.
        if (!hasCode(error, 'conflict')) throw error;
      }
    }
  }
}

function linesOf(entries: readonly Entry[], id: string): { line: number; text: string }[] {
  const start = logKeys.chunk(id, 0).slice(0, -9);
  return entries
    .filter((entry) => entry.key.startsWith(start))
    .sort((a, b) => (a.key < b.key ? -1 : 1))
    .flatMap((entry) => {
      const first = Number(entry.key.slice(start.length));
      return decodeJson(chunkSchema, entry.value, entry.key).map((text, index) => ({ line: first + index, text }));
    });
}

/** Goes into the transaction that ends an operation. */
export function closeLog(id: string): StoreOperation {
  return { put: logKeys.end(id), value: '{}' };
}

/** Says which workload the operation's build was started as; it goes with the log. */
export function buildMarker(id: string): string {
  return `${logPrefix}${id}/3-build`;
}

/** Says of which of these workloads somebody asked that it ends. */
export function buildStopMarker(id: string): string {
  return `${logPrefix}${id}/4-stopped`;
}

/** How much it is of those operations that have lines, with the key that tells and its revision. */
export async function logSizes(
  store: Pick<Store, 'transact'>,
  ids: readonly string[],
  options: { signal: AbortSignal },
): Promise<Map<string, LogSize>> {
  const { reads } = await store.transact({ then: ids.map((id) => ({ get: logKeys.head(id) })) }, options);
  return new Map(
    ids.flatMap((id, at) => {
      const entry = reads[at]?.[0];
      if (entry === undefined) return [];
      const { lines, bytes } = decodeJson(headSchema, entry.value, entry.key);
      return [[id, { lines, bytes, modRevision: entry.modRevision }] as const];
    }),
  );
}

/**
 * Takes the lines of an operation that has ended out of the store. In two transactions, since none may delete a range and put a
 * key in it; interrupted in between, the size says what it was, and doing it again ends it. Answers false if one was refused.
 */
export async function dropLines(
  store: Pick<Store, 'transact'>,
  id: string,
  { lines, modRevision }: LogSize,
  { epoch, signal }: { epoch: Compare; signal: AbortSignal },
): Promise<boolean> {
  const compare = [epoch, { key: logKeys.head(id), modRevision }];
  const head = { lines: lines + 1, bytes: sizeOf(droppedText), isFull: true };
  for (const then of [
    [{ deletePrefix: logKeys.chunks(id) }],
    [
      { put: logKeys.head(id), value: encodeJson(head) },
      { put: logKeys.chunk(id, lines), value: encodeJson([droppedText]) },
    ],
  ]) {
    const { succeeded } = await store.transact({ compare, then }, { signal });
    if (!succeeded) return false;
  }
  return true;
}

export function removeLog(id: string): StoreOperation {
  return { deletePrefix: logKeys.operation(id) };
}
