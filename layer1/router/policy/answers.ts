/** What the router answers itself: which status, which code, and how it reads. */
import { STATUS_CODES } from 'node:http';
import type { Answer, Fields, Problem } from '../exchange.ts';

export type Refusal = { readonly status: number; readonly code: string; readonly message: string };

export const refusals = {
  unknownHost: {
    status: 404,
    code: 'unknown-host',
    message: 'There is no app at this address. Whoever runs it can see its addresses with "flynn route".',
  },
  starting: {
    status: 503,
    code: 'starting',
    message: 'The router does not know the routes yet. Try again in a moment.',
  },
  maintenance: {
    status: 503,
    code: 'maintenance',
    message: 'This app is being worked on and will be back soon.',
  },
  passwordWanted: {
    status: 401,
    code: 'password-wanted',
    message: 'This address is for those who have a user name and a password for it.',
  },
  addressRefused: {
    status: 403,
    code: 'address-refused',
    message: 'This address does not answer where you ask from.',
  },
  passwordTooOften: {
    status: 429,
    code: 'password-tried-too-often',
    message: 'Too many wrong passwords came from this address. Try again a little later.',
  },
  passwordsBusy: {
    status: 503,
    code: 'busy',
    message: 'Too many passwords are being looked at. Try again in a moment.',
  },
  http2Only: {
    status: 505,
    code: 'http2-only',
    message: 'This app speaks HTTP/2 only, so no connection of HTTP/1 is upgraded to it. Ask it over HTTP/2.',
  },
  tooLarge: {
    status: 413,
    code: 'body-too-large',
    message: 'The request is larger than this app takes.',
  },
  rateLimited: {
    status: 429,
    code: 'rate-limited',
    message: 'Too many requests came from this address. Try again a little later.',
  },
  clientFull: {
    status: 429,
    code: 'too-many-requests-at-once',
    message: 'Too many requests from this address are under way at the same time. Try again when one has ended.',
  },
  full: {
    status: 503,
    code: 'busy',
    message: 'This app has as many requests under way as it takes at the same time. Try again in a moment.',
  },
} as const satisfies Record<string, Refusal>;

export const problems: Readonly<Record<Problem, Refusal>> = {
  'no-backends': {
    status: 503,
    code: 'no-backends',
    message:
      'No process of this app is running. Whoever runs it can look with "flynn ps" and start some with "flynn scale".',
  },
  unreachable: {
    status: 503,
    code: 'unreachable',
    message: 'The processes of this app cannot be reached. Try again in a moment; "flynn log" may say more.',
  },
  'backend-broke': {
    status: 502,
    code: 'backend-broke',
    message: 'The app ended the connection before it answered. "flynn log" may say why.',
  },
  unfit: {
    status: 400,
    code: 'bad-request',
    message:
      'The router cannot pass this request on: its head is more than this app takes, or has a field that HTTP/2 does not.',
  },
  'backend-late': {
    status: 504,
    code: 'backend-late',
    message: 'The app did not answer in time. "flynn log" may say why.',
  },
  'too-late': {
    status: 504,
    code: 'too-late',
    message: 'The app did not end its answer in the time that this address allows.',
  },
  'body-too-large': refusals.tooLarge,
  'client-slow': {
    status: 408,
    code: 'client-slow',
    message: 'The request did not arrive in time.',
  },
};

export type Reader = {
  /** What the client says it takes. */
  readonly accept: string | undefined;
  readonly requestId: string;
};

/** HTML of the app's own, by status (`503`), class (`5xx`) or `maintenance`. */
export type Pages = Readonly<Record<string, string>>;

/** `more` are further fields. */
export function answerOf(refusal: Refusal, reader: Reader, pages: Pages = {}, more: Fields = []): Answer {
  const { status, code } = refusal;
  const form = formFor(reader.accept);
  const page = pageFor(pages, refusal, reader.accept);
  const [type, body] =
    form === 'json'
      ? ['application/json', jsonOf(refusal, reader.requestId)]
      : page !== undefined
        ? ['text/html; charset=utf-8', page]
        : form === 'html'
          ? ['text/html; charset=utf-8', htmlOf(refusal, reader.requestId)]
          : ['text/plain; charset=utf-8', textOf(refusal, reader.requestId)];
  const fields = ['content-type', type, 'cache-control', 'no-store', 'x-request-id', reader.requestId, ...more];
  return { status, code, fields, body };
}

/** The app's own, which goes to everybody but who asks for JSON. */
export function pageFor(
  pages: Pages,
  { status, code }: Pick<Refusal, 'status' | 'code'>,
  accept: string | undefined,
): string | undefined {
  const page = (code === 'maintenance' ? pages['maintenance'] : undefined) ?? pages[status] ?? pages[classOf(status)];
  return page === undefined || formFor(accept) === 'json' ? undefined : page;
}

function classOf(status: number): string {
  return `${Math.floor(status / 100)}xx`;
}

/** Method and body are kept (308). */
export function redirectTo(location: string, requestId: string, more: Fields = []): Answer {
  return {
    status: 308,
    code: '',
    fields: ['location', location, 'content-type', 'text/plain; charset=utf-8', 'x-request-id', requestId, ...more],
    body: `This is at ${location}\n`,
  };
}

/** Whichever is named first; browsers name HTML, and programs that care name JSON. */
function formFor(accept: string | undefined): 'html' | 'json' | 'text' {
  if (accept === undefined) return 'text';
  const html = accept.indexOf('text/html');
  const json = accept.indexOf('application/json');
  if (html === -1) return json === -1 ? 'text' : 'json';
  return json === -1 || html < json ? 'html' : 'json';
}

function titleOf(status: number): string {
  return `${status} ${STATUS_CODES[status] ?? ''}`.trim();
}

function textOf({ status, message }: Refusal, requestId: string): string {
  return `${titleOf(status)}\n${message}\nrequest ${requestId}\n`;
}

function jsonOf({ code, message }: Refusal, requestId: string): string {
  return `${JSON.stringify({ code, message, requestId })}\n`;
}

function htmlOf({ status, message }: Refusal, requestId: string): string {
  const title = titleOf(status);
  return `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${title}</title>
<body style="font-family:sans-serif;max-width:40em;margin:15vh auto;padding:0 1em">
<h1>${title}</h1><p>${escape(message)}</p><p style="color:#666">request ${escape(requestId)}</p></body></html>
`;
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}
