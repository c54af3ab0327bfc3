/** Writes the answer of an HTTP/2 backend to an HTTP/1 client: which says how long a body is before it, not by its stream's end. */
import type { Fields } from '../exchange.ts';
import type { Extent } from '../http2/attempt.ts';
import { trailerFields } from '../http2/fields.ts';
import type { Outbox } from './outbox.ts';
import type { Http1RequestHead } from './request-head.ts';
import { asHttp1 } from './translated-head.ts';

type Framing = 'none' | 'length' | 'empty' | 'chunked' | 'until-close';

const linesOf: Readonly<Record<Framing, string>> = {
  none: '',
  length: '',
  empty: 'content-length: 0\r\n',
  chunked: 'transfer-encoding: chunked\r\n',
  'until-close': '',
};

export type Begun = { status: number; fields: Fields; extent: Extent };

export class TranslatedAnswer {
  readonly #outbox: Outbox;
  readonly #begun: Begun;
  readonly #framing: Framing;
  /** Of the body. */
  bytes = 0;

  constructor(outbox: Outbox, head: Pick<Http1RequestHead, 'method' | 'protocol'>, begun: Begun) {
    this.#outbox = outbox;
    this.#begun = begun;
    this.#framing = framingOf(head, begun);
  }

  /** Nothing else tells the client where the body ends. */
  get endsConnection(): boolean {
    return this.#framing === 'until-close';
  }

  /** `added` are fields of the router's, `connection` a line of its own. */
  begin(added: Fields, connection: string): void {
    const { status, fields } = this.#begun;
    this.#outbox.write(asHttp1(status, fields, added, linesOf[this.#framing] + connection));
  }

  write(bytes: Buffer): void {
    if (this.#framing === 'none') return;
    this.bytes += bytes.length;
    if (this.#framing === 'chunked') this.#outbox.writeTogether(`${bytes.length.toString(16)}\r\n`, bytes, '\r\n');
    else this.#outbox.writeNow(bytes);
  }

  end(trailers: Fields): void {
    if (this.#framing !== 'chunked') return;
    let text = '0\r\n';
    const kept = trailerFields(trailers);
    for (let i = 0; i < kept.length; i += 2) text += `${kept[i] ?? ''}: ${kept[i + 1] ?? ''}\r\n`;
    this.#outbox.write(`${text}\r\n`);
  }
}

function framingOf({ method, protocol }: Pick<Http1RequestHead, 'method' | 'protocol'>, begun: Begun): Framing {
  const { status, fields, extent } = begun;
  if (method === 'HEAD' || status === 204 || status === 304) return 'none';
  if (fields.some((name, i) => i % 2 === 0 && name === 'content-length')) return 'length';
  if (extent === 'none') return 'empty';
  return protocol === 'HTTP/1.1' ? 'chunked' : 'until-close';
}
