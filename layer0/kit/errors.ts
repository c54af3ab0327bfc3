/**
 * The one error class of the project. Vendors' errors become a FlynnError where they enter (the adapter), so callers
 * decide by `code`, and an error that crossed HTTP is caught like a local one.
 */
import { z } from 'zod';

/** Each code with the HTTP status that carries it. The mapping is one to one, so it can be undone on the other side. */
const statusOfCode = {
  invalid: 400,
  unauthenticated: 401,
  denied: 403,
  not_found: 404,
  conflict: 409,
  exhausted: 429,
  cancelled: 499,
  internal: 500,
  unavailable: 503,
  timeout: 504,
} as const;

export type ErrorCode = keyof typeof statusOfCode;

export const errorCodes: readonly ErrorCode[] = Object.keys(statusOfCode).filter(isErrorCode);

export type ErrorDetail = Readonly<Record<string, unknown>>;

export class FlynnError extends Error {
  readonly code: ErrorCode;
  /** Facts for programs; it travels over HTTP, so it holds nothing secret and only what JSON can carry. */
  readonly detail: ErrorDetail;

  constructor(code: ErrorCode, message: string, options: { cause?: unknown; detail?: Record<string, unknown> } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'FlynnError';
    this.code = code;
    this.detail = options.detail ?? {};
  }
}

export function hasCode(error: unknown, ...codes: ErrorCode[]): error is FlynnError {
  return error instanceof FlynnError && codes.includes(error.code);
}

/** What is asked for, or undefined where it is not there. */
export async function ifFound<T>(asked: Promise<T>): Promise<T | undefined> {
  try {
    return await asked;
  } catch (error) {
    if (hasCode(error, 'not_found')) return undefined;
    throw error;
  }
}

export function isErrorCode(value: unknown): value is ErrorCode {
  return typeof value === 'string' && Object.hasOwn(statusOfCode, value);
}

export function httpStatusOf(code: ErrorCode): number {
  return statusOfCode[code];
}

/** The closest code for a status somebody else chose; our own statuses come back exactly. */
export function codeOfHttpStatus(status: number): ErrorCode {
  const own = Object.entries(statusOfCode).find(([, known]) => known === status)?.[0];
  if (isErrorCode(own)) return own;
  if (status === 408) return 'timeout';
  if (status === 410) return 'not_found';
  if (status === 412) return 'conflict';
  if (status === 507) return 'exhausted';
  if (status === 502) return 'unavailable';
  return status >= 400 && status < 500 ? 'invalid' : 'internal';
}

const unreachable = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EHOSTDOWN',
  'ENETDOWN',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ERR_STREAM_PREMATURE_CLOSE',
  'UND_ERR_SOCKET',
  'UND_ERR_CLOSED',
  'UND_ERR_DESTROYED',
]);

const tooLate = new Set([
  'ETIMEDOUT',
  'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
  'ERR_SOCKET_CONNECTION_TIMEOUT',
]);

/** Any thrown value as a FlynnError; what it was stays as the cause. */
export function asFlynnError(error: unknown): FlynnError {
  if (error instanceof FlynnError) return error;
  if (error instanceof z.core.$ZodError) return new FlynnError('invalid', z.prettifyError(error), { cause: error });
  return new FlynnError(codeOfForeign(error), messageOf(error), { cause: error });
}

function codeOfForeign(error: unknown): ErrorCode {
  if (!(error instanceof Error)) return 'internal';
  // An aborted wait carries the reason it was aborted with: Node wraps it as the cause of its own AbortError.
  if (error.name === 'AbortError' || codeField(error) === 'ABORT_ERR') {
    if (error.cause instanceof FlynnError) return error.cause.code;
    return isNamed(error.cause, 'TimeoutError') ? 'timeout' : 'cancelled';
  }
  if (error.name === 'TimeoutError') return 'timeout';
  const code = codeField(error);
  if (code !== undefined && unreachable.has(code)) return 'unavailable';
  if (code !== undefined && tooLate.has(code)) return 'timeout';
  // Connecting to a name with several addresses fails with one error per address.
  if (error instanceof AggregateError && error.errors.length > 0) return codeOfForeign(error.errors[0]);
  if (error instanceof TypeError && error.cause instanceof Error) return codeOfForeign(error.cause);
  return 'internal';
}

function isNamed(value: unknown, name: string): boolean {
  return value instanceof Error && value.name === name;
}

function codeField(error: Error): string | undefined {
  return 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

/** Whether an error is the system's of one of these names: `hasErrno(error, 'ENOENT')`. */
export function hasErrno(error: unknown, ...names: readonly string[]): boolean {
  if (!(error instanceof Error)) return false;
  const code = codeField(error);
  return code !== undefined && names.includes(code);
}

/** Text a person can read, never empty. */
export function messageOf(error: unknown): string {
  if (error instanceof z.core.$ZodError) return z.prettifyError(error);
  if (error instanceof AggregateError && error.message === '') return error.errors.map(messageOf).join('; ');
  // What fetch says of every failure; why is in the cause.
  if (error instanceof TypeError && error.message === 'fetch failed' && error.cause !== undefined) {
    return messageOf(error.cause);
  }
  if (error instanceof Error) return error.message === '' ? error.name : error.message;
  if (typeof error === 'string' && error !== '') return error;
  return `something that is not an error was thrown: ${String(error)}`;
}
