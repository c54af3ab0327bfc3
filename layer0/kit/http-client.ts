/** Calls routes over HTTP. */
import { X509Certificate } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { type Duplex, PassThrough, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { finished } from 'node:stream/promises';
import { type ConnectionOptions, checkServerIdentity } from 'node:tls';
import { abortError, pause } from './clock.ts';
import { FlynnError, asFlynnError, codeOfHttpStatus, messageOf } from './errors.ts';
import { HttpConnections } from './http-connections.ts';
import { openUpgrade } from './http-upgrade.ts';
import { type LiveIdentity, checkRole } from './identity.ts';
import { neverSent } from './never-sent.ts';
import { raceAbort } from './retry.ts';
import { type CallInput, type ResponseOf, type Route, type ServerEvent, urlOf } from './routes.ts';
import { heartbeatMs, readEvents, remoteError, untilSilent } from './sse.ts';

const connectMs = 10_000;
/** Of one place among others: the host of one that discovery still names may be gone, and say nothing. */
const connectToOneMs = 3_000;
const callTimeoutMs = 30_000;
const uploadTimeoutMs = 15 * 60_000;
const silenceMs = 3 * heartbeatMs;
/** Longer than discovery goes on naming an instance whose host is gone. */
const elsewhereMs = 12_000;
const elsewherePauseMs = 100;

export type CallOptions = { signal?: AbortSignal; timeoutMs?: number; headers?: Readonly<Record<string, string>> };

/** `body` is not begun before a connection stands, and destroyed once it is of no use any more. */
export type Forwarded = Readonly<{ method: string; path: string; body?: Readable | undefined }>;

/** What a message says was asked. */
type Named = Readonly<{ method: string; path: string }>;

export type MutualClient = Readonly<{ identity: LiveIdentity; server: string }>;

/** A CallInput without the route's types. */
type Input = { params?: Readonly<Record<string, string>>; query?: unknown; body?: unknown };

/**
 * A client of one service. Errors: what the server refused comes back as the FlynnError it threw; `unavailable` when it
 * cannot be reached or the connection breaks (the call may have been carried out), `timeout`, and `cancelled` when the
 * caller's signal aborts.
 */
export class HttpClient implements AsyncDisposable {
  readonly #baseUrl: string | (() => Promise<string>);
  readonly #headers: Record<string, string>;
  readonly #name: string;
  readonly #timeoutMs: number | undefined;
  readonly #connections: HttpConnections;
  /** Connections show the certificate that is ours when they are opened. */
  readonly #tls: () => ConnectionOptions;

  constructor(options: {
    /** A function is asked before every call, so that it can follow discovery, and again when nobody is where it said. */
    baseUrl: string | (() => Promise<string>);
    key?: string;
    /** For messages: 'the controller'. */
    name: string;
    /** Of a whole `call`, default 30 s (15 min with a stream as body), and of waiting for the head of the others. */
    timeoutMs?: number;
    /** For https: the authority the server has to be of, as PEM. */
    ca?: string;
    /** Over https: told what signed the certificate of the server when a connection is opened and the server is trusted. */
    onSigner?: (signer: X509Certificate) => void;
    /** For https within the cluster: who we are there, and which role the server has to show. */
    mutual?: MutualClient;
  }) {
    const { mutual, onSigner } = options;
    const trust = options.ca === undefined ? {} : { ca: options.ca };
    this.#tls = mutual === undefined ? () => trust : () => tlsOf(mutual);
    const check = onSigner === undefined || mutual !== undefined ? {} : { checkServerIdentity: telling(onSigner) };
    this.#connections = new HttpConnections({
      connectMs: typeof options.baseUrl === 'string' ? connectMs : connectToOneMs,
      tls: () => ({ ...this.#tls(), ...check }),
      // One that is resumed would not have the other side's role checked.
      resumesSessions: mutual === undefined,
    });
    this.#baseUrl = options.baseUrl;
    this.#headers = options.key === undefined ? {} : { authorization: `Bearer ${options.key}` };
    this.#name = options.name;
    this.#timeoutMs = options.timeoutMs;
  }

  /** For routes that answer JSON or nothing. */
  async call<R extends Route>(route: R, input: CallInput<R>, options: CallOptions = {}): Promise<ResponseOf<R>> {
    const value = await this.#call(route, input, options);
    // The schema that ResponseOf is computed from has just checked it.
    return value as ResponseOf<R>;
  }

  async #call(route: Route, input: Input, options: CallOptions): Promise<unknown> {
    const defaultMs = route.body === 'stream' ? uploadTimeoutMs : callTimeoutMs;
    return this.#within(route, options, defaultMs, async (signal) => {
      const body = await this.#send(route, input, signal, options.headers);
      if (typeof route.response === 'string') {
        await finished(body.resume());
        return undefined;
      }
      const parsed = route.response.safeParse(parseJson(await text(body)));
      if (parsed.success) return parsed.data;
      const message = `${this.#name} answered ${nameOf(route)} with something unexpected: ${messageOf(parsed.error)}`;
      throw new FlynnError('internal', message, { cause: parsed.error });
    });
  }

  /** For routes that answer a stream of bytes. The deadline ends with the head; the signal goes on. */
  async stream<R extends Route>(route: R, input: CallInput<R>, options: CallOptions = {}): Promise<Readable> {
    const { signal } = options;
    const body = await this.#within(route, options, callTimeoutMs, (limited) =>
      this.#send(route, input, limited, options.headers),
    );
    const out = new PassThrough();
    // Of one that nobody reads yet, or any more, the end is no failure: whoever reads it then hears of it.
    out.on('error', () => undefined);
    body.on('error', (error) => out.destroy(this.#errorOf(route, error, signal)));
    out.once('close', () => body.destroy());
    return body.pipe(out);
  }

  /**
   * For routes that answer events. Ends when the server ends it or the signal aborts; throws the server's error if the
   * stream failed there, `unavailable` if the connection broke or said nothing, not even a heartbeat, for 45 s.
   */
  async *events<R extends Route>(
    route: R,
    input: CallInput<R>,
    options: { signal: AbortSignal; lastEventId?: string; headers?: Readonly<Record<string, string>> },
  ): AsyncGenerator<ServerEvent, void, undefined> {
    const { signal, lastEventId } = options;
    const headers: Record<string, string> = { ...options.headers, accept: 'text/event-stream' };
    if (lastEventId !== undefined) headers['last-event-id'] = lastEventId;
    try {
      const body = await this.#within(route, { signal }, callTimeoutMs, (limited) =>
        this.#send(route, input, limited, headers),
      );
      const what = `${nameOf(route)} of ${this.#name}`;
      yield* readEvents(untilSilent(body, { what, silenceMs, code: 'unavailable' }));
    } catch (error) {
      if (!signal.aborted) throw this.#errorOf(route, error, signal);
    }
  }

  /**
   * For who passes on what others ask: `path` with its query goes out as it is, and the answer comes back whatever its status, its
   * body unread. The deadline ends with the head; the signal goes on.
   */
  async forward(asked: Forwarded, options: CallOptions = {}): Promise<IncomingMessage> {
    const { method, path, body } = asked;
    const defaultMs = body === undefined ? callTimeoutMs : uploadTimeoutMs;
    // What is in paths of others is not for logs.
    return this.#within({ method, path: '…' }, options, defaultMs, (signal) => {
      const headers = { ...this.#headers, ...options.headers };
      return this.#requestSomewhere(
        (url) => this.#connections.request(url, { method, headers, body, signal }),
        async () => new URL((await this.#base(signal)) + path),
        signal,
      );
    }).catch((error: unknown) => {
      body?.destroy();
      throw error;
    });
  }

  /** For routes that hand over the connection. The signal and the deadline cover opening it. */
  async upgrade<R extends Route>(route: R, input: CallInput<R>, options: CallOptions = {}): Promise<Duplex> {
    return this.#within(route, options, callTimeoutMs, async (signal) =>
      openUpgrade(await this.#urlOf(route, input, signal), {
        method: route.method,
        headers: { ...this.#headers, ...options.headers },
        signal,
        tls: this.#tls(),
      }),
    );
  }

  /** Gives up what is still running: those calls end with `unavailable`. */
  async close(): Promise<void> {
    this.#connections.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #urlOf(route: Route, input: Input, signal: AbortSignal): Promise<URL> {
    const parts = { params: input.params, query: input.query };
    return new URL((await this.#base(signal)) + urlOf(route, parts));
  }

  async #base(signal: AbortSignal): Promise<string> {
    const base = typeof this.#baseUrl === 'string' ? this.#baseUrl : await raceAbort(this.#baseUrl(), signal);
    return base.replace(/\/$/, '');
  }

  /** The body of a good answer, unread; a refusal becomes the error it carries. */
  async #send(
    route: Route,
    input: Input,
    signal: AbortSignal,
    extra: Readonly<Record<string, string>> = {},
  ): Promise<IncomingMessage> {
    const headers = { ...this.#headers, ...extra };
    let body: Readable | Uint8Array | string | undefined;
    if (route.body === 'stream') {
      body = streamBody(input.body);
      // What it fails with is what the request fails with; between two of them nobody else listens.
      if (body instanceof Readable) body.on('error', () => undefined);
    } else if (input.body !== undefined) {
      headers['content-type'] = 'application/json';
      body = JSON.stringify(input.body);
    }
    const response = await this.#requestSomewhere(
      (url) => this.#connections.request(url, { method: route.method, headers, body, signal }),
      () => this.#urlOf(route, input, signal),
      signal,
    ).catch((error: unknown) => {
      if (body instanceof Readable) body.destroy();
      throw error;
    });
    const { statusCode: status = 500 } = response;
    if (status < 300) return response;
    if (status < 400) {
      await finished(response.resume());
      const place = response.headers.location ?? 'it does not say where';
      throw new FlynnError('denied', `${this.#name} is to be asked elsewhere (${nameOf(route)}): ${place}`);
    }
    const refusal = remoteError(parseJson(await text(response)));
    if (refusal !== undefined) throw refusal;
    const message = `${this.#name} answered ${nameOf(route)} with status ${status}`;
    throw new FlynnError(codeOfHttpStatus(status), message);
  }

  /** Who follows discovery may be named an instance that has just gone: then another is asked, until it is forgotten. */
  async #requestSomewhere<T>(
    ask: (url: URL) => Promise<T>,
    place: () => Promise<URL>,
    signal: AbortSignal,
  ): Promise<T> {
    const untilMs = performance.now() + elsewhereMs;
    for (;;) {
      try {
        return await ask(await place());
      } catch (error) {
        const mayAskAgain = typeof this.#baseUrl !== 'string' && neverSent(error);
        if (!mayAskAgain || signal.aborted || performance.now() >= untilMs) throw error;
        await pause(elsewherePauseMs, signal);
      }
    }
  }

  /** One exchange under the caller's signal and a deadline; what it throws comes out as a FlynnError. */
  async #within<T>(
    route: Named,
    options: CallOptions,
    defaultMs: number,
    exchange: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const timeoutMs = options.timeoutMs ?? this.#timeoutMs ?? defaultMs;
    const late = `${this.#name} did not answer ${nameOf(route)} within ${timeoutMs / 1000} s`;
    const deadline = new AbortController();
    const timer = setTimeout(() => deadline.abort(new FlynnError('timeout', late)), timeoutMs);
    const limited = options.signal === undefined ? deadline.signal : AbortSignal.any([options.signal, deadline.signal]);
    try {
      limited.throwIfAborted();
      return await exchange(limited);
    } catch (error) {
      throw this.#errorOf(route, error, limited);
    } finally {
      clearTimeout(timer);
    }
  }

  #errorOf(route: Named, error: unknown, signal: AbortSignal | undefined): FlynnError {
    if (signal?.aborted === true) return abortError(signal);
    if (error instanceof FlynnError) return error;
    const { code } = asFlynnError(error);
    const what = code === 'internal' ? `calling ${this.#name} failed` : `cannot reach ${this.#name}`;
    return new FlynnError(code, `${what} (${nameOf(route)}): ${messageOf(error)}`, { cause: error });
  }
}

/** As it is without, and told besides. */
function telling(onSigner: (signer: X509Certificate) => void): typeof checkServerIdentity {
  return (host, certificate) => {
    const fault = checkServerIdentity(host, certificate);
    // Node gives the whole chain here, whatever its type says.
    const signer = 'issuerCertificate' in certificate ? certificate.issuerCertificate : undefined;
    if (fault !== undefined || typeof signer !== 'object' || signer === null || !('raw' in signer)) return fault;
    if (signer.raw instanceof Uint8Array) onSigner(new X509Certificate(signer.raw));
    return undefined;
  };
}

function tlsOf({ identity, server }: MutualClient): ConnectionOptions {
  const { trusted, certificate, privateKey } = identity.current;
  return { ca: trusted, cert: certificate, key: privateKey, checkServerIdentity: checkRole(server) };
}

function streamBody(body: unknown): Readable | Uint8Array | string {
  if (body instanceof Readable || body instanceof Uint8Array || typeof body === 'string') return body;
  throw new FlynnError('internal', 'a stream body is a Readable, a Uint8Array or a string');
}

/** undefined for what is not JSON: the schema says what was expected instead. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function nameOf(route: Named): string {
  return `${route.method} ${route.path}`;
}
