/** Did a call fail before anything of it was sent? Then it was not carried out, its body not read, and another may be asked. */
import { hasErrno } from './errors.ts';

/**
 * A connection that stood may end with the same errors as one that never came about, once its peer's host is gone: those name
 * another system call.
 */
export function neverSent(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.length > 0 && error.errors.every(neverSent);
  if (hasErrno(error, 'UND_ERR_CONNECT_TIMEOUT')) return true;
  const isConnecting = error instanceof Error && 'syscall' in error && error.syscall === 'connect';
  return isConnecting && hasErrno(error, 'ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH', 'ETIMEDOUT');
}
