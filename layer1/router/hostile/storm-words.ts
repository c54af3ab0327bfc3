/** What hostile peers say, by the dice of a seed: names, values, statuses and bodies that are mostly fit for nothing. */

export type Dice = () => number;

export function of<const T>(dice: Dice, from: readonly [T, ...T[]]): T {
  return from[Math.floor(dice() * from.length)] ?? from[0];
}

export function chance(dice: Dice, share: number): boolean {
  return dice() < share;
}

export function upTo(dice: Dice, most: number): number {
  return Math.floor(dice() * (most + 1));
}

/** Those that one of the protocols, or Node, has an opinion of. */
const special = [
  'http2-settings',
  'te',
  'keep-alive',
  'connection',
  'proxy-connection',
  'proxy-authorization',
  'transfer-encoding',
  'upgrade',
  'trailer',
  'content-length',
] as const;

const names = [
  'host',
  'expect',
  'date',
  'cookie',
  'set-cookie',
  'location',
  'sec-websocket-key',
  'sec-websocket-accept',
  'x-request-id',
  'x-forwarded-for',
  'forwarded',
  'x_forwarded_for',
  'x-flynn-error',
  '__proto__',
  'constructor',
  'link',
  'x',
  'X-Upper',
  ':status',
  ':path',
  'not a name',
  '',
  'n'.repeat(400),
] as const;

const values = [
  'x',
  '',
  'trailers',
  'close',
  'keep-alive, x',
  'Upgrade, HTTP2-Settings',
  'h2c',
  'websocket',
  'chunked',
  '100-continue',
  '5',
  '0',
  '-1',
  '99999999999999999999',
  'AAMAAABkAAQAoAAAAAIAAAAA',
  '\xff\xfe',
  'a\tb',
  'a\0b',
  'a\r\nb: c',
  ' ',
  'v'.repeat(9_000),
] as const;

/** Some of each, name after value. */
export function oddFields(dice: Dice, most: number): string[] {
  const one = () => [chance(dice, 0.4) ? of(dice, special) : of(dice, names), of(dice, values)];
  return Array.from({ length: upTo(dice, most) }, one).flat();
}

export const statuses = [
  '200',
  '200',
  '200',
  '204',
  '205',
  '304',
  '404',
  '421',
  '500',
  '599',
  '600',
  '999',
  '100',
  '101',
  '103',
  '099',
  'abc',
] as const;

/** As lines of HTTP/1, mostly ones that are taken. */
export function oddLines(dice: Dice, most: number): string {
  const fields = oddFields(dice, most);
  let lines = '';
  for (let i = 0; i < fields.length; i += 2) {
    const [name = '', value = ''] = fields.slice(i, i + 2);
    const isTaken = /^[\w-]+$/.test(name) && !/[\0\r\n]/.test(value) && !framing.has(name.toLowerCase());
    if (isTaken || chance(dice, 0.05)) lines += `${name}: ${value}\r\n`;
  }
  return lines;
}

/** What else would be refused before anything comes of it. */
const framing = new Set(['content-length', 'transfer-encoding', 'host', 'expect']);

/** A body with the lines that frame it. */
export function oddBody(dice: Dice): { lines: string; body: string } {
  const data = 'd'.repeat(of(dice, [0, 1, 5, 5, 3_000, 100_000]));
  switch (of(dice, ['none', 'none', 'length', 'short', 'chunks', 'chunks', 'broken', 'until-close'])) {
    case 'length':
      return { lines: `Content-Length: ${data.length}\r\n`, body: data };
    case 'short':
      return { lines: `Content-Length: ${data.length + 10}\r\n`, body: data };
    case 'chunks': {
      const chunk = data === '' ? '' : `${data.length.toString(16)}\r\n${data}\r\n`;
      return { lines: 'Transfer-Encoding: chunked\r\n', body: `${chunk}0\r\n${oddLines(dice, 3)}\r\n` };
    }
    case 'broken':
      return {
        lines: 'Transfer-Encoding: chunked\r\n',
        body: `5\r\nhello\r\n${of(dice, ['zz\r\n', '5\r\nhe', '\n'])}`,
      };
    case 'until-close':
      return { lines: '', body: data };
    case 'none':
      break;
  }
  return { lines: '', body: '' };
}
