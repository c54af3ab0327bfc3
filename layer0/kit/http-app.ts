/** The way of a request through its route. Koa and its router are known to this file only. */
import KoaRouter from '@koa/router';
import Koa from 'koa';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { FlynnError, asFlynnError, httpStatusOf } from './errors.ts';
import { type StreamAnswer, checkUpgrade, sendEvents, sendStream, sendUpgrade } from './http-answer.ts';
import type { CheckedCall, Handler } from './http-handler.ts';
import { checkKey, readBody, readQuery } from './http-request.ts';
import { newId } from './ids.ts';
import type { Logger } from './log.ts';
import type { Route, ServerEvent } from './routes.ts';

/** Answers a request on its response; never rejects. */
export type Answer = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

export type AppOptions = {
  handlers: readonly Handler[];
  log: Logger;
  key?: string | readonly string[];
  name: string;
};

/** `closing` ends event streams. */
export function createApp(options: AppOptions, closing: AbortSignal): Answer {
  const { name, log } = options;
  const keys = options.key === undefined ? [] : [options.key].flat();
  if (options.key !== undefined && (keys.length === 0 || keys.includes(''))) {
    throw new FlynnError('invalid', `the ${name} was started with an empty key: anybody could use it`);
  }
  const app = new Koa();
  // What gets here broke after the answer had begun: a client that left, mostly.
  app.on('error', (error: unknown) => log.debug({ err: error }, 'a connection broke'));
  const router = new KoaRouter();
  router.get('/ping', (context) => {
    context.body = { name, status: 'ok' };
  });
  for (const handler of [...options.handlers].sort((a, b) => compareRoutes(a.route, b.route))) {
    router.register(handler.route.path, [handler.route.method], async (context: Koa.Context) => {
      const { route } = handler;
      if (keys.length > 0 && route.access === 'key') checkKey(context.headers, keys);
      if (route.kind === 'upgrade') checkUpgrade(context.req);
      const call: CheckedCall = {
        params: context['params'],
        query: readQuery(route, { ...context.query }),
        body: await readBody(route, context.req),
        headers: context.headers,
        signal: goneSignal(context.req, context.res),
        remoteAddress: context.req.socket.remoteAddress ?? '',
        requestId: context.response.get('x-request-id'),
      };
      if (route.kind === 'events') call.signal = AbortSignal.any([call.signal, closing]);
      await send(context, handler, call, log);
    });
  }
  app.use((context, next) => observe(context, next, { name, log }));
  app.use(router.routes());
  app.use((context) => {
    throw new FlynnError('not_found', `the ${name} has nothing at ${context.method} ${context.path}`);
  });
  return app.callback();
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
      return sendStream(response, result as StreamAnswer, log);
    case 'events':
      context.respond = false;
      return sendEvents(response, result as AsyncIterable<ServerEvent>, { signal: call.signal, log });
    case 'upgrade':
      context.respond = false;
      return sendUpgrade(response, result as (socket: Duplex) => void);
  }
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
  const request = { requestId, method: context.method, path: context.path };
  const startedMs = performance.now();
  try {
    await next();
    log.debug(
      { ...request, status: context.res.statusCode, ms: Math.round(performance.now() - startedMs) },
      'answered',
    );
  } catch (error) {
    const failure = asFlynnError(error);
    const status = httpStatusOf(failure.code);
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
    if (status === 401) context.set('www-authenticate', `Bearer realm="${name}"`);
    context.body = { code: failure.code, message, detail: failure.detail };
  }
}
