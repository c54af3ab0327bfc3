/** What carries one request of a client of HTTP/1 to a backend and the answer back, in the way of the backend's protocol. */
import type { Backend } from '../backend.ts';
import type { Problem } from '../exchange.ts';

/** Of a request's body, as far as it has come. */
export type BodyState = {
  readonly isDone: boolean;
  /** It is not framed as it should be: what follows cannot be told. */
  readonly isBad: boolean;
  /** Of the content. */
  readonly bytes: number;
};

/** A passage tells its transfer what happens, and the transfer decides what follows from it. */
export interface Passage {
  readonly body: BodyState;
  /** Of the answer's body, to the client. */
  readonly bytesOut: number;
  /** Some of an answer is at the client: there can be no other. */
  readonly isAnswerOut: boolean;
  /** The client can tell an answer that was broken off from a whole one. */
  readonly isFramed: boolean;
  /** An upgraded connection has been ended in order by its backend. */
  readonly isThrough: boolean;
  /** What the client is told when there is no backend to try, or no other. */
  readonly problem: Problem;
  /** None of the bytes that it took is still needed: not even by a write that is under way. */
  readonly isThroughWithBytes: boolean;

  /** A client that asks whether it may send its body is told so, once. */
  invite(): void;
  /** Takes of the client's bytes what belongs to this request, and answers up to where. */
  takeBody(buffer: Buffer, from: number, to: number): number;
  /** The client has no more for now. */
  flush(): void;
  /** Nothing of the request is at another backend. */
  dial(backend: Backend): void;
  /** The dial took too long. */
  undialled(): void;
  /** The answer took too long. */
  late(): void;
  /** The client has taken what it was behind with. */
  resume(): void;
  /** The answer is whole, and at the client. */
  answered(): void;
  /** An upgraded connection's client has ended its side. */
  clientEnded(): void;
  /** The backend is released, and what is under way there broken off. */
  letGo(): void;
}
