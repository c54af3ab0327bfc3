/** What does a strict reader make of these bytes? The grammar of RFC 9112 and no leniency at all; knows nothing of the router. */

type Fields = readonly (readonly [name: string, value: string])[];

type Message = {
  /** Lower-case names. */
  fields: Fields;
  /** Latin1. */
  body: string;
  trailers: Fields;
};
export type ReadRequest = Message & { method: string; target: string };
export type ReadAnswer = Message & { status: number };

type Rest = {
  /** What came behind the last whole message: the beginning of another, or nothing. */
  rest: string;
  /** Why reading stopped at something that no strict sender says. */
  problem?: string;
};
export type Reading = Rest & { requests: ReadRequest[] };
export type AnswerReading = Rest & { answers: ReadAnswer[] };

const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const requestLine = new RegExp(`^(${token}) (\\S+) HTTP/1\\.1$`);
const statusLine = /^HTTP\/1\.1 ([1-9]\d\d) [\t\x20-\x7e\x80-\xff]*$/;
const field = new RegExp(
  `^(${token}):[ \\t]*([\\x21-\\x7e\\x80-\\xff](?:[\\t\\x20-\\x7e\\x80-\\xff]*[\\x21-\\x7e\\x80-\\xff])?)?[ \\t]*$`,
);
const quoted = '"(?:[\\t\\x20-\\x21\\x23-\\x5b\\x5d-\\x7e\\x80-\\xff]|\\\\[\\t\\x20-\\x7e\\x80-\\xff])*"';
const extension = new RegExp(`^(?:[ \\t]*;[ \\t]*${token}(?:[ \\t]*=[ \\t]*(?:${token}|${quoted}))?)*$`);

class Unreadable extends Error {}

type Read<M> = { message: M; end: number };

/** Reads whole requests until the bytes end or make no sense. */
export function readRequests(bytes: string): Reading {
  const { messages, ...rest } = readAll(bytes, readRequest);
  return { requests: messages, ...rest };
}

/** Final answers to requests with bodies, preliminary ones left out. `isEnded`: nothing more will come. */
export function readAnswers(bytes: string, options: { isEnded: boolean }): AnswerReading {
  const { messages, ...rest } = readAll(bytes, (all, start) => readAnswer(all, start, options.isEnded));
  return { answers: messages.filter(({ status }) => status >= 200), ...rest };
}

function readAll<M>(
  bytes: string,
  readOne: (bytes: string, start: number) => Read<M> | undefined,
): Rest & { messages: M[] } {
  const messages: M[] = [];
  let at = 0;
  try {
    while (at < bytes.length) {
      const next = readOne(bytes, at);
      if (next === undefined) break;
      messages.push(next.message);
      at = next.end;
    }
    return { messages, rest: bytes.slice(at) };
  } catch (error) {
    if (!(error instanceof Unreadable)) throw error;
    return { messages, rest: bytes.slice(at), problem: error.message };
  }
}

function readRequest(bytes: string, start: number): Read<ReadRequest> | undefined {
  const head = readHead(bytes, start);
  if (head === undefined) return undefined;
  const [, method = '', target = ''] =
    requestLine.exec(head.first) ?? fail(`request line ${JSON.stringify(head.first)}`);
  if (!/^(?:\/[\x21-\x7e]*|\*)$/.test(target)) fail(`target ${JSON.stringify(target)}`);
  const hosts = head.fields.filter(([name]) => name === 'host').length;
  if (hosts !== 1) fail(`${hosts} Host fields`);
  const read = readBody(bytes, head, 'none');
  return read && { message: { method, target, fields: head.fields, ...read.message }, end: read.end };
}

function readAnswer(bytes: string, start: number, isEnded: boolean): Read<ReadAnswer> | undefined {
  const head = readHead(bytes, start);
  if (head === undefined) return undefined;
  const [, digits = ''] = statusLine.exec(head.first) ?? fail(`status line ${JSON.stringify(head.first)}`);
  const status = Number(digits);
  if (status === 101) fail('a switch of protocols');
  if (status < 200 || status === 204 || status === 304) {
    return { message: { status, fields: head.fields, body: '', trailers: [] }, end: head.end };
  }
  const read = readBody(bytes, head, isEnded ? 'all' : 'more');
  return read && { message: { status, fields: head.fields, ...read.message }, end: read.end };
}

type Head = { first: string; fields: Fields; end: number };

function readHead(bytes: string, start: number): Head | undefined {
  const end = bytes.indexOf('\r\n\r\n', start);
  if (end < 0) return undefined;
  const [first = '', ...lines] = bytes.slice(start, end).split('\r\n');
  return { first, fields: readFields(lines), end: end + 4 };
}

/** `unframed`: what a message has that says nothing of its length. */
function readBody(
  bytes: string,
  { fields, end: start }: Head,
  unframed: 'none' | 'all' | 'more',
): Read<Omit<Message, 'fields'>> | undefined {
  const values = (wanted: string) => fields.filter(([name]) => name === wanted).map(([, value]) => value);
  const [length, ...moreLengths] = values('content-length');
  const [coding, ...moreCodings] = values('transfer-encoding');
  if (moreLengths.length + moreCodings.length > 0) fail('its length twice');
  if (length !== undefined && coding !== undefined) fail('two ways to tell its length');
  if (coding !== undefined) {
    if (coding.toLowerCase() !== 'chunked') fail(`coding ${coding}`);
    const chunked = readChunked(bytes, start);
    return chunked && { message: { body: chunked.body, trailers: chunked.trailers }, end: chunked.end };
  }
  if (length === undefined && unframed === 'more') return undefined;
  if (length !== undefined && !/^\d{1,15}$/.test(length)) fail(`length ${length}`);
  const end = length === undefined && unframed === 'all' ? bytes.length : start + Number(length ?? 0);
  return bytes.length < end ? undefined : { message: { body: bytes.slice(start, end), trailers: [] }, end };
}

function readFields(lines: readonly string[]): Fields {
  return lines.map((line) => {
    const [, name = '', value = ''] = field.exec(line) ?? fail(`field ${JSON.stringify(line)}`);
    return [name.toLowerCase(), value] as const;
  });
}

function readChunked(bytes: string, start: number): { body: string; trailers: Fields; end: number } | undefined {
  let body = '';
  let at = start;
  for (;;) {
    const lineEnd = bytes.indexOf('\r\n', at);
    if (lineEnd < 0) return undefined;
    const line = bytes.slice(at, lineEnd);
    const [, digits = '', extensions = ''] =
      /^([0-9A-Fa-f]{1,13})(.*)$/s.exec(line) ?? fail(`chunk ${JSON.stringify(line)}`);
    if (!extension.test(extensions)) fail(`chunk extension ${JSON.stringify(extensions)}`);
    const size = Number.parseInt(digits, 16);
    at = lineEnd + 2;
    if (size === 0) break;
    if (bytes.length < at + size + 2) return undefined;
    body += bytes.slice(at, at + size);
    at += size;
    if (bytes.slice(at, at + 2) !== '\r\n') fail('a chunk longer than it said');
    at += 2;
  }
  if (bytes.startsWith('\r\n', at)) return { body, trailers: [], end: at + 2 };
  const trailerEnd = bytes.indexOf('\r\n\r\n', at);
  if (trailerEnd < 0) return undefined;
  return { body, trailers: readFields(bytes.slice(at, trailerEnd).split('\r\n')), end: trailerEnd + 4 };
}

function fail(problem: string): never {
  throw new Unreadable(problem);
}
