/**
 * The controller's API as pages call it: `call<typeof apps.get>('GET /apps/:app', { params: { app } })`. Routes are types alone
 * here, so that their schemas stay with the servers; the line has to have the path that the route has.
 */
import type { CallInput, ResponseOf, Route, RouteMethod } from '@flynn/kit/routes';
import { asFailure, Failure, failureOf } from './failure.ts';

export type CallLine<R extends Route> = `${RouteMethod} ${R['path']}`;
export type Query = Readonly<Record<string, string | number | boolean | undefined>>;

export type CallOptions = Readonly<{
  signal?: AbortSignal;
  /** Default 30 s. */
  timeoutMs?: number;
  /** Names a POST: sent again with the same one it is carried out once. Default: each call has its own. */
  once?: string;
}>;

export type Api = Readonly<{
  /** Throws Failure. */
  call<R extends Route>(line: CallLine<R>, input: CallInput<R>, options?: CallOptions): Promise<ResponseOf<R>>;
  /** The body of a stream, for as long as the signal is not aborted. Throws Failure. */
  stream(
    url: string,
    options: { signal: AbortSignal; lastEventId?: string | undefined },
  ): Promise<ReadableStream<Uint8Array>>;
  /** Is there a session? */
  hasSession(): Promise<boolean>;
  /** Throws Failure: `unauthenticated` for a token that opens nothing. */
  logIn(token: string): Promise<void>;
  logOut(): Promise<void>;
}>;

type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** `onSessionOver`: what was asked needs a login, and there is none any more. Until there is one again nothing is asked. */
export function createApi(ports: { fetch: Fetch; onSessionOver: () => void; newId?: () => string }): Api {
  const { onSessionOver, newId = randomId } = ports;
  let over: Failure | undefined;
  /** What was asked before a login says nothing of it. */
  let logins = 0;

  async function ask(url: string, init: RequestInit): Promise<Response> {
    const isOfSession = url === '/session';
    if (over !== undefined && !isOfSession) throw over;
    const asked = logins;
    let response: Response;
    try {
      response = await ports.fetch(url, { ...init, credentials: 'same-origin', redirect: 'error' });
    } catch (error) {
      throw asFailure(error);
    }
    if (response.ok) {
      if (isOfSession) {
        over = undefined;
        logins += 1;
      }
      return response;
    }
    const failure = failureOf(response.status, await jsonOf(response));
    if (failure.code === 'unauthenticated' && !isOfSession && asked === logins) {
      over = failure;
      onSessionOver();
    }
    throw failure;
  }

  return {
    async call(line, input, { signal, timeoutMs = 30_000, once } = {}) {
      const [method = 'GET', path = '/'] = line.split(' ');
      const { params = {}, query, body } = input as { params?: Params; query?: Query; body?: unknown };
      const deadline = AbortSignal.timeout(timeoutMs);
      const response = await ask(apiUrl(path, { params, query }), {
        method,
        signal: signal === undefined ? deadline : AbortSignal.any([signal, deadline]),
        headers: {
          accept: 'application/json',
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...(method === 'POST' ? { 'idempotency-key': once ?? newId() } : {}),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      return (response.status === 204 ? undefined : await jsonOf(response)) as never;
    },

    async stream(url, { signal, lastEventId }) {
      const headers: Record<string, string> = lastEventId === undefined ? {} : { 'last-event-id': lastEventId };
      const { body } = await ask(url, { method: 'GET', signal, headers });
      if (body === null) throw new Failure('internal', 'the cluster answered with an empty stream');
      return body;
    },

    async hasSession() {
      try {
        await ask('/session', { method: 'GET', signal: AbortSignal.timeout(30_000) });
        return true;
      } catch (error) {
        if (error instanceof Failure && error.code === 'unauthenticated') return false;
        throw error;
      }
    },

    async logIn(token) {
      await ask('/session', {
        method: 'POST',
        signal: AbortSignal.timeout(30_000),
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ token }),
      });
    },

    async logOut() {
      await ask('/session', { method: 'DELETE', signal: AbortSignal.timeout(30_000) });
    },
  };
}

type Params = Readonly<Record<string, string>>;

/** A path's parameters and a query, escaped. A parameter that would be taken for another path is refused. */
export function apiUrl(path: string, parts: { params?: Params; query?: Query | undefined } = {}): string {
  const filled = path
    .split('/')
    .map((segment) => (segment.startsWith(':') ? escaped(parts.params?.[segment.slice(1)] ?? '') : segment))
    .join('/');
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(parts.query ?? {})) {
    if (value !== undefined) search.append(name, String(value));
  }
  return `/api${filled}${search.size === 0 ? '' : `?${search.toString()}`}`;
}

function escaped(value: string): string {
  if (value === '' || value === '.' || value === '..') throw new Failure('invalid', `"${value}" is no name`);
  return encodeURIComponent(value);
}

async function jsonOf(response: Response): Promise<unknown> {
  try {
    return await response.json();
  } catch {
    return undefined;
  }
}

/** crypto.randomUUID is there over TLS only. */
export function randomId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
