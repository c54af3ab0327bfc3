/** What the router answers itself. */
import { STATUS_CODES } from 'node:http';
import type { ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

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

/** The connection ends after it when the client may still be sending: the rest of a body must not count as a request. */
export function refuse(
  response: ServerResponse,
  refusal: Refusal,
  options: { requestId: string; wantsHtml: boolean; closes: boolean },
): void {
  if (response.headersSent || response.destroyed) return;
  const { type, body } = render(refusal, options);
  if (options.closes) response.shouldKeepAlive = false;
  response.writeHead(refusal.status, {
    'content-type': type,
    'content-length': Buffer.byteLength(body),
    'cache-control': 'no-store',
    'x-flynn-error': refusal.code,
    'x-request-id': options.requestId,
  });
  response.end(body);
}

/** The same for a connection that has no response object because it asked for an upgrade. */
export function refuseSocket(socket: Duplex, refusal: Refusal, requestId: string): void {
  if (socket.destroyed || !socket.writable) return;
  const { type, body } = render(refusal, { requestId, wantsHtml: false });
  socket.end(
    `HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status] ?? ''}\r\nConnection: close\r\nContent-Type: ${type}\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nX-Flynn-Error: ${refusal.code}\r\nX-Request-Id: ${requestId}\r\n\r\n${body}`,
    // Nobody reads from it, so the client's end would never be noticed.
    () => socket.destroy(),
  );
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
