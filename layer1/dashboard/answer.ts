/** What every answer says besides its content, and how errors are told. */
import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { FlynnError, asFlynnError, httpStatusOf } from '@flynn/kit/errors';
import type { Asking } from './asking.ts';

/** No answer is anything else than what it says, is part of another page, or tells where somebody came from. */
export const guarded: OutgoingHttpHeaders = {
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
};

/** Of what is no page: were it shown as one, nothing in it would do anything. */
const dataPolicy = "default-src 'none'; frame-ancestors 'none'; sandbox";

export const ofData: OutgoingHttpHeaders = {
  ...guarded,
  'content-security-policy': dataPolicy,
  'cache-control': 'no-store',
};

/** Scripts, styles and connections of our own, and nothing of it inline. Some browsers know sockets by their own scheme only. */
export function pagePolicy({ host, isSecure }: Pick<Asking, 'host' | 'isSecure'>): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "font-src 'self'",
    "img-src 'self' data:",
    `connect-src 'self' ${isSecure ? 'wss' : 'ws'}://${host}`,
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join('; ');
}

export function sendJson(response: ServerResponse, status: number, value: unknown): void {
  const body = JSON.stringify(value);
  response.writeHead(status, {
    ...ofData,
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(body),
  });
  response.end(body);
}

/** As the controller writes them. A bug's message was written for nobody: the caller gets the id under which the log tells it. */
export function sendFailure(response: ServerResponse, error: unknown, requestId: string): number {
  const { code, message, detail } = asFlynnError(error);
  const status = httpStatusOf(code);
  if (response.headersSent) {
    response.destroy();
    return status;
  }
  const isBug = code === 'internal' && !(error instanceof FlynnError);
  const { retryAfterMs } = detail;
  if (typeof retryAfterMs === 'number') response.setHeader('retry-after', String(Math.ceil(retryAfterMs / 1_000)));
  const told = isBug ? `the dashboard failed unexpectedly; its log says why under request ${requestId}` : message;
  // What is left of a body that nobody reads would be taken for the next request.
  if (!response.req.complete) response.setHeader('connection', 'close');
  sendJson(response, status, { code, message: told, detail });
  return status;
}
