/** What the messages of the corpus are made of. */
import type { Case, Through } from './corpus.ts';

export const hostLine = 'Host: app.test\r\n';
/** What an attacker wants a backend to take for a request. */
export const inner = 'GET /smuggled HTTP/1.1\r\nHost: app.test\r\n\r\n';

export function refused(name: string, bytes: string): Case {
  return { name, bytes, must: 'refused' };
}

export function passed(name: string, bytes: string, ...requests: Through[]): Case {
  return { name, bytes, must: { passed: requests } };
}

export function either(name: string, bytes: string, ...requests: Through[]): Case {
  return { name, bytes, must: { either: requests } };
}

export const get = (target = '/'): Through => ({ method: 'GET', target, body: '' });
export const post = (body: string): Through => ({ method: 'POST', target: '/', body });

/** A POST with these lines behind its Host. */
export const posting = (lines: string, body = ''): string => `POST / HTTP/1.1\r\n${hostLine}${lines}\r\n${body}`;

export const chunkOf = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`;
export const lastChunk = '0\r\n\r\n';

/** For the names of cases. */
export const shown = (text: string): string => JSON.stringify(text).slice(1, -1);
