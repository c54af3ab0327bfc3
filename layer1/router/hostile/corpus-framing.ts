/** Content-Length and Transfer-Encoding: CL.TE, TE.CL, TE.TE, CL.CL, CL.0, TE.0, 0.CL. */
import type { Case } from './corpus.ts';
import {
  chunkOf,
  either,
  get,
  hostLine,
  inner,
  lastChunk,
  passed,
  post,
  posting,
  refused,
  shown,
} from './corpus-parts.ts';

const smuggle = `${lastChunk}${inner}`;
const cl = (length: number) => `Content-Length: ${length}\r\n`;
const te = 'Transfer-Encoding: chunked\r\n';

/** Bytes that were found to be taken for white space, or for nothing, by one server or another. */
const odd = [
  ...Array.from({ length: 0x20 }, (_, code) => code),
  0x22,
  0x27,
  0x2c,
  0x3a,
  0x3b,
  0x7f,
  0x80,
  0x85,
  0x96,
  0xa0,
  0xad,
  0xff,
].map((code) => String.fromCharCode(code));

/** Transfer-Encoding so written that some see it and some do not. */
const disguises = [
  'Transfer-Encoding : chunked',
  'Transfer-Encoding\t:\tchunked',
  ' Transfer-Encoding: chunked',
  'Transfer Encoding: chunked',
  'Transfer-Encoding: xchunked',
  'Transfer-Encoding: chunkedx',
  'Transfer-Encoding: chunk',
  'Transfer-Encoding: "chunked"',
  "Transfer-Encoding: 'chunked'",
  'Transfer-Encoding: [chunked]',
  'Transfer-Encoding: chunked, cow',
  'Transfer-Encoding: cow, chunked',
  'Transfer-Encoding: cow chunked bar',
  'Transfer-Encoding: chunked;q=1',
  'Transfer-Encoding: chunked;foo',
  'Transfer-Encoding: chunked, chunked',
  'Transfer-Encoding: chunked,',
  'Transfer-Encoding: ,chunked',
  'Transfer-Encoding: chunked, identity',
  'Transfer-Encoding: identity, chunked',
  'Transfer-Encoding: identity',
  'Transfer-Encoding: gzip',
  'Transfer-Encoding: gzip, chunked',
  'Transfer-Encoding: deflate',
  'Transfer-Encoding:',
  'Transfer-Encoding: ',
  'Transfer-Encoding:\r\n chunked',
  'Transfer-Encoding:\r\n\tchunked',
  'Transfer-Encoding:\n chunked',
  'Transfer-Encoding: chunked\r\n x',
  'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked',
  'Transfer-Encoding: chunked\r\nTransfer-Encoding: cow',
  'Transfer-Encoding: cow\r\nTransfer-Encoding: chunked',
  'Transfer-Encoding: chunked\r\nTransfer-encoding: identity',
  'Transfer-Encoding: identity\r\nTransfer-Encoding: chunked',
  'Transfer-Encoding: chunked\r\nTransfer-Encoding:',
  'Transfer-Encoding: chunked\n',
  'Transfer-Encoding\n: chunked',
  'Transfer\r-Encoding: chunked',
  'Transf\x82r-Encoding: chunked',
  'Transfer-Encoding: ch\x96nked',
  'Transfer-Encoding\\: chunked',
  'Transfer-Encoding: \\x63hunked',
  'X: X\rTransfer-Encoding: chunked',
  'X: X\nTransfer-Encoding: chunked',
  'X:X\r\n\rTransfer-Encoding: chunked',
  'Foo: bar\r\n\r Transfer-Encoding: chunked',
];

const both: Case[] = [
  refused('CL.TE', posting(cl(inner.length + 5) + te, smuggle)),
  refused('TE.CL', posting(te + cl(4), `${chunkOf(inner)}${lastChunk}`)),
  refused('CL.TE with a length of 0', posting(cl(0) + te, smuggle)),
  refused('CL.TE of a GET', `GET / HTTP/1.1\r\n${hostLine}${cl(5)}${te}\r\n${smuggle}`),
  refused('CL.TE of HTTP/1.0', `POST / HTTP/1.0\r\n${hostLine}${cl(5)}${te}\r\n${smuggle}`),
  ...disguises.map((line) => refused(`TE.TE with a length: "${shown(line)}"`, posting(`${line}\r\n${cl(5)}`, smuggle))),
  ...disguises.map((line) =>
    refused(`TE.TE before the length: "${shown(line)}"`, posting(`${cl(5)}${line}\r\n`, smuggle)),
  ),
  // Names that the router has no business with; a gateway that takes underscores for dashes would.
  either(
    'Transfer_Encoding beside a length',
    posting(`Transfer_Encoding: chunked\r\n${cl(5)}`, lastChunk),
    post(lastChunk),
  ),
  passed('Content-Encoding: chunked', posting(`Content-Encoding: chunked\r\n${cl(5)}`, lastChunk), post(lastChunk)),
  passed('X-Transfer-Encoding', posting(`X-Transfer-Encoding: chunked\r\n${cl(5)}`, lastChunk), post(lastChunk)),
  passed('TE: chunked', posting(`TE: chunked\r\n${cl(5)}`, lastChunk), post(lastChunk)),
  ...odd.flatMap((byte) =>
    [
      `Transfer-Encoding:${byte}chunked`,
      `Transfer-Encoding${byte}: chunked`,
      `${byte}Transfer-Encoding: chunked`,
      `Transfer-Encoding: chunked${byte}`,
      `Transfer-Encoding: ${byte}chunked`,
      `Transfer${byte}Encoding: chunked`,
    ]
      // An apostrophe may stand in a name, and a colon ends one: those are fields of other names.
      .filter((line) => line.startsWith('Transfer-Encoding:') || (byte !== "'" && !line.startsWith('Transfer:')))
      .map((line) => refused(`TE.TE by one byte: "${shown(line)}"`, posting(`${line}\r\n${cl(5)}`, smuggle))),
  ),
];

const codings: Case[] = [
  ...disguises
    .filter((line) => !line.includes('\n') || line.includes('\r\nTransfer'))
    .map((line) => refused(`Transfer-Encoding alone: "${shown(line)}"`, posting(`${line}\r\n`, smuggle))),
  refused('chunked in HTTP/1.0', `POST / HTTP/1.0\r\n${hostLine}${te}\r\n${lastChunk}`),
  passed('CHUNKED', posting('TRANSFER-ENCODING: CHUNKED\r\n', '5\r\nhello\r\n0\r\n\r\n'), post('hello')),
  either(
    'white space about chunked',
    posting('Transfer-Encoding: \t chunked \t \r\n', '5\r\nhello\r\n0\r\n\r\n'),
    post('hello'),
  ),
  passed(
    'no white space before chunked',
    posting('Transfer-Encoding:chunked\r\n', '5\r\nhello\r\n0\r\n\r\n'),
    post('hello'),
  ),
  ...['GET', 'DELETE', 'OPTIONS', 'PUT', 'PATCH', 'PROPFIND', 'HEAD'].map((method) =>
    passed(`TE.0: a chunked ${method}`, `${method} / HTTP/1.1\r\n${hostLine}${te}\r\n${chunkOf(inner)}${lastChunk}`, {
      method,
      target: '/',
      body: inner,
    }),
  ),
];

const lengths: Case[] = [
  ...[
    '+5',
    '-5',
    '-0',
    '0x5',
    '0X5',
    '5;',
    '5.0',
    '5e0',
    '5,5',
    '5, 5',
    '5,6',
    ',5',
    '5,',
    '5 5',
    '5\t5',
    '"5"',
    "'5'",
    'a',
    '5a',
    '',
    ' ',
    '\u00b2',
    '\xd9\xa5',
    '\x005',
    '5\x00',
    '\x0b5',
    '5\x0b',
    '\xa05',
    '5_0',
    '5\r',
    '5 ;',
    '0 5',
    '1 000',
    '18446744073709551617',
    '18446744073709551621',
    '9223372036854775808',
    '9'.repeat(40),
    `5${' '.repeat(3)}6`,
  ].map((value) =>
    refused(`Content-Length: "${shown(value)}"`, posting(`Content-Length: ${value}\r\n`, `hello${inner}`)),
  ),
  ...[
    'Content-Length: 5\r\nContent-Length: 5\r\n',
    'Content-Length: 5\r\nContent-Length: 0\r\n',
    'Content-Length: 0\r\nContent-Length: 5\r\n',
    'Content-Length: 5\r\ncontent-length: 6\r\n',
    'Content-Length: 5\r\nX: y\r\nContent-Length: 6\r\n',
    'Content-Length : 5\r\n',
    'Content-Length\t: 5\r\n',
    ' Content-Length: 5\r\n',
    'Content-Length:\r\n 5\r\n',
    'Content-Length: 5\r\n 0\r\n',
    'Content-Length: 5\r\nContent-Length: \r\n',
    'Content-Length\x00: 5\r\n',
    'Content-Length\x0b: 5\r\n',
    '\x0bContent-Length: 5\r\n',
    'Content Length: 5\r\n',
    'Content-Length: 5\nX: y\r\n',
  ].map((lines) => refused(`CL.CL: "${shown(lines)}"`, posting(lines, `hello${inner}`))),
  either('a length with leading zeros', posting('Content-Length: 0005\r\n', 'hello'), post('hello')),
  passed('white space about a length', posting('Content-Length: \t 5 \t \r\n', 'hello'), post('hello')),
  ...['GET', 'DELETE', 'OPTIONS', 'PUT', 'PATCH', 'HEAD'].map((method) =>
    passed(
      `CL.0: a request within the body of a ${method}`,
      `${method} / HTTP/1.1\r\n${hostLine}${cl(inner.length)}\r\n${inner}`,
      { method, target: '/', body: inner },
    ),
  ),
  passed('CL.0: a request within the body of a POST', posting(cl(inner.length), inner), post(inner)),
  passed('Content_Length beside a length', posting(`Content_Length: 0\r\n${cl(5)}`, 'hello'), post('hello')),
  passed('HTTP/1.0 with a length', `POST / HTTP/1.0\r\n${hostLine}${cl(5)}\r\nhello`, post('hello')),
  passed(
    'a length of nothing, then another request',
    `${posting(cl(0))}GET /2 HTTP/1.1\r\n${hostLine}\r\n`,
    post(''),
    get('/2'),
  ),
  passed('no length, then another request', `${posting('')}GET /2 HTTP/1.1\r\n${hostLine}\r\n`, post(''), get('/2')),
  ...['100-continue', '100-Continue', '100-continue, 100-continue', 'x', 'x 100-continue', '\t100-continue', ''].map(
    (value) =>
      either(`0.CL: Expect "${shown(value)}"`, posting(`Expect: ${value}\r\n${cl(inner.length)}`, inner), post(inner)),
  ),
  either(
    '0.CL: Expect of a GET',
    `GET / HTTP/1.1\r\n${hostLine}Expect: 100-continue\r\n${cl(inner.length)}\r\n${inner}`,
    {
      ...get(),
      body: inner,
    },
  ),
];

export const framings: readonly Case[] = [...both, ...codings, ...lengths];
