/** One connection to an HTTP/1.1 backend, carrying one request after the other. */
import { createHash, randomBytes } from 'node:crypto';
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import type { Backend } from '../backend.ts';
import type { Fields } from '../exchange.ts';
import type { Attempt, Failure, Receiver, UpstreamRequest } from './attempt.ts';
import { answerFields, trailerFields } from './fields.ts';
import { ChunkedReader, readAnswerHead } from './http1-answer.ts';
import type { AnswerHead } from './http1-answer.ts';
import { requestText } from './http1-request.ts';

const maxHeadBytes = 65_536;
const maxInformations = 16;
const emptyLine = Buffer.from('\r\n\r\n');
const nothing = Buffer.alloc(0);
/**
 * What every connection reads into: each read is dealt with before the next one, and what is kept of it is copied. A buffer
 * for each read, as sockets have it otherwise, costs more in the collection of garbage than the copy.
 */
const readBuffer = Buffer.allocUnsafeSlow(65_536);

type State = 'idle' | 'dialling' | 'head' | 'body' | 'tunnel' | 'closed';

/**
 * INVARIANT. It goes back to its pool only when the request was sent and the answer was read, both whole, and nothing
 * came besides; everything else closes it.
 */
export class Http1Connection implements Attempt {
  readonly #socket: Socket;
  readonly #park: (connection: Http1Connection) => void;
  #state: State = 'dialling';
  #request: UpstreamRequest | undefined;
  #receiver: Receiver | undefined;
  #upgradeKey = '';
  #isSent = false;
  #unread: Buffer = nothing;
  #informations = 0;
  /** Of a body with a length. */
  #left = 0;
  #chunks: ChunkedReader | undefined;
  #keepsOpen = false;
  idleSinceMs = 0;

  constructor(backend: Backend, park: (connection: Http1Connection) => void) {
    this.#park = park;
    // Half-close is the business of who talks through a tunnel.
    this.#socket = connect({
      host: backend.host,
      port: backend.port,
      noDelay: true,
      allowHalfOpen: true,
      onread: {
        buffer: readBuffer,
        callback: (length) => {
          this.#onBytes(readBuffer.subarray(0, length));
          return true;
        },
      },
    });
    this.#socket.on('connect', () => this.#onConnect());
    this.#socket.on('drain', () => this.#receiver?.onDrain());
    this.#socket.on('end', () => this.#onEnd());
    // 'close' follows, and says all there is to say.
    this.#socket.on('error', () => undefined);
    this.#socket.on('close', () => this.#fail(this.#state === 'dialling' ? 'dial' : 'broke'));
  }

  get isOpen(): boolean {
    return this.#state === 'idle';
  }

  take(request: UpstreamRequest, receiver: Receiver): this {
    this.#request = request;
    this.#receiver = receiver;
    this.#isSent = false;
    this.#informations = 0;
    return this;
  }

  begin(): void {
    if (this.#state === 'idle') this.#send();
  }

  write(bytes: Buffer): boolean {
    if (this.#state === 'tunnel' || this.#request?.head.body !== 'until-end') return this.#socket.write(bytes);
    this.#socket.cork();
    this.#socket.write(`${bytes.length.toString(16)}\r\n`, 'latin1');
    this.#socket.write(bytes);
    const hasRoom = this.#socket.write('\r\n', 'latin1');
    this.#socket.uncork();
    return hasRoom;
  }

  end(trailers: Fields): void {
    this.#isSent = true;
    if (this.#state === 'tunnel') this.#socket.end();
    else if (this.#request?.head.body === 'until-end') {
      let text = '0\r\n';
      const kept = trailerFields(trailers);
      for (let i = 0; i < kept.length; i += 2) text += `${kept[i] ?? ''}: ${kept[i + 1] ?? ''}\r\n`;
      this.#socket.write(`${text}\r\n`, 'latin1');
    }
  }

  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  abort(): void {
    this.#receiver = undefined;
    this.close();
  }

  close(): void {
    this.#state = 'closed';
    this.#socket.destroy();
  }

  #onConnect(): void {
    if (this.#state === 'dialling') this.#send();
  }

  #send(): void {
    if (this.#request === undefined) return;
    this.#state = 'head';
    this.#upgradeKey = this.#request.head.upgrade === undefined ? '' : randomBytes(16).toString('base64');
    this.#socket.cork();
    this.#socket.write(requestText(this.#request, this.#upgradeKey), 'latin1');
    this.#receiver?.onConnected();
    this.#socket.uncork();
  }

  #onBytes(bytes: Buffer): void {
    switch (this.#state) {
      case 'head':
        this.#onHeadBytes(bytes);
        break;
      case 'body':
        this.#onBodyBytes(bytes);
        break;
      case 'tunnel':
        this.#receiver?.onData(Buffer.from(bytes));
        break;
      // Said without being asked.
      case 'idle':
      case 'dialling':
      case 'closed':
        this.close();
    }
  }

  #onHeadBytes(bytes: Buffer): void {
    let all = this.#unread.length === 0 ? bytes : Buffer.concat([this.#unread, bytes]);
    this.#unread = nothing;
    while (this.#state === 'head') {
      const end = all.indexOf(emptyLine);
      if (end > maxHeadBytes || (end === -1 && all.length > maxHeadBytes)) return this.#break();
      if (end === -1) {
        this.#unread = Buffer.from(all);
        return;
      }
      const head = readAnswerHead(all.toString('latin1', 0, end));
      if (head === undefined) return this.#break();
      all = all.subarray(end + emptyLine.length);
      this.#onHead(head);
    }
    // What came with the head; of an answer without a body even nothing is the end of it.
    if (this.#state !== 'closed') this.#onBytes(all);
  }

  #onHead(head: AnswerHead): void {
    const fields = answerFields(head.fields, head.connection);
    const method = this.#request?.head.method;
    const upgrade = this.#request?.head.upgrade;
    if (head.status === 101) {
      if (upgrade === undefined || !this.#isUpgradedRightly(head)) return this.#break();
      this.#state = 'tunnel';
      this.#keepsOpen = false;
      this.#receiver?.onUpgraded(fields);
    } else if (head.status < 200) {
      this.#informations += 1;
      if (this.#informations > maxInformations) return this.#break();
      if (head.status > 101) this.#receiver?.onInformation(head.status, fields);
    } else {
      // To the client that would read as a tunnel.
      if (upgrade !== undefined && head.status < 300) return this.#break();
      const isBodyless = method === 'HEAD' || head.status === 204 || head.status === 304;
      this.#chunks = !isBodyless && head.frame === 'chunked' ? new ChunkedReader() : undefined;
      this.#left = isBodyless ? 0 : typeof head.frame === 'number' ? head.frame : Infinity;
      this.#keepsOpen = head.keepsOpen && (isBodyless || head.frame !== 'until-close');
      this.#state = 'body';
      const extent = this.#left === Infinity ? 'open' : this.#left === 0 ? 'none' : 'length';
      this.#receiver?.onHead(head.status, fields, extent);
    }
  }

  #isUpgradedRightly(head: AnswerHead): boolean {
    const upgrade = this.#request?.head.upgrade;
    const valueOf = (name: string) => head.fields.find((_, i) => i % 2 === 1 && head.fields[i - 1] === name);
    if (valueOf('upgrade')?.toLowerCase() !== upgrade) return false;
    if (upgrade !== 'websocket') return true;
    const sum = createHash('sha1').update(`${this.#upgradeKey}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`);
    return valueOf('sec-websocket-accept') === sum.digest('base64');
  }

  #onBodyBytes(bytes: Buffer): void {
    if (this.#chunks !== undefined) {
      const used = this.#chunks.read(bytes, (data) => this.#receiver?.onData(Buffer.from(data)));
      if (used === undefined) return;
      const trailers = used === -1 ? undefined : this.#chunks.trailers();
      if (used < bytes.length) this.#keepsOpen = false;
      if (trailers === undefined) this.#break();
      else this.#finish(trailerFields(trailers));
      return;
    }
    // More than was announced is not part of this answer, nor of any other.
    const own = bytes.length > this.#left ? bytes.subarray(0, this.#left) : bytes;
    if (own.length < bytes.length) this.#keepsOpen = false;
    this.#left -= own.length;
    if (own.length > 0) this.#receiver?.onData(Buffer.from(own));
    if (this.#left === 0) this.#finish([]);
  }

  #onEnd(): void {
    const isEnd =
      this.#state === 'tunnel' || (this.#state === 'body' && this.#left === Infinity && this.#chunks === undefined);
    if (isEnd) this.#finish([]);
    else this.#socket.destroy();
  }

  #finish(trailers: Fields): void {
    const receiver = this.#receiver;
    // The answer may have been aborted by what was given of it.
    if (receiver === undefined || this.#state === 'closed') return;
    this.#receiver = undefined;
    this.#request = undefined;
    if (this.#keepsOpen && this.#isSent) {
      this.#state = 'idle';
      this.#socket.resume();
      this.#park(this);
    } else this.close();
    receiver.onEnd(trailers);
  }

  #break(): void {
    this.#fail('broke');
  }

  #fail(failure: Failure): void {
    const receiver = this.#receiver;
    this.#receiver = undefined;
    this.close();
    receiver?.onFailure(failure);
  }
}
