/** Which lines somebody wants, decided on their bytes: most are passed on, or passed over, without being parsed. */
import { lineSchema } from './api.ts';
import type { Line } from './api.ts';
import { newline } from './segments.ts';

export type Filter = Readonly<{
  jobId?: string | undefined;
  processType?: string | undefined;
  releaseId?: string | undefined;
  streams?: ReadonlySet<Line['stream']> | undefined;
  /** ISO 8601 in UTC: at or after, and before. */
  since?: string | undefined;
  until?: string | undefined;
  /** Text within the message. */
  search?: string | undefined;
}>;

type Test = (line: Buffer) => boolean;

const timestampKey = Buffer.from('"timestamp":"');

/** undefined: all of them. */
export function matcherOf(filter: Filter): Test | undefined {
  const tests: Test[] = [];
  const { jobId, processType, releaseId, streams, since, until, search } = filter;
  // A quote within a message is escaped, so what looks like a field is one.
  const fields = Object.entries({ jobId, processType, releaseId });
  for (const [name, value] of fields) if (value !== undefined) tests.push(includes(fieldOf(name, value)));
  if (streams !== undefined) {
    const wanted = Array.from(streams, (stream) => Buffer.from(fieldOf('stream', stream)));
    tests.push((line) => wanted.some((field) => line.includes(field)));
  }
  const from = since === undefined ? undefined : comparable(since);
  const to = until === undefined ? undefined : comparable(until);
  if (from !== undefined) tests.push((line) => timestampOf(line) >= from);
  if (to !== undefined) tests.push((line) => timestampOf(line) < to);
  if (search !== undefined && search !== '') {
    // As it is written within JSON; it may still be part of something else.
    tests.push(includes(JSON.stringify(search).slice(1, -1)));
    tests.push((line) => parseStored(line)?.message.includes(search) === true);
  }
  return tests.length === 0 ? undefined : (line) => tests.every((test) => test(line));
}

function fieldOf(name: string, value: string): string {
  return `"${name}":${JSON.stringify(value)}`;
}

function includes(text: string): Test {
  const wanted = Buffer.from(text);
  return (line) => line.includes(wanted);
}

/** `…00.12Z` comes before `…00.123Z`: without the Z, ISO 8601 in UTC sorts as text at any precision. */
function comparable(timestamp: string): string {
  return timestamp.replace(/Z$/, '');
}

/** Without its Z, so that it compares. Empty of what is no line. */
export function timestampOf(line: Buffer): string {
  const key = line.indexOf(timestampKey);
  if (key < 0) return '';
  const at = key + timestampKey.length;
  return comparable(line.toString('latin1', at, line.indexOf('"', at)));
}

/** undefined for what is no line: a disk may have damaged it. */
export function parseStored(line: Uint8Array): Line | undefined {
  try {
    return lineSchema.parse(JSON.parse(Buffer.from(line).toString()));
  } catch {
    return undefined;
  }
}

/** Every line of a block with its end, in order. */
export function* linesOf(block: Buffer): Generator<Buffer> {
  for (let at = 0; at < block.length;) {
    const end = block.indexOf(newline, at);
    const next = end < 0 ? block.length : end + 1;
    yield block.subarray(at, next);
    at = next;
  }
}

/** Those of a block that are wanted, as few pieces as there are runs of them. */
export function pick(block: Buffer, matches: Test | undefined): Buffer[] {
  if (matches === undefined) return [block];
  return joined([...linesOf(block)].filter((line) => matches(line)));
}

/** Lines that lie beside each other in memory become one piece. */
export function joined(lines: readonly Buffer[]): Buffer[] {
  const pieces: Buffer[] = [];
  for (const line of lines) {
    const last = pieces.at(-1);
    const follows = last?.buffer === line.buffer && last.byteOffset + last.length === line.byteOffset;
    if (last !== undefined && follows) {
      pieces[pieces.length - 1] = Buffer.from(last.buffer, last.byteOffset, last.length + line.length);
    } else pieces.push(line);
  }
  return pieces;
}
