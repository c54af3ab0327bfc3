/** Backends that speak HTTP/1.1, over the connections that are kept to them for HTTP/1 clients too. */
import { createHash, randomBytes } from 'node:crypto';
import { hasVanished } from '../backend.ts';
import type { Backend } from '../backend.ts';
import type { Fields } from '../exchange.ts';
import type { AnswerReceiver, BackendConnection } from '../http1/backend-connection.ts';
import { HeadFields } from '../http1/fields.ts';
import type { Pools } from '../http1/pool.ts';
import type { Http1ResponseHead } from '../http1/response-head.ts';
import type { Attempt, Failure, Receiver, Upstream, UpstreamRequest } from './attempt.ts';
import { http1AnswerFields, trailerFields } from './fields.ts';
import { requestText } from './http1-request.ts';
import { copyOf } from './slab.ts';

/** Smaller pieces are copied for a receiver that is crowded too: lending them costs the connection if they are an answer's last. */
const lentBytes = 8_192;

export class Http1Upstream implements Upstream {
  readonly #pools: Pools;

  constructor(pools: Pools) {
    this.#pools = pools;
  }

  open(backend: Backend, request: UpstreamRequest, receiver: Receiver): Attempt {
    return new Http1Attempt(this.#pools, backend, request, receiver);
  }
}

class Http1Attempt implements Attempt, AnswerReceiver {
  readonly takesChunks = false;
  readonly #pools: Pools;
  readonly #backend: Backend;
  readonly #request: UpstreamRequest;
  readonly #upgradeKey: string;
  #receiver: Receiver | undefined;
  #connection: BackendConnection | undefined;
  #isConnected = false;
  #isSent = false;
  #isTunnel = false;
  /** Of what the connection reads into something is lent until `resume`. */
  #hasLent = false;
  #trailers: Fields = [];

  constructor(pools: Pools, backend: Backend, request: UpstreamRequest, receiver: Receiver) {
    this.#pools = pools;
    this.#backend = backend;
    this.#request = request;
    this.#receiver = receiver;
    this.#upgradeKey = request.head.upgrade === undefined ? '' : randomBytes(16).toString('base64');
  }

  begin(): void {
    if (this.#request.head.upgrade !== undefined || this.#request.wantsNew) {
      this.#connection = this.#pools.open(this.#backend, this);
      return;
    }
    const { connection, isNew } = this.#pools.take(this.#backend, this, this.#request.canRepeat);
    this.#connection = connection;
    if (!isNew) this.onConnected();
  }

  write(bytes: Buffer): boolean {
    const outbox = this.#connection?.outbox;
    if (outbox === undefined) return false;
    if (this.#isTunnel || this.#request.head.body !== 'until-end') return outbox.writeNow(bytes);
    return outbox.writeTogether(`${bytes.length.toString(16)}\r\n`, bytes, '\r\n');
  }

  end(trailers: Fields): void {
    this.#isSent = true;
    const outbox = this.#connection?.outbox;
    if (this.#isTunnel) outbox?.end();
    else if (this.#request.head.body === 'until-end') {
      let text = '0\r\n';
      const kept = trailerFields(trailers);
      for (let i = 0; i < kept.length; i += 2) text += `${kept[i] ?? ''}: ${kept[i + 1] ?? ''}\r\n`;
      outbox?.write(`${text}\r\n`);
    }
  }

  pause(): void {
    this.#connection?.socket.pause();
  }

  resume(): void {
    this.#hasLent = false;
    this.#connection?.socket.resume();
  }

  abort(): void {
    this.#receiver = undefined;
    this.#connection?.destroy();
  }

  onConnected(): void {
    const connection = this.#connection;
    if (connection === undefined) return;
    this.#isConnected = true;
    connection.expect({ isForHead: this.#request.head.method === 'HEAD' });
    // Together with what is there of the body.
    connection.outbox.write(requestText(this.#request, this.#upgradeKey));
    this.#receiver?.onConnected();
  }

  onInformation(head: Http1ResponseHead): void {
    if (head.status > 101) this.#receiver?.onInformation(head.status, http1AnswerFields(head));
  }

  onHead(head: Http1ResponseHead): void {
    const { upgrade } = this.#request.head;
    if (head.status === 101) {
      if (upgrade === undefined || !this.#isUpgradedRightly(head)) return this.#fail('broke');
      this.#isTunnel = true;
      this.#receiver?.onUpgraded(http1AnswerFields(head));
      return;
    }
    // To the client that would read as a tunnel.
    if (upgrade !== undefined && head.status < 300) return this.#fail('broke');
    const { framing } = head;
    const extent = framing === 'none' || framing === 'length' ? framing : 'open';
    this.#receiver?.onHead(head.status, http1AnswerFields(head), extent);
  }

  onBytes(buffer: Buffer, from: number, to: number): void {
    const receiver = this.#receiver;
    if (receiver === undefined) return;
    // The buffer is used again for what is read next. Who takes nothing for now has nothing read, and would have it twice.
    const isLent = receiver.isCrowded === true && to - from >= lentBytes;
    this.#hasLent ||= isLent;
    receiver.onData(isLent ? buffer.subarray(from, to) : copyOf(buffer, from, to));
  }

  onTail(text: string): void {
    const fields = new HeadFields();
    fields.read(text, 0);
    this.#trailers = trailerFields(fields.names.flatMap((name, i) => [name, fields.value(i)]));
  }

  onEnd(): void {
    const connection = this.#connection;
    if (connection === undefined) return;
    if (this.#isSent && !this.#hasLent) {
      connection.socket.resume();
      this.#pools.give(connection);
    } else connection.destroy();
    this.#finish(this.#trailers);
  }

  onPause(): void {
    // What came was given on at once; node:http2 puts it together.
  }

  onTunnelEnd(): void {
    this.#connection?.destroy();
    this.#finish([]);
  }

  onBroken(error: Error): void {
    this.#fail(!this.#isConnected ? 'dial' : hasVanished(error) ? 'vanished' : 'broke');
  }

  onDrain(): void {
    this.#receiver?.onDrain();
  }

  #finish(trailers: Fields): void {
    const receiver = this.#receiver;
    this.#receiver = undefined;
    receiver?.onEnd(trailers);
  }

  #fail(failure: Failure): void {
    const receiver = this.#receiver;
    this.#receiver = undefined;
    this.#connection?.destroy();
    receiver?.onFailure(failure);
  }

  #isUpgradedRightly(head: Http1ResponseHead): boolean {
    const { upgrade } = this.#request.head;
    if (head.upgrade?.toLowerCase() !== upgrade) return false;
    if (upgrade !== 'websocket') return true;
    const sum = createHash('sha1').update(`${this.#upgradeKey}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`);
    const at = head.fields.names.indexOf('sec-websocket-accept');
    return at >= 0 && head.fields.value(at) === sum.digest('base64');
  }
}
