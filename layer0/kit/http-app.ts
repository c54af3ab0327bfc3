/** The way of a request through its route. Koa and its router are known to this file only. */
import KoaRouter from '@koa/router';
import Koa from 'koa';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { FlynnError, asFlynnError, httpStatusOf } from './errors.ts';
import { type StreamAnswer, checkUpgrade, sendEvents, sendStream, sendUpgrade } from './http-answer.ts';
import type { CheckedCall, Handler } from './http-handler.ts';
import { type Gate, type GateRequest, keyGate } from './http-gate.ts';
import { type ReadOptions, readBody, readQuery } from './http-request.ts';
import { newId } from './ids.ts';
import { peerOf } from './mutual-door.ts';
import type { Logger } from './log.ts';
import type { Metrics } from './metrics.ts';
import { type Route, type ServerEvent, bytesType } from './routes.ts';

/** Answers a request on its response; never rejects. */
export type Answer = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

export type AppOptions = {
  handlers: readonly Handler[];
  log: Logger;
  key?: string | readonly string[];
  /** Instead of keys: who may do what. */
  gate?: Gate;
  name: string;
  /** Asked about every request but /ping before all else: where it has to be asked for instead, or throws why it is refused. */
  elsewhere?: ((request: IncomingMessage) => string | undefined) | undefined;
  /** What is said of a path that none of the handlers is for: that there is nothing, unless given. */
  otherwise?: ((path: string) => FlynnError) | undefined;
  /** Counts requests and how long they take. */
  metrics?: Metrics;
} & ReadOptions;

/** `closing` ends event streams. */
export function createApp(options: AppOptions, closing: AbortSignal): Answer {
  const { name, log } = options;
  const gate = gateOf(options);
  const app = new Koa();
  // What gets here broke after the answer had begun: a client that left, mostly.
  app.on('error', (error: unknown) => log.debug({ err: error }, 'a connection broke'));
  const router = new KoaRouter();
  router.get('/ping', (context) => {
    context.state['route'] = '/ping';
    context.body = { name, status: 'ok' };
  });
  for (const handler of [...options.handlers].sort((a, b) => compareRoutes(a.route, b.route))) {
    router.register(handler.route.path, [handler.route.method], async (context: Koa.Context) => {
      const { route } = handler;
      context.state['route'] = route.path;
      const request: GateRequest = {
        route,
        params: context['params'],
        headers: context.headers,
        signal: goneSignal(context.req, context.res),
        remoteAddress: context.req.socket.remoteAddress ?? '',
        requestId: context.response.get('x-request-id'),
        peer: peerOf(context.req.socket),
      };
      const { caller, params = request.params } =
        gate === undefined || route.access === 'open' ? {} : await gate(request);
      if (route.kind === 'upgrade') checkUpgrade(context.req);
      const { headers, remoteAddress, requestId } = request;
      const call: CheckedCall = {
        params: { ...params },
        query: readQuery(route, { ...context.query }, options),
        body: await readBody(route, context.req, options),
        headers,
        signal: request.signal,
        remoteAddress,
        requestId,
        tellOfWork: () => tellOfWork(context),
        ...(caller === undefined ? {} : { caller }),
      };
      if (route.kind === 'events') call.signal = AbortSignal.any([call.signal, closing]);
      // What is answered at once needs no ending.
      const isLasting = route.kind === 'events' || route.kind === 'stream';
      if (isLasting && caller?.signal !== undefined) call.signal = AbortSignal.any([call.signal, caller.signal]);
      await send(context, handler, call, log);
    });
  }
  if (options.metrics !== undefined) app.use(countRequests(options.metrics));
  app.use((context, next) => observe(context, next, { name, log }));
  if (options.elsewhere !== undefined) app.use(sendElsewhere(options.elsewhere));
  app.use(router.routes());
  const { otherwise } = options;
  app.use((context) => {
    if (otherwise !== undefined) throw otherwise(context.path);
    throw new FlynnError('not_found', `the ${name} has nothing at ${context.method} ${context.path}`);
  });
  return app.callback();
}

/** Clients of before 1.1 take whatever is said first for the answer. */
function tellOfWork({ req, res }: Koa.Context): void {
  if (req.httpVersion === '1.1' && !res.headersSent && !res.destroyed) res.writeProcessing();
}

function sendElsewhere(elsewhere: NonNullable<AppOptions['elsewhere']>): Koa.Middleware {
  return (context, next) => {
    const url = context.path === '/ping' ? undefined : elsewhere(context.req);
    if (url === undefined) return next();
    context.status = 308;
    context.set('location', url);
    context.body = '';
    return undefined;
  };
}

function gateOf(options: AppOptions): Gate | undefined {
  if (options.gate !== undefined) return options.gate;
  if (options.key === undefined) return undefined;
  const keys = [options.key].flat();
  if (keys.length === 0 || keys.includes('')) {
    throw new FlynnError('invalid', `the ${options.name} was started with an empty key: anybody could use it`);
  }
  return keyGate(keys);
}

/** Literal segments before parameters before wildcards, so the order in which handlers are listed does not matter. */
function compareRoutes(a: Route, b: Route): number {
  const rank = (route: Route) =>
    route.path
      .split('/')
      .map((segment) => (segment.startsWith('*') ? 2 : segment.startsWith(':') ? 1 : 0))
      .join('');
  return rank(a) < rank(b) ? -1 : rank(a) > rank(b) ? 1 : 0;
}

/** Aborts when the connection closes before the answer is complete. */
function goneSignal(request: IncomingMessage, response: ServerResponse): AbortSignal {
  const gone = new AbortController();
  const onClose = () => {
    if (!response.writableFinished) gone.abort(new FlynnError('cancelled', 'the client went away'));
  };
  response.once('close', onClose);
  // An upgraded connection outlives its response.
  request.socket.once('close', onClose);
  response.once('finish', () => request.socket.removeListener('close', onClose));
  if (request.socket.destroyed) onClose();
  return gone.signal;
}

async function send(context: Koa.Context, handler: Handler, call: CheckedCall, log: Logger): Promise<void> {
  const result = await handler.run(call);
  const { res: response } = context;
  // handle() has checked that the result is of the route's kind.
  switch (handler.route.kind) {
    case 'json':
      context.status = 200;
      context.type = 'application/json';
      context.body = JSON.stringify(result ?? null);
      return;
    case 'empty':
      context.status = 204;
      return;
    case 'stream':
      context.respond = false;
      return sendStream(response, result as StreamAnswer, { type: handler.route.responseType ?? bytesType, log });
    case 'events':
      context.respond = false;
      return sendEvents(response, result as AsyncIterable<ServerEvent>, { signal: call.signal, log });
    case 'upgrade':
      context.respond = false;
      return sendUpgrade(response, whileAllowed(result as (socket: Duplex) => void, call.caller?.signal));
  }
}

/** An upgraded connection ends with its caller's permission to be there. */
function whileAllowed(use: (socket: Duplex) => void, allowed: AbortSignal | undefined): (socket: Duplex) => void {
  if (allowed === undefined) return use;
  return (socket) => {
    const end = () => socket.destroy();
    allowed.addEventListener('abort', end, { once: true });
    socket.once('close', () => allowed.removeEventListener('abort', end));
    use(socket);
    if (allowed.aborted) end();
  };
}

/** By the route's path, not the request's: there are only so many. What lasts as long as its client is not timed. */
function countRequests(metrics: Metrics): Koa.Middleware {
  const known = counting.get(metrics) ?? countingOf(metrics);
  counting.set(metrics, known);
  return known;
}

/** Servers of one process that count in the same place count together. */
const counting = new WeakMap<Metrics, Koa.Middleware>();

function countingOf(metrics: Metrics): Koa.Middleware {
  const requests = metrics.counter('flynn_http_requests_total', 'Requests answered, by route and status.');
  const seconds = metrics.histogram('flynn_http_request_duration_seconds', 'How long answering took, by route.');
  let active = 0;
  metrics.gauge('flynn_http_requests_active', 'Requests under way.', () => [{ value: active }]);
  return async (context, next) => {
    const startedMs = performance.now();
    active += 1;
    try {
      await next();
    } finally {
      active -= 1;
      const route = String(context.state['route'] ?? 'none');
      const labels = { method: context.method, route };
      requests.add({ ...labels, status: String(context.res.statusCode) });
      if (context.respond !== false) seconds.observe(labels, (performance.now() - startedMs) / 1_000);
    }
  };
}

/** What stands in the place of a token's id may be all of it: of such a route the log has the pattern. */
function shownPath(context: Koa.Context): string {
  const route = String(context.state['route'] ?? '');
  return route.includes('/:token') ? route : context.path;
}

/** Around every request: its id, its log line, and the one translation of errors to HTTP. */
async function observe(
  context: Koa.Context,
  next: Koa.Next,
  { name, log }: { name: string; log: Logger },
): Promise<void> {
  const given = context.get('x-request-id');
  const requestId = /^[\w.-]{1,64}$/.test(given) ? given : newId();
  context.set('x-request-id', requestId);
  const asked = () => ({ requestId, method: context.method, path: shownPath(context) });
  const startedMs = performance.now();
  try {
    await next();
    log.debug(
      { ...asked(), status: context.res.statusCode, ms: Math.round(performance.now() - startedMs) },
      'answered',
    );
  } catch (error) {
    const failure = asFlynnError(error);
    const status = httpStatusOf(failure.code);
    const request = asked();
    const line = { ...request, status, ms: Math.round(performance.now() - startedMs), err: error };
    if (status >= 500) log.error(line, `${request.method} ${request.path} failed`);
    else log.debug(line, 'refused');
    if (context.headerSent) return void context.res.destroy();
    // A bug's message was written for nobody: the caller gets the id under which the log tells it.
    const isBug = failure.code === 'internal' && !(error instanceof FlynnError);
    const message = isBug
      ? `the ${name} failed unexpectedly; its log says why under request ${requestId}`
      : failure.message;
    context.respond = true;
    context.status = status;
    const retryAfterMs = failure.detail['retryAfterMs'];
    if (typeof retryAfterMs === 'number') context.set('retry-after', String(Math.ceil(retryAfterMs / 1_000)));
    if (status === 401) context.set('www-authenticate', `Bearer realm="${name}"`);
    context.body = { code: failure.code, message, detail: failure.detail };
  }
}
