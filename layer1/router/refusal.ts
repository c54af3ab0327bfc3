/** What the router answers itself. */
import { STATUS_CODES } from 'node:http';
import type { Answer } from './exchange.ts';

export type Refusal = { status: number; code: string; message: string };

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
  noBackends: {
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
  broken: {
    status: 502,
    code: 'backend-broke',
    message: 'The app ended the connection before it answered. "flynn log" may say why.',
  },
  late: { status: 504, code: 'backend-late', message: 'The app did not answer in time. "flynn log" may say why.' },
} as const satisfies Record<string, Refusal>;

/** HTML for who reads it in a browser. */
export function answerOf(refusal: Refusal, options: { requestId: string; wantsHtml: boolean }): Answer {
  const { type, body } = render(refusal, options);
  const fields = ['content-type', type, 'cache-control', 'no-store', 'x-request-id', options.requestId];
  return { status: refusal.status, code: refusal.code, fields, body };
}

function render(refusal: Refusal, options: { requestId: string; wantsHtml: boolean }): { type: string; body: string } {
  const title = `${refusal.status} ${STATUS_CODES[refusal.status] ?? ''}`;
  if (!options.wantsHtml) {
    return { type: 'text/plain; charset=utf-8', body: `${title}\n${refusal.message}\nrequest ${options.requestId}\n` };
  }
  const escape = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
  const body = `<!doctype html><html lang="en"><meta charset="utf-8"><title>${title}</title>
<body style="font-family:sans-serif;max-width:40em;margin:15vh auto;padding:0 1em">
<h1>${title}</h1><p>${escape(refusal.message)}</p><p style="color:#666">request ${escape(options.requestId)}</p></body></html>
`;
  return { type: 'text/html; charset=utf-8', body };
}
