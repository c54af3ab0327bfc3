/** Chunks, their extensions and terminators, and trailers. */
import type { Case } from './corpus.ts';
import { either, get, hostLine, inner, lastChunk, passed, post, posting, refused, shown } from './corpus-parts.ts';

const chunked = (body: string): string => posting('Transfer-Encoding: chunked\r\n', body);

const sizes: Case[] = [
  ...[
    '',
    ' ',
    ' 5',
    '\t5',
    '+5',
    '-5',
    '0x5',
    '0X5',
    '5h',
    'h',
    'x',
    '5_0',
    '_5',
    '"5"',
    '5,',
    '5.0',
    '5 5',
    '5\t5',
    '\x005',
    '5\x00',
    '\x0b5',
    '5\x0b',
    '\xa05',
    '5\x85',
    'FFFFFFFFFFFFFFFFF',
    'FFFFFFFFFFFFFFFF',
    '8000000000000005',
    '10000000000000005',
    '100000000000000000000000000000005',
    '\u00b2',
    ';a',
    '=',
    '5=a',
    '5\r',
    '5:a',
  ].map((size) => refused(`chunk size "${shown(size)}"`, chunked(`${size}\r\nhello\r\n${lastChunk}${inner}`))),
  ...['5 ', '5\t', '0000000005'].map((size) =>
    either(`chunk size "${shown(size)}"`, chunked(`${size}\r\nhello\r\n${lastChunk}`), post('hello')),
  ),
  passed(
    'chunk sizes in both cases',
    chunked(`a\r\n0123456789\r\nA\r\n0123456789\r\n${lastChunk}`),
    post('01234567890123456789'),
  ),
  either('a last chunk of many zeros', chunked('5\r\nhello\r\n0000000\r\n\r\n'), post('hello')),
];

const extensions: Case[] = [
  ...[';a', ';a=b', ';a="b c"', ';a;b=c;d'].map((text) =>
    either(`chunk extension "${shown(text)}"`, chunked(`5${text}\r\nhello\r\n0${text}\r\n\r\n`), post('hello')),
  ),
  ...[' ;a', '\t;a', '; a', ';a = b', ';', ';;', ';=', ';a=', ';a="', ';a="b', ';a=b c', ';a"b', '; ', ';a="\\""'].map(
    (text) => either(`chunk extension "${shown(text)}"`, chunked(`5${text}\r\nhello\r\n${lastChunk}`), post('hello')),
  ),
  ...[
    ';\n',
    ';a\n',
    ';a=\n',
    ';\nx',
    ';a="\n"',
    ';a="\r\n"',
    ';\rx',
    ';a\r',
    ';a\rb',
    ';\x00',
    ';a\x00b',
    ';a=\x01',
    ';\x7f',
    '\n',
    '\nx',
    '\r',
    '\rx',
    ';a\r\r',
    ';\n\n',
  ].map((text) => refused(`TERM.EXT: "${shown(text)}"`, chunked(`5${text}\r\nhello\r\n${lastChunk}`))),
  // One reads a chunk of 2 that ends here, another an extension that goes on to the CRLF.
  refused('TERM.EXT with a request behind it', chunked(`2;\nxx\r\n${(0x4c).toString(16)}\r\n0\r\n\r\n${inner}`)),
  refused('EXT.TERM with a request behind it', chunked(`2;x\nxx\r\n22\r\n0\r\n\r\n${inner}`)),
  refused('an extension of 20 KB', chunked(`5;${'a'.repeat(20_000)}\r\nhello\r\n${lastChunk}`)),
];

const terminators: Case[] = [
  ...['\n', '\r', '', 'XX', 'X\r\n', '\n\n', '\r\r\n', '\n\r', ' \r\n', '\rX', '\x00\x00'].map((end) =>
    refused(`SPILL: a chunk ended by "${shown(end)}"`, chunked(`5\r\nhello${end}${lastChunk}`)),
  ),
  ...['\n', '\r', '\r\r\n', '\rX', '\n\r'].map((end) =>
    refused(`TERM: a chunk size ended by "${shown(end)}"`, chunked(`5${end}hello\r\n${lastChunk}`)),
  ),
  ...[
    '0\n\n',
    '0\r\n\n',
    '0\n\r\n',
    '0\r\r',
    '0\r\n\r\r\n',
    '0\r\n\rX',
    '00x\r\n\r\n',
    '0 0\r\n\r\n',
    '-0\r\n\r\n',
  ].map((end) => refused(`a last chunk "${shown(end)}"`, chunked(`5\r\nhello\r\n${end}${inner}`))),
  refused('a chunk shorter than its size', chunked(`6\r\nhello\r\n${lastChunk}`)),
  refused('a chunk longer than its size', chunked(`4\r\nhello\r\n${lastChunk}`)),
  passed(
    'another request behind a chunked one',
    `${chunked(`5\r\nhello\r\n${lastChunk}`)}GET /2 HTTP/1.1\r\n${hostLine}\r\n`,
    post('hello'),
    get('/2'),
  ),
];

const trailers: Case[] = [
  passed('a trailer', chunked('5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n'), post('hello')),
  ...[
    'Content-Length: 0',
    'Transfer-Encoding: chunked',
    'Host: other.test',
    'Authorization: x',
    'Trailer: x',
    'Connection: close',
  ].map((line) =>
    either(`a trailer that may not be one: "${line}"`, chunked(`5\r\nhello\r\n0\r\n${line}\r\n\r\n`), post('hello')),
  ),
  ...[
    'X',
    'X : y',
    ' X: y',
    ': y',
    'X: y\r\n z',
    'X: y\nZ: z',
    'X: y\rZ: z',
    'X: \x00',
    'X\x00: y',
    'X: y\n',
    'X(: y',
    'GET /smuggled HTTP/1.1',
  ].map((line) => refused(`a trailer "${shown(line)}"`, chunked(`5\r\nhello\r\n0\r\n${line}\r\n\r\n${inner}`))),
  refused('a trailer of 100 KB', chunked(`5\r\nhello\r\n0\r\nX: ${'a'.repeat(100_000)}\r\n\r\n`)),
];

const upgrades: Case[] = [
  passed(
    'h2c by Upgrade',
    `GET / HTTP/1.1\r\n${hostLine}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n`,
    get(),
  ),
  refused(
    'an upgrade with a body in chunks and a length',
    posting(
      `Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n`,
      lastChunk,
    ),
  ),
  either(
    'an upgrade with a body',
    posting('Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 5\r\n', 'hello'),
    post('hello'),
  ),
];

export const bodies: readonly Case[] = [...sizes, ...extensions, ...terminators, ...trailers, ...upgrades];
