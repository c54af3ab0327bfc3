/** A route together with the function that answers it. */
import type { IncomingHttpHeaders } from 'node:http';
import type { Duplex } from 'node:stream';
import type { z } from 'zod';
import type { StreamAnswer } from './http-answer.ts';
import type { Caller } from './http-gate.ts';
import type { BodyOf, ParamsOf, QueryOf, Route, ServerEvent } from './routes.ts';

/** What a handler is given. `signal` aborts when the client goes away, and for event streams when the server closes. */
export type Call<R extends Route> = {
  params: ParamsOf<R>;
  query: QueryOf<R>;
  body: BodyOf<R>;
  headers: IncomingHttpHeaders;
  signal: AbortSignal;
  remoteAddress: string;
  requestId: string;
  /**
   * Tells the client, and proxies on the way that wait for a first byte, that the answer is being worked on (102): where all
   * of the request is there, and the answer takes longer than half a minute.
   */
  tellOfWork: () => void;
  /** Whom the gate let in; nobody on an open route. */
  caller?: Caller;
};

/** What a handler gives back, by the route's response. */
export type Result<R extends Route> = R['response'] extends z.ZodType
  ? z.input<R['response']>
  : R['response'] extends 'stream'
    ? StreamAnswer
    : R['response'] extends 'events'
      ? AsyncIterable<ServerEvent>
      : R['response'] extends 'upgrade'
        ? (socket: Duplex) => void
        : void;

/** A Call without the route's types. */
export type CheckedCall = Omit<Call<Route>, 'params' | 'query' | 'body'> & {
  params: Record<string, string>;
  query: unknown;
  body: unknown;
};

export type Handler = { route: Route; run: (call: CheckedCall) => Promise<unknown> };

export function handle<R extends Route>(route: R, handler: (call: Call<R>) => Promise<Result<R>>): Handler {
  // The one place where checked values get the types of the schemas that checked them.
  return { route, run: (call) => handler(call as Call<R>) };
}
