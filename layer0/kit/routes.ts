/**
 * A route is described once, as data. The server checks requests by it, the client is typed by it, and documents are
 * generated from it, so the three cannot disagree.
 */
import type { Readable } from 'node:stream';
import type { z } from 'zod';
import { FlynnError } from './errors.ts';

export type RouteKind = 'json' | 'empty' | 'stream' | 'events' | 'upgrade';
export type RouteMethod = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

type QuerySpec = z.ZodType | undefined;
type BodySpec = z.ZodType | 'stream' | undefined;
type ResponseSpec = z.ZodType | Exclude<RouteKind, 'json'>;
type KindOf<R> = R extends string ? R : 'json';

export type Route<
  Path extends string = string,
  Q extends QuerySpec = QuerySpec,
  B extends BodySpec = BodySpec,
  R extends ResponseSpec = ResponseSpec,
> = Readonly<{
  method: RouteMethod;
  path: Path;
  /** The names of the path's parameters, in their order. */
  params: readonly string[];
  /** Values arrive as strings; a name given twice as an array. */
  query: Q;
  body: B;
  /** What a body may be, for documents: of a stream the handler judges. */
  bodyTypes: readonly string[];
  /** A schema answers JSON; the schema describes what is on the wire. */
  response: R;
  kind: KindOf<R>;
  /** The content type of a good answer; undefined of those that have no content. */
  responseType: string | undefined;
  /** Whether its events go on after the one that Last-Event-ID names. */
  isResumable: boolean;
  summary: string;
  /**
   * 'open' lets everybody in. Whatever else is for the server's gate to judge; where there are only keys, any key does.
   * 'key', which a route has that says nothing, is the most that there is to ask for.
   */
  access: string;
}>;

/** The names in a path: `/apps/:app/files/*rest` has 'app' and 'rest'. */
export type ParamName<Path extends string> = Path extends `${infer Segment}/${infer Rest}`
  ? SegmentParam<Segment> | ParamName<Rest>
  : SegmentParam<Path>;
type SegmentParam<Segment extends string> = Segment extends `:${infer Name}`
  ? Name
  : Segment extends `*${infer Name}`
    ? Name
    : never;

export type ParamsOf<R extends Route> = Readonly<Record<ParamName<R['path']>, string>>;
export type QueryOf<R extends Route> = R['query'] extends z.ZodType ? z.output<R['query']> : undefined;
export type BodyOf<R extends Route> = R['body'] extends z.ZodType
  ? z.output<R['body']>
  : R['body'] extends 'stream'
    ? Readable
    : undefined;
/** What the client's `call` gives. */
export type ResponseOf<R extends Route> = R['response'] extends z.ZodType ? z.output<R['response']> : void;

/** What a caller may write for a query: what the schema reads or what it makes of it, so `limit: 10` and `limit: '10'`. */
type QueryInput<In, Out> = {
  [K in keyof In]: unknown extends In[K] ? Field<Out, K> : In[K] | Field<Out, K>;
};
type Field<T, K> = K extends keyof T ? T[K] : never;
type QueryInputOf<Q extends z.ZodType> = QueryInput<z.input<Q>, z.output<Q>>;

type ParamsInput<R extends Route> = [ParamName<R['path']>] extends [never]
  ? { params?: Readonly<Record<string, never>> }
  : { params: ParamsOf<R> };
type QueryPart<R extends Route> = R['query'] extends z.ZodType
  ? Partial<QueryInputOf<R['query']>> extends QueryInputOf<R['query']>
    ? { query?: QueryInputOf<R['query']> }
    : { query: QueryInputOf<R['query']> }
  : { query?: undefined };
type BodyPart<R extends Route> = R['body'] extends z.ZodType
  ? undefined extends z.input<R['body']>
    ? { body?: z.input<R['body']> }
    : { body: z.input<R['body']> }
  : R['body'] extends 'stream'
    ? { body: Readable | Uint8Array | string }
    : { body?: undefined };

/** What a route needs to be called: exactly the parts it declares. */
export type CallInput<R extends Route> = ParamsInput<R> & QueryPart<R> & BodyPart<R>;

const jsonType = 'application/json';
export const bytesType = 'application/octet-stream';
/** Lines of JSON. */
export const linesType = 'application/x-ndjson';
export const archiveType = 'application/x-tar';
const typeOfKind: Readonly<Record<RouteKind, string | undefined>> = {
  json: jsonType,
  stream: bytesType,
  events: 'text/event-stream',
  empty: undefined,
  upgrade: undefined,
};

/** One event of a stream. `data` is sent as JSON; a client that reconnects names the last `id` it saw. */
export type ServerEvent = { id?: string; event: string; data: unknown };

export function defineRoute<
  const Path extends string,
  R extends ResponseSpec,
  Q extends QuerySpec = undefined,
  B extends BodySpec = undefined,
>(route: {
  method: RouteMethod;
  /** '/apps/:app/jobs/:job'; a last segment '*rest' takes one or more segments. */
  path: Path;
  query?: Q;
  body?: B;
  /** Of a stream; default application/octet-stream. */
  bodyTypes?: readonly string[];
  response: R;
  /** Of a stream; default application/octet-stream. */
  responseType?: string;
  /** Of events; default no. */
  isResumable?: boolean;
  summary: string;
  access?: string;
}): Route<Path, Q, B, R> {
  const segments = route.path.split('/').slice(1);
  const isWildcardLast = segments.slice(0, -1).every((segment) => !segment.startsWith('*'));
  if (!route.path.startsWith('/') || !isWildcardLast) {
    throw new FlynnError('internal', `the route path ${route.path} must start with / and have *rest only at its end`);
  }
  if (route.response === 'upgrade' && route.body !== undefined) {
    throw new FlynnError('internal', `${route.path}: an upgrade has no request body; send it as the first frame`);
  }
  if ((route.bodyTypes ?? []).length > 0 && route.body !== 'stream') {
    throw new FlynnError('internal', `${route.path}: only a body that is a stream has types of its own`);
  }
  if (route.responseType !== undefined && route.response !== 'stream') {
    throw new FlynnError('internal', `${route.path}: only an answer that is a stream has a type of its own`);
  }
  if (route.isResumable === true && route.response !== 'events') {
    throw new FlynnError('internal', `${route.path}: only events can be resumed`);
  }
  const kind: RouteKind = typeof route.response === 'string' ? route.response : 'json';
  return {
    method: route.method,
    path: route.path,
    params: segments.filter(isParam).map((segment) => segment.slice(1)),
    // An absent part is undefined, which is what its type parameter then defaults to.
    query: route.query as Q,
    body: route.body as B,
    bodyTypes: route.bodyTypes ?? (route.body === undefined ? [] : [route.body === 'stream' ? bytesType : jsonType]),
    response: route.response,
    kind: kind as KindOf<R>,
    responseType: route.responseType ?? typeOfKind[kind],
    isResumable: route.isResumable ?? false,
    summary: route.summary,
    access: route.access ?? 'key',
  };
}

function isParam(segment: string): boolean {
  return segment.startsWith(':') || segment.startsWith('*');
}

/** Values of parameters and query as they come out of a CallInput, without its types. */
export type UrlParts = {
  params?: Readonly<Record<string, string>> | undefined;
  query?: unknown;
};

/** Path and query of a call, everything escaped. Query values that are undefined are left out, arrays repeat the name. */
export function urlOf(route: Route, { params = {}, query }: UrlParts): string {
  const path = route.path
    .split('/')
    .map((segment) => (isParam(segment) ? escapeParam(route, segment, params[segment.slice(1)]) : segment))
    .join('/');
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null) search.append(name, queryText(one));
    }
  }
  return search.size === 0 ? path : `${path}?${search.toString()}`;
}

function escapeParam(route: Route, segment: string, value: string | undefined): string {
  const parts = segment.startsWith('*') ? (value ?? '').split('/') : [value ?? ''];
  // An empty or dotted segment would be taken for another path by whatever normalizes the URL on its way.
  if (parts.some((part) => part === '' || part === '.' || part === '..')) {
    throw new FlynnError(
      'invalid',
      `${route.method} ${route.path} needs a usable ${segment.slice(1)}, not "${value ?? ''}"`,
    );
  }
  return parts.map(encodeURIComponent).join('/');
}

function queryText(value: unknown): string {
  if (value instanceof Date) return value.toISOString();
  return typeof value === 'string' ? value : JSON.stringify(value);
}
