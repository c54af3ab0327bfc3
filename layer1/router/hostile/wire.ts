/** What does a strict reader make of these bytes? The grammar of RFC 9112 and no leniency at all; knows nothing of the router. */

export type ReadRequest = {
  method: string;
  target: string;
  /** Lower-case name, value. */
  fields: readonly (readonly [name: string, value: string])[];
  /** Latin1. */
  body: string;
  trailers: readonly (readonly [name: string, value: string])[];
};

export type Reading = {
  requests: ReadRequest[];
  /** What came behind the last whole request: the beginning of another, or nothing. */
  rest: string;
  /** Why reading stopped at something that no strict sender says. */
  problem?: string;
};

const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const requestLine = new RegExp(`^(${token}) (\\S+) HTTP/1\\.1$`);
const field = new RegExp(
  `^(${token}):[ \\t]*([\\x21-\\x7e\\x80-\\xff](?:[\\t\\x20-\\x7e\\x80-\\xff]*[\\x21-\\x7e\\x80-\\xff])?)?[ \\t]*$`,
);
const quoted = '"(?:[\\t\\x20-\\x21\\x23-\\x5b\\x5d-\\x7e\\x80-\\xff]|\\\\[\\t\\x20-\\x7e\\x80-\\xff])*"';
const extension = new RegExp(`^(?:[ \\t]*;[ \\t]*${token}(?:[ \\t]*=[ \\t]*(?:${token}|${quoted}))?)*$`);

class Unreadable extends Error {}

/** Reads whole requests until the bytes end or make no sense. */
export function readRequests(bytes: string): Reading {
  const requests: ReadRequest[] = [];
  let at = 0;
  try {
    for (;;) {
      const next = readRequest(bytes, at);
      if (next === undefined) return { requests, rest: bytes.slice(at) };
      requests.push(next.request);
      at = next.end;
    }
  } catch (error) {
    if (!(error instanceof Unreadable)) throw error;
    return { requests, rest: bytes.slice(at), problem: error.message };
  }
}

function readRequest(bytes: string, start: number): { request: ReadRequest; end: number } | undefined {
  const headEnd = bytes.indexOf('\r\n\r\n', start);
  if (headEnd < 0) return undefined;
  const [first = '', ...lines] = bytes.slice(start, headEnd).split('\r\n');
  const [, method = '', target = ''] = requestLine.exec(first) ?? fail(`request line ${JSON.stringify(first)}`);
  if (!/^(?:\/[\x21-\x7e]*|\*)$/.test(target)) fail(`target ${JSON.stringify(target)}`);
  const fields = readFields(lines);
  const values = (wanted: string) => fields.filter(([name]) => name === wanted).map(([, value]) => value);
  if (values('host').length !== 1) fail(`${values('host').length} Host fields`);
  const [length, ...moreLengths] = values('content-length');
  const [coding, ...moreCodings] = values('transfer-encoding');
  if (moreLengths.length + moreCodings.length > 0) fail('its length twice');
  if (length !== undefined && coding !== undefined) fail('two ways to tell its length');
  const bodyStart = headEnd + 4;
  if (coding !== undefined) {
    if (coding.toLowerCase() !== 'chunked') fail(`coding ${coding}`);
    const chunked = readChunked(bytes, bodyStart);
    if (chunked === undefined) return undefined;
    const { body, trailers, end } = chunked;
    return { request: { method, target, fields, body, trailers }, end };
  }
  if (length !== undefined && !/^\d{1,15}$/.test(length)) fail(`length ${length}`);
  const end = bodyStart + Number(length ?? 0);
  if (bytes.length < end) return undefined;
  return { request: { method, target, fields, body: bytes.slice(bodyStart, end), trailers: [] }, end };
}

function readFields(lines: readonly string[]): (readonly [string, string])[] {
  return lines.map((line) => {
    const [, name = '', value = ''] = field.exec(line) ?? fail(`field ${JSON.stringify(line)}`);
    return [name.toLowerCase(), value] as const;
  });
}

function readChunked(
  bytes: string,
  start: number,
): { body: string; trailers: ReadRequest['trailers']; end: number } | undefined {
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
