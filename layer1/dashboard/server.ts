/** The dashboard's server: pages for everybody, and the controller's API for who has logged in, with their own token. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { text } from 'node:stream/consumers';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import type { Surroundings } from '@flynn/kit/http-gate';
import { bodyStream } from '@flynn/kit/http-request';
import { type ListenerOptions, type RunningServer, startListener } from '@flynn/kit/http-server';
import type { LiveIdentity } from '@flynn/kit/identity';
import { newId } from '@flynn/kit/ids';
import type { Metrics } from '@flynn/kit/metrics';
import { withDeadline } from '@flynn/kit/retry';
import { z } from 'zod';
import { guarded, sendFailure, sendJson } from './answer.ts';
import { type LoginAnswer, loginSchema } from './api.ts';
import { type Asking, askingOf, checkOrigin, seen } from './asking.ts';
import { cookieOf, forgottenCookie, tokenIn } from './cookie.ts';
import { apiPath, forward, headersFor } from './forwarding.ts';
import { LoginLimit } from './login-limit.ts';
import { type Pages, assetsPath } from './pages.ts';
import { type Person, Sessions } from './sessions.ts';
import type { Terminals } from './terminals.ts';

const loginBytes = 4_096;
const loginMs = 10_000;

export type DashboardOptions = Pick<ListenerOptions, 'port' | 'log' | 'host'> & {
  /** Asked with the token of who asks, and with no key of its own. */
  controller: HttpClient;
  pages: Pages;
  identity: (LiveIdentity & Surroundings) | undefined;
  /** Where it stands, if not what the identity says: for tests. */
  surroundings?: Surroundings;
  metrics: Metrics;
  now?: () => number;
};

/** One request on its way, with what was decided about it. */
type Visit = Readonly<{
  request: IncomingMessage;
  response: ServerResponse;
  asking: Asking;
  requestId: string;
  path: string;
}>;

export function startDashboard(options: DashboardOptions): Promise<RunningServer> {
  const { port, log, host, identity } = options;
  const listener = { name: 'dashboard', port, log, mutual: identity, ...(host === undefined ? {} : { host }) };
  return startListener(listener, (closing) => {
    const dashboard = new Dashboard(options, closing);
    return {
      protocol: 'websocket',
      answer: (request, response) => dashboard.answer(request, response),
      upgrade: (request, response, taken) => void dashboard.upgrade(request, response, taken),
    };
  });
}

class Dashboard {
  readonly #options: DashboardOptions;
  readonly #closing: AbortSignal;
  readonly #surroundings: Surroundings | undefined;
  readonly #sessions: Sessions;
  readonly #limit: LoginLimit;
  #loading: Promise<Terminals> | undefined;
  readonly #count: (kind: string, status: number) => void;
  readonly #logins: (outcome: 'in' | 'refused') => void;
  #terminals = 0;

  constructor(options: DashboardOptions, closing: AbortSignal) {
    const { controller, metrics, now = Date.now } = options;
    this.#options = options;
    this.#closing = closing;
    this.#surroundings = options.surroundings ?? options.identity;
    this.#sessions = new Sessions(controller, now);
    this.#limit = new LoginLimit(now);
    const requests = metrics.counter('flynn_dashboard_requests_total', 'Requests answered, by what they were for.');
    this.#count = (kind, status) => requests.add({ kind, status: String(status) });
    const logins = metrics.counter('flynn_dashboard_logins_total', 'Logins, by how they went.');
    this.#logins = (outcome) => logins.add({ outcome });
    metrics.gauge('flynn_dashboard_terminals', 'Terminals that are open.', () => [{ value: this.#terminals }]);
  }

  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { log } = this.#options;
    const requestId = requestIdOf(request);
    const [path = ''] = (request.url ?? '').split('?', 1);
    const kind = kindOf(path);
    const startedMs = performance.now();
    const line = () => ({
      requestId,
      method: request.method,
      path: withoutSecrets(path),
      status: response.statusCode,
      ms: Math.round(performance.now() - startedMs),
    });
    response.setHeader('x-request-id', requestId);
    try {
      if (kind === 'ping') sendJson(response, 200, { name: 'dashboard', status: 'ok' });
      else {
        const asking = askingOf(seen(request), this.#surroundings);
        await this.#carryOut(kind, { request, response, asking, requestId, path });
      }
      log.debug(line(), 'answered');
    } catch (error) {
      const status = sendFailure(response, error, requestId);
      if (status >= 500) log.error({ ...line(), status, err: error }, `${request.method} of ${kind} failed`);
      else log.debug({ ...line(), status, err: error }, 'refused');
    }
    this.#count(kind, response.statusCode);
  }

  async #carryOut(kind: Kind, visit: Visit): Promise<void> {
    const { request, response, asking, path } = visit;
    const { method = 'GET' } = request;
    const isReading = method === 'GET' || method === 'HEAD';
    if (kind === 'api' || kind === 'session') checkOrigin(asking, request.headers, { isChange: !isReading });
    if (kind === 'api') {
      const person = this.#personOf(visit);
      return forward(this.#options.controller, { request, response, person, closing: this.#closing });
    }
    if (kind === 'session') return this.#session(visit);
    if (!isReading)
      throw new FlynnError('invalid', `a page is only looked at: ${method} is for ${apiPath} and /session`);
    if (kind === 'asset') return this.#options.pages.sendAsset(response, path.slice(assetsPath.length));
    if (kind === 'terminal') throw new FlynnError('invalid', 'this path answers only WebSockets');
    return this.#options.pages.sendDocument(response, asking);
  }

  async #session(visit: Visit): Promise<void> {
    const { request, response, asking } = visit;
    const signal = this.#closing;
    if (request.method === 'GET') {
      return sendJson(response, 200, await this.#sessions.read(this.#personOf(visit), signal));
    }
    if (request.method === 'POST') return this.#logIn(visit, signal);
    if (request.method !== 'DELETE') throw new FlynnError('invalid', '/session takes GET, POST and DELETE');
    const token = tokenIn(request.headers, asking);
    // Whatever becomes of the token, the browser has it no longer.
    response.setHeader('set-cookie', forgottenCookie(asking));
    response.setHeader('clear-site-data', '"cache", "storage"');
    if (token !== undefined) await this.#sessions.end(personWith(visit, token), signal);
    response.writeHead(204, { ...guarded, 'cache-control': 'no-store' }).end();
  }

  async #logIn(visit: Visit, signal: AbortSignal): Promise<void> {
    const { request, response, asking } = visit;
    const { token } = await readLogin(request);
    const former = tokenIn(request.headers, asking);
    const { user, maxAgeSeconds, ...begun } = await this.#sessions
      .begin(personWith(visit, token), signal)
      .catch((error: unknown) => {
        if (hasCode(error, 'unauthenticated', 'denied')) {
          this.#logins('refused');
          this.#limit.countWrong(asking.address);
        }
        throw error;
      });
    this.#logins('in');
    this.#options.log.info({ user, from: asking.address }, 'logged in');
    response.setHeader('set-cookie', cookieOf(begun.token, { isSecure: asking.isSecure, maxAgeSeconds }));
    if (former !== undefined && former !== token) await this.#forget(personWith(visit, former), signal);
    const answer: LoginAnswer = { user };
    sendJson(response, 200, answer);
  }

  /** A login that another has taken the place of ends by itself later, if it cannot be ended now. */
  async #forget(person: Person, signal: AbortSignal): Promise<void> {
    await this.#sessions.end(person, signal).catch((error: unknown) => {
      this.#options.log.debug({ err: error }, 'a former login could not be ended');
    });
  }

  async upgrade(
    request: IncomingMessage,
    response: ServerResponse,
    { socket, head }: Readonly<{ socket: Duplex; head: Buffer }>,
  ): Promise<void> {
    const { controller, log } = this.#options;
    const requestId = requestIdOf(request);
    try {
      const asking = askingOf(seen(request), this.#surroundings);
      checkOrigin(asking, request.headers, { isChange: true });
      const [path = ''] = (request.url ?? '').split('?', 1);
      const person = this.#personOf({ request, response, asking, requestId, path });
      this.#loading ??= loadTerminals();
      const terminals = await this.#loading;
      const upgraded = { request, socket, head };
      const wanted = terminals.wanted(upgraded);
      response.detachSocket(request.socket);
      this.#count('terminal', 101);
      this.#terminals += 1;
      try {
        await terminals.serve(upgraded, { controller, person, wanted, closing: this.#closing, log });
      } finally {
        this.#terminals -= 1;
      }
    } catch (error) {
      const status = sendFailure(response, error, requestId);
      this.#count('terminal', status);
      log.debug({ requestId, status, err: error }, 'a terminal was refused');
    }
  }

  /** `unauthenticated` for nobody. Whether the token is good the controller says. */
  #personOf(visit: Visit): Person {
    const token = tokenIn(visit.request.headers, visit.asking);
    if (token === undefined) throw new FlynnError('unauthenticated', 'nobody is logged in here, or the login is over');
    return personWith(visit, token);
  }
}

function personWith({ request, asking, requestId }: Visit, token: string): Person {
  return { token, headers: headersFor(request.headers, { address: asking.address, requestId }) };
}

type Kind = 'ping' | 'api' | 'session' | 'terminal' | 'asset' | 'page';

function kindOf(path: string): Kind {
  if (path === '/ping') return 'ping';
  if (path === '/session') return 'session';
  if (path === apiPath || path.startsWith(`${apiPath}/`)) return 'api';
  if (path.startsWith('/terminal/')) return 'terminal';
  return path.startsWith(assetsPath) ? 'asset' : 'page';
}

/** A good part of what this server is made of, and seldom asked for. */
async function loadTerminals(): Promise<Terminals> {
  const module = await import('./terminals.ts');
  return new module.Terminals();
}

/** The router's, so that its log, ours and the controller's tell of the same request. */
function requestIdOf({ headers }: IncomingMessage): string {
  const given = headers['x-request-id'];
  return typeof given === 'string' && /^[\w.-]{1,64}$/.test(given) ? given : newId();
}

/** A token may be named by all of it where it is taken back. */
function withoutSecrets(path: string): string {
  return path.replace(/(flynn_[a-z0-9-]+_)[\w%-]+/g, '$1…').slice(0, 500);
}

/** As JSON alone, which no form of another page can send. */
async function readLogin(request: IncomingMessage): Promise<z.output<typeof loginSchema>> {
  const { headers } = request;
  const isJson = /^application\/json\s*(;|$)/i.test(headers['content-type'] ?? '');
  if (!isJson) throw new FlynnError('invalid', 'a login is sent as application/json: {"token": "…"}');
  if (Number(headers['content-length'] ?? 0) > loginBytes) throw tooLarge();
  const body = bodyStream(request);
  const late = new FlynnError('timeout', `the login did not arrive within ${loginMs / 1_000} s`);
  const limit = withDeadline(loginMs);
  const onLate = () => body.destroy(late);
  limit.addEventListener('abort', onLate, { once: true });
  let bytes = 0;
  body.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > loginBytes) body.destroy(tooLarge());
  });
  try {
    const login = loginSchema.safeParse(parsed(await text(body)));
    if (login.success) return login.data;
    throw new FlynnError('invalid', 'a login is {"token": "…"}, and nothing else');
  } finally {
    limit.removeEventListener('abort', onLate);
  }
}

function tooLarge(): FlynnError {
  return new FlynnError('invalid', `a login is no larger than ${loginBytes} bytes`);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
