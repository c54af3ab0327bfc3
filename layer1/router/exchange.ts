/**
 * Between the fronts and the policy. A front speaks one protocol with clients (HTTP/1, HTTP/2) and knows nothing of routes;
 * the policy knows routes, limits and backends, and nothing of sockets. This is all that they tell each other of a request.
 */
import type { Socket } from 'node:net';
import type { Backend } from './backend.ts';

/** How long a request's body is: there is none, that many bytes, or until it says so (chunked; the end of a stream). */
export type BodyLength = 'none' | 'until-end' | number;

/**
 * A request before its body, checked: every reader downstream would read the same. It can be asked until its exchange has
 * ended.
 */
export type RequestHead = {
  readonly method: string;
  /** Origin form as it came, `/a?b`, or `*`. */
  readonly target: string;
  /** Lower case, without port and final dot; empty if there was none. */
  readonly host: string;
  readonly protocol: 'HTTP/1.0' | 'HTTP/1.1' | 'HTTP/2';
  readonly body: BodyLength;
  /** What the connection shall become, lower case: `websocket`. */
  readonly upgrade: string | undefined;
  /** All values of a field, joined with `, ` (cookies with `; `), by its lower-case name. */
  header(name: string): string | undefined;
};

/** Whom a connection is from. */
export type Client = {
  /** The peer's, or what it said by the PROXY protocol; IPv4 in its plain form. */
  readonly address: string;
  readonly port: number;
  /** The port it came to. */
  readonly localPort: number;
  readonly isTls: boolean;
};

/** Name, value, name, value …: the form in which both HTTP/1 and HTTP/2 take them without another object. */
export type Fields = readonly string[];

/** What the router answers itself. `code` goes out as `x-flynn-error`; empty for what is no error, a redirect. */
export type Answer = {
  readonly status: number;
  readonly code: string;
  readonly fields: Fields;
  readonly body: string;
};

/** What ends an exchange short of a backend's answer; the policy says which answer the client gets for it. */
export type Problem =
  /** Nobody there to ask, or all that were tried refused. */
  | 'no-backends'
  | 'unreachable'
  /** Broke before a head of an answer; sent one that may not be passed on. */
  | 'backend-broke'
  /** The request has what the backend's protocol cannot say, or more than the backend takes. */
  | 'unfit'
  /** No head of an answer in time; the whole not in time. */
  | 'backend-late'
  | 'too-late'
  /** More body than the route takes; slower than it waits for. */
  | 'body-too-large'
  | 'client-slow';

/**
 * It could not be dialled, broke before its answer, or was late; or its host is gone, which is no fault of the request: as
 * after a failed dial it may be tried elsewhere more than once, if it may be sent again at all.
 */
export type Failing = 'dial' | 'broke' | 'late' | 'vanished';

export type Limits = {
  readonly dialMs: number;
  /** From the last byte of the request to the first of the answer. */
  readonly firstByteMs: number;
  /** Without a byte in either direction. */
  readonly idleMs: number;
  /** From the head of the request to the end of the answer; 0 is without a limit. */
  readonly totalMs: number;
  /** Of the request; a front answers `body-too-large` as soon as it is over. 0 is without a limit. */
  readonly bodyBytes: number;
  /**
   * The body is collected up to this much before a backend is taken, so that a slow client holds none; 0 passes it on as it
   * comes.
   */
  readonly bufferBytes: number;
};

/** Those that all routes have that say nothing else. */
export type Timeouts = Pick<Limits, 'dialMs' | 'firstByteMs' | 'idleMs'>;

/** How it ended, for the access log and the counts. Bytes are of bodies. */
export type Ending = {
  /** Of the answer; 0 if none was begun. */
  readonly status: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
  readonly how: 'answered' | 'client-gone' | 'broken-off';
};

/** One request that is let through. Its methods are called by one front, in the order they stand here, and never throw. */
export interface Exchange {
  readonly requestId: string;
  /** What the backend is asked for: the target, perhaps without the route's path. */
  readonly target: string;
  readonly backendProtocol: 'http1' | 'h2c';
  readonly limits: Limits;
  /** What the request to the backend says besides. Lower case. */
  readonly requestFields: Fields;
  /** The same as lines of HTTP/1, each with its end. */
  readonly requestLines: string;
  /** Fields of the client's that are left out, those among them in whose place the router's own stand. Lower case. */
  readonly removedFields: ReadonlySet<string>;

  /**
   * The backend to try now, counted as used until `release`; another than those that failed. Undefined when there is none,
   * or enough were tried. A promise only while discovery has not told the service's backends yet.
   */
  pick(): Backend | undefined | Promise<Backend | undefined>;
  /** Of the picked one; it will be avoided as the policy sees fit. */
  failed(backend: Backend, how: Failing): void;
  /**
   * A head came from it, and whether a body will. Answers the fields that the answer gets besides (lower case), where the
   * backend does not say the same field itself (cookies always), or an answer to send in its place (an error page).
   */
  answered(backend: Backend, status: number, hasBody?: boolean): Fields | Answer;
  /** Once for every backend that was picked, after its part is over. */
  release(backend: Backend): void;
  answerFor(problem: Problem): Answer;
  /** Once, at the very end. */
  end(ending: Ending): void;
}

export type Verdict = { readonly answer: Answer } | { readonly exchange: Exchange };

export interface Policy {
  admit(head: RequestHead, client: Client): Verdict;
  /** For what a front refuses before there is a head to ask about: malformed, too large, too slow. */
  refuse(status: number, code: string, message: string, client: Client): Answer;
}

/** Speaks one protocol with clients. */
export interface Front {
  /** Takes over a connection; `early` is what was read of it already. */
  take(socket: Socket, client: Client, early?: Buffer): void;
  readonly connections: number;
  /**
   * From now on every answer ends its connection, and idle ones are let go of after a moment in which a request already on
   * its way is still answered. Resolves when none is left; what is left at the deadline is cut.
   */
  drain(options: { deadlineMs: number }): Promise<void>;
}

/** Of the answers of connections that are shared out one in so many ends its own. */
export const answersToOneEnd = 8;

/** Of HTTP/1 a client can be told with an answer that its connection ends, and loses nothing by it. */
export interface Http1Speaker extends Front {
  /**
   * Each connection that there is now ends with one of its next answers, so that its client's next comes to whoever shares the
   * port by then: soon where much is asked, later where little is, never all at once.
   */
  shareOut(): void;
  /** `restMs`: who has not asked for so long is let go of; less than it takes to, if it is not said. */
  drain(options: { deadlineMs: number; restMs?: number }): Promise<void>;
}
