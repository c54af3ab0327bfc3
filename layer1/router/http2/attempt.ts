/** What carries a request to one backend, whatever that speaks, and what it tells of the answer. */
import type { Backend } from '../backend.ts';
import type { Exchange, Fields } from '../exchange.ts';
import type { Http2Head } from './request.ts';

/**
 * Of `refused`, nothing was done by the backend, which said so: anything may be sent again. `unfit` is the request's own fault: it
 * cannot be said to this backend, nor to others of its kind.
 */
export type Failure = 'dial' | 'broke' | 'vanished' | 'refused' | 'unfit';

/** Of an answer's body: there is none, a length says where it ends, or only its end does and trailers may follow. */
export type Extent = 'none' | 'length' | 'open';

/**
 * Hears of one attempt, in this order: `onConnected`, any `onInformation`, `onHead` (or `onUpgraded`), `onData`, one of
 * `onEnd` and `onFailure`. `onFailure` may come at any time. After `onEnd`, `onFailure` or `abort` nothing comes any more.
 */
export interface Receiver {
  /** The backend takes the request; its body may be written. Backends get no `expect`: whoever waits for 100 is told now. */
  onConnected(): void;
  /** 1xx other than 100 and 101. */
  onInformation(status: number, fields: Fields): void;
  /**
   * Names in lower case, connection-specific fields left out.
   */
  onHead(status: number, fields: string[], extent: Extent): void;
  /** What comes and goes from here on is not a body but the other protocol. */
  onUpgraded(fields: string[]): void;
  /**
   * The bytes are the receiver's. One that cannot take more now calls `pause`. If it `isCrowded` by then it does so, and `resume`
   * not before all that it was given is out of its hands: bytes may lie in memory that is used again after it.
   */
  onData(bytes: Buffer): void;
  readonly isCrowded?: boolean;
  onEnd(trailers: Fields): void;
  /** More of the body may be written. */
  onDrain(): void;
  onFailure(failure: Failure): void;
}

/** One request at one backend. Nothing is written before `onConnected`, and nothing at all is called after the end. */
export interface Attempt {
  /** Once, first. The receiver may be called from within it. */
  begin(): void;
  /** False when the backend is slower than what is written: `onDrain` comes. */
  write(bytes: Buffer): boolean;
  end(trailers: Fields): void;
  pause(): void;
  resume(): void;
  /** Gives up: the backend is told by the end of the stream or connection. */
  abort(): void;
}

/** Opens attempts at backends that speak one protocol, and keeps connections for the next. */
export interface Upstream {
  open(backend: Backend, request: UpstreamRequest, receiver: Receiver): Attempt;
}

export type UpstreamRequest = {
  readonly head: Http2Head;
  readonly exchange: Pick<Exchange, 'target' | 'requestFields' | 'requestLines' | 'removedFields'>;
  /** Can be sent again if the connection turns out to be dead, so that one idle for long will do. */
  readonly canRepeat: boolean;
  /** Shall not go over a connection that was kept. */
  readonly wantsNew: boolean;
};
