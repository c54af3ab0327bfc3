/** How the door refuses: in etcd's own words, so that drivers of etcd do what they do with etcd. */
import { FlynnError, type ErrorCode, asFlynnError } from '@flynn/kit/errors';

/**
 * `grpc` and `words` are what drivers go by. Patroni authenticates anew for `token` and `nobody`, ends for `password`, and makes
 * another lease for `lease`. Without `words` the message stands for them.
 */
const kinds = {
  invalid: { grpc: 3, status: 400, code: 'invalid', words: undefined },
  nobody: { grpc: 3, status: 400, code: 'unauthenticated', words: 'etcdserver: user name is empty' },
  password: {
    grpc: 3,
    status: 400,
    code: 'unauthenticated',
    words: 'etcdserver: authentication failed, invalid user ID or password',
  },
  token: { grpc: 16, status: 401, code: 'unauthenticated', words: 'etcdserver: invalid auth token' },
  /** Not now: Patroni tries the same again, with the token that it has by then. */
  again: { grpc: 9, status: 400, code: 'unauthenticated', words: undefined },
  outside: { grpc: 7, status: 403, code: 'denied', words: 'etcdserver: permission denied' },
  lease: { grpc: 5, status: 404, code: 'not_found', words: 'etcdserver: requested lease not found' },
  path: { grpc: 5, status: 404, code: 'not_found', words: 'Not Found' },
  full: { grpc: 8, status: 429, code: 'exhausted', words: undefined },
  away: { grpc: 14, status: 503, code: 'unavailable', words: 'etcdserver: request timed out' },
  fault: { grpc: 13, status: 500, code: 'internal', words: undefined },
} as const satisfies Record<string, { grpc: number; status: number; code: ErrorCode; words: string | undefined }>;

type Kind = keyof typeof kinds;

export class Refusal extends FlynnError {
  readonly kind: Kind;

  constructor(kind: Kind, message: string, options: { cause?: unknown } = {}) {
    super(kinds[kind].code, message, options);
    this.name = 'Refusal';
    this.kind = kind;
  }
}

/** `error` is for drivers, `message` for people. */
export type WireRefusal = Readonly<{ status: number; body: { error: string; code: number; message: string } }>;

export function asRefusal(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  const { code, message } = asFlynnError(error);
  if (code === 'unavailable' || code === 'timeout' || code === 'cancelled') {
    return new Refusal('away', message, { cause: error });
  }
  return new Refusal(code === 'invalid' ? 'invalid' : 'fault', message, { cause: error });
}

export function wireOf({ kind, message }: Refusal): WireRefusal {
  const { status, grpc, words } = kinds[kind];
  return { status, body: { error: words ?? message, code: grpc, message } };
}
