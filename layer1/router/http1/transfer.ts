/** One request on its way, whatever its backend speaks: from phase to phase, within its limits, to an end that is told once. */
import type { Backend } from '../backend.ts';
import type { Answer, Ending, Exchange, Fields, Problem } from '../exchange.ts';
import type { ClientConnection, ClientTransfer } from './client-connection.ts';
import { H2cPassage } from './h2c-passage.ts';
import { Http1Passage } from './http1-passage.ts';
import type { Passage } from './passage.ts';
import { Patience } from './patience.ts';
import type { Http1RequestHead } from './request-head.ts';

type Phase =
  /** Of the body, before a backend is taken. */
  | 'collecting'
  | 'picking'
  | 'dialling'
  /** The backend has the request, or as much of it as the client has sent; its answer has not begun. */
  | 'asked'
  | 'answering'
  | 'tunnel'
  /** Answered; what the client still sends of the body is dropped. */
  | 'discarding'
  | 'over';

/** INVARIANTS. What was picked is released, once; the exchange is ended, once; then nothing is left of it but the client. */
export class Transfer implements ClientTransfer {
  readonly client: ClientConnection;
  readonly head: Http1RequestHead;
  readonly exchange: Exchange;
  readonly #passage: Passage;
  readonly #patience: Patience;
  /** From `dialling` on it is the passage that says when the next begins. */
  phase: Phase = 'picking';
  keepsAlive = false;
  #status = 0;
  #isGone = false;
  /** The client has not taken all that was written yet. */
  #isFlushing = false;
  /** The backend's answer is whole. */
  #hasEnded = false;
  /** The exchange has been told its end. */
  #isOver = false;

  constructor(client: ClientConnection, head: Http1RequestHead, exchange: Exchange) {
    this.client = client;
    this.head = head;
    this.exchange = exchange;
    this.#patience = new Patience(client.context.deadlines, exchange.limits);
    this.#passage = exchange.backendProtocol === 'h2c' ? new H2cPassage(this) : new Http1Passage(this);
  }

  start(): void {
    const { bodyBytes, bufferBytes } = this.exchange.limits;
    const { body } = this.head;
    if (bodyBytes > 0 && typeof body === 'number' && body > bodyBytes) this.fail('body-too-large');
    else if (bufferBytes > 0 && body !== 'none') {
      this.phase = 'collecting';
      this.touch();
      this.#passage.invite();
    } else this.pick();
  }

  takeBody(buffer: Buffer, from: number, to: number): number {
    return this.#passage.takeBody(buffer, from, to);
  }

  flush(): void {
    this.#passage.flush();
  }

  get isThroughWithBytes(): boolean {
    return this.#passage.isThroughWithBytes;
  }

  /** Whether the body may be as it has come so far. If not, that was the end of the request. */
  checkBody(): boolean {
    const { isBad, bytes } = this.#passage.body;
    const { bodyBytes } = this.exchange.limits;
    if (isBad) {
      const message = 'The router refuses this request: a chunk of its body is broken.';
      const { client, context } = this.client;
      if (this.#canAnswer()) this.answer(context.policy.refuse(400, 'bad-request', message, client));
      return false;
    }
    if (bodyBytes > 0 && bytes > bodyBytes && this.phase !== 'discarding') {
      this.fail('body-too-large');
      return false;
    }
    this.touch();
    return true;
  }

  /** More of the body was taken, in a phase in which no backend gets it. */
  bodyTaken(): void {
    const { isDone, bytes } = this.#passage.body;
    if (this.phase === 'discarding') {
      if (isDone) this.#leave();
    } else if (this.phase === 'collecting' && (isDone || bytes >= this.exchange.limits.bufferBytes)) this.pick();
  }

  pick(): void {
    this.phase = 'picking';
    this.#patience.hold();
    const picked = this.exchange.pick();
    if (picked instanceof Promise) void this.#pickLater(picked);
    else this.#dial(picked);
  }

  /** A backend has the request, or gets it now. */
  asked(): void {
    this.phase = 'asked';
    this.touch();
  }

  /** A backend's answer begins. Undefined if there is another in its place; else what it gets besides. */
  begin(backend: Backend, status: number, hasBody: boolean): Fields | undefined {
    const added = this.exchange.answered(backend, status, hasBody);
    if ('status' in added) {
      this.#passage.letGo();
      this.answer(added);
      return undefined;
    }
    this.#status = status;
    this.keepsAlive = this.head.keepsAlive && !this.client.endsWithAnswer(this.#passage.body.isDone);
    this.phase = 'answering';
    this.touch();
    return added;
  }

  /** It is not to be after all: nothing of it went out. */
  takeBack(): void {
    this.#status = 0;
  }

  /** The client has not taken what it was told: the passage stops until `resume`. False if it has already. */
  hold(): boolean {
    if (this.#isFlushing) return false;
    this.#isFlushing = true;
    this.client.flushed();
    return true;
  }

  onFlushed(): void {
    if (!this.#isFlushing) return;
    this.#isFlushing = false;
    this.touch();
    if (this.#hasEnded) this.#complete();
    else this.#passage.resume();
  }

  /** All of the answer was written. */
  ended(): void {
    this.#hasEnded = true;
    if (!this.#isFlushing) this.#complete();
  }

  /** The last byte of an upgraded connection went both ways. */
  through(): void {
    this.#passage.letGo();
    this.#end('answered');
    this.#leave();
  }

  clientEnded(): void {
    if (this.phase === 'tunnel') this.#passage.clientEnded();
    else this.#patience.clientEnded();
  }

  clientGone(): void {
    if (this.phase === 'over') return;
    if (this.phase === 'picking') {
      this.#isGone = true;
      return;
    }
    const { isThrough } = this.#passage;
    this.#passage.letGo();
    this.#end(isThrough ? 'answered' : 'client-gone');
    this.phase = 'over';
  }

  tick(nowMs: number): void {
    switch (this.#patience.overAt(nowMs)) {
      case 'client':
        this.client.socket.destroy();
        break;
      case 'total':
        this.#onTotalOver();
        break;
      case 'step':
        this.#onStepOver();
        break;
      case undefined:
        break;
    }
  }

  /** A byte moved, or another is waited for. */
  touch(): void {
    this.#patience.touch(this.phase === 'asked' && this.#passage.body.isDone ? 'answer' : 'byte');
  }

  fail(problem: Problem): void {
    if (this.#canAnswer()) this.answer(this.exchange.answerFor(problem));
  }

  answer(answer: Answer): void {
    this.#status = answer.status;
    this.keepsAlive = this.head.keepsAlive && this.#passage.body.isDone && !this.client.endsWithAnswer(true);
    this.#end('answered', Buffer.byteLength(answer.body));
    this.phase = 'over';
    this.client.answer(answer, this.head, this.keepsAlive);
    this.client.finished(this.keepsAlive);
  }

  /** All that is left is to break off towards the client too. */
  cut(): void {
    this.#passage.letGo();
    this.#end('broken-off');
    this.phase = 'over';
    this.client.breakOff(this.#passage.isFramed);
  }

  /** As long as nothing went out, there is a better answer than none; else the answer is broken off. */
  #canAnswer(): boolean {
    this.#passage.letGo();
    if (this.#status === 0 || !this.#passage.isAnswerOut) return true;
    this.cut();
    return false;
  }

  #onStepOver(): void {
    switch (this.phase) {
      case 'dialling':
        this.#passage.undialled();
        this.pick();
        break;
      case 'collecting':
        this.fail('client-slow');
        break;
      case 'asked': {
        const isClients = !this.#passage.body.isDone && !this.client.isPaused;
        if (!isClients) this.#passage.late();
        this.fail(isClients ? 'client-slow' : 'backend-late');
        break;
      }
      case 'answering':
      case 'tunnel':
        this.cut();
        break;
      case 'discarding':
        this.client.socket.destroy();
        break;
      case 'picking':
      case 'over':
        break;
    }
  }

  #onTotalOver(): void {
    if (this.phase === 'answering' || this.phase === 'tunnel') this.cut();
    else if (this.phase === 'collecting' || this.phase === 'dialling' || this.phase === 'asked') this.fail('too-late');
  }

  async #pickLater(picked: Promise<Backend | undefined>): Promise<void> {
    this.#dial(await picked);
  }

  #dial(backend: Backend | undefined): void {
    if (this.#isGone) {
      if (backend !== undefined) this.exchange.release(backend);
      this.#end('client-gone');
      this.phase = 'over';
      return;
    }
    if (backend === undefined) return this.fail(this.#passage.problem);
    this.phase = 'dialling';
    this.#patience.dial(backend);
    this.#passage.dial(backend);
  }

  #complete(): void {
    const { isDone } = this.#passage.body;
    this.#passage.answered();
    this.#end('answered');
    if (isDone || !this.keepsAlive) {
      this.#leave();
      return;
    }
    this.phase = 'discarding';
    this.client.resume();
    this.client.pump();
  }

  #leave(): void {
    this.phase = 'over';
    this.client.finished(this.keepsAlive);
  }

  #end(how: Ending['how'], bytesOut: number = this.#passage.bytesOut): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.exchange.end({ status: this.#status, bytesIn: this.#passage.body.bytes, bytesOut, how });
  }
}
