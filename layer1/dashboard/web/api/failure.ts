/** What the API refuses, in its own words: pages show the message as it is. Without zod, unlike FlynnError. */
import type { ErrorCode } from '@flynn/kit/errors';

export class Failure extends Error {
  readonly code: ErrorCode;
  readonly detail: Readonly<Record<string, unknown>>;

  constructor(code: ErrorCode, message: string, detail: Readonly<Record<string, unknown>> = {}) {
    super(message);
    this.name = 'Failure';
    this.code = code;
    this.detail = detail;
  }
}

/** Of a body `{code, message, detail}`; of any other, which somebody in between wrote, what the status says. */
export function failureOf(status: number, body: unknown): Failure {
  if (typeof body === 'object' && body !== null && 'code' in body && 'message' in body) {
    const { code, message } = body;
    const detail =
      'detail' in body && typeof body.detail === 'object' && body.detail !== null ? { ...body.detail } : {};
    if (isCode(code) && typeof message === 'string') return new Failure(code, message, detail);
  }
  return new Failure(codeOf(status), `the cluster answered with status ${status} and did not say why; try again`);
}

/** Anything thrown; what `fetch` throws is a connection that did not come about or broke. */
export function asFailure(error: unknown): Failure {
  if (error instanceof Failure) return error;
  if (error instanceof Error && error.name === 'TimeoutError') {
    return new Failure(
      'timeout',
      'there was no answer in time; what was asked for may still be done: look before you repeat it',
    );
  }
  if (error instanceof Error && error.name === 'AbortError') return new Failure('cancelled', 'it was given up');
  if (error instanceof TypeError) {
    return new Failure(
      'unavailable',
      'the cluster cannot be reached from this browser; check your network, then try again',
    );
  }
  return new Failure('internal', error instanceof Error ? error.message : String(error));
}

/** Asking again may help: the other side was not there, had too much to do, or says when to come again. */
export function isPassing({ code, detail }: Failure): boolean {
  if (typeof detail['retryAfterMs'] === 'number') return true;
  return code === 'unavailable' || code === 'timeout' || code === 'exhausted' || code === 'internal';
}

const codes: Readonly<Record<number, ErrorCode>> = {
  400: 'invalid',
  401: 'unauthenticated',
  403: 'denied',
  404: 'not_found',
  409: 'conflict',
  429: 'exhausted',
  499: 'cancelled',
  500: 'internal',
  502: 'unavailable',
  503: 'unavailable',
  504: 'timeout',
};

function codeOf(status: number): ErrorCode {
  return codes[status] ?? (status < 500 ? 'invalid' : 'internal');
}

function isCode(value: unknown): value is ErrorCode {
  return Object.values(codes).some((code) => code === value);
}
