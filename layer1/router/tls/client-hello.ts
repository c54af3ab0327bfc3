/** What does a client's first TLS message ask for? Read without ending TLS (RFC 8446 4.1.2, RFC 6066 3, RFC 7301). Pure. */

export type ClientHello = Readonly<{
  /** Lower case; undefined when it names none. */
  serverName: string | undefined;
  /** In its order; empty when it offers none. */
  protocols: readonly string[];
}>;

/** The longest hello that is read: with post-quantum keys and a resumed session it is some 4 KB. */
export const maxHelloBytes = 16 * 1024;
const maxRecordBytes = 16_384;
const handshakeRecord = 22;
const clientHelloMessage = 1;
const extensionTypes = { serverName: 0, protocols: 16 } as const;

/** `more`: it goes on. `none`: this is no ClientHello, or not a sound one. */
export type HelloOutcome = ClientHello | 'more' | 'none';

/** `bytes`: everything that came so far. A hello may be in several records, and a record come in several pieces. */
export function readClientHello(bytes: Uint8Array): HelloOutcome {
  const message = handshakeBytes(bytes);
  if (message === 'none') return 'none';
  if (message.length < 4) return bytes.length > maxHelloBytes ? 'none' : 'more';
  const [type = 0, high = 0, middle = 0, low = 0] = message;
  const length = (high << 16) | (middle << 8) | low;
  if (type !== clientHelloMessage || length > maxHelloBytes) return 'none';
  if (message.length < 4 + length) return bytes.length > maxHelloBytes ? 'none' : 'more';
  return parse(new Reader(message.subarray(4, 4 + length)));
}

/** The handshake messages that the whole or begun records hold, as far as they are there. */
function handshakeBytes(bytes: Uint8Array): Uint8Array | 'none' {
  const parts: Uint8Array[] = [];
  for (let at = 0; at < bytes.length;) {
    const [type, major = 3, , high, low] = bytes.subarray(at, at + 5);
    if (type !== handshakeRecord || major !== 3) return 'none';
    if (high === undefined || low === undefined) break;
    const length = (high << 8) | low;
    if (length === 0 || length > maxRecordBytes) return 'none';
    parts.push(bytes.subarray(at + 5, at + 5 + length));
    at += 5 + length;
  }
  const [only] = parts;
  return parts.length === 1 && only !== undefined ? only : Buffer.concat(parts);
}

function parse(hello: Reader): HelloOutcome {
  hello.skip(2 + 32);
  hello.skip(hello.uint8());
  hello.skip(hello.uint16());
  hello.skip(hello.uint8());
  let serverName: string | undefined;
  let protocols: readonly string[] = [];
  if (!hello.isAtEnd) {
    const extensions = hello.part(hello.uint16());
    while (!extensions.isAtEnd) {
      const type = extensions.uint16();
      const body = extensions.part(extensions.uint16());
      if (type === extensionTypes.serverName) serverName = nameOf(body);
      else if (type === extensionTypes.protocols) protocols = protocolsOf(body);
      if (body.isBroken) return 'none';
    }
    if (extensions.isBroken) return 'none';
  }
  return hello.isBroken ? 'none' : { serverName, protocols };
}

/** Of the list the host name, the only type there is. */
function nameOf(body: Reader): string | undefined {
  const list = body.part(body.uint16());
  let name: string | undefined;
  while (!list.isAtEnd) {
    const type = list.uint8();
    const text = list.part(list.uint16()).text();
    if (type === 0) name ??= text.toLowerCase().replace(/\.$/, '');
  }
  if (list.isBroken) body.break();
  return name === '' ? undefined : name;
}

function protocolsOf(body: Reader): string[] {
  const list = body.part(body.uint16());
  const protocols: string[] = [];
  while (!list.isAtEnd) protocols.push(list.part(list.uint8()).text());
  if (list.isBroken) body.break();
  return protocols;
}

/** Reads past the end give nothing and are remembered, so that they are asked about once. */
class Reader {
  readonly #bytes: Uint8Array;
  #at = 0;
  #isBroken = false;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get isAtEnd(): boolean {
    return this.#isBroken || this.#at >= this.#bytes.length;
  }

  get isBroken(): boolean {
    return this.#isBroken;
  }

  break(): void {
    this.#isBroken = true;
  }

  uint8(): number {
    const [value = 0] = this.#take(1);
    return value;
  }

  uint16(): number {
    const [high = 0, low = 0] = this.#take(2);
    return (high << 8) | low;
  }

  skip(length: number): void {
    this.#take(length);
  }

  /** Of a part that is not all there, nothing can be said. */
  part(length: number): Reader {
    return new Reader(this.#take(length));
  }

  text(): string {
    return Buffer.from(this.#bytes).toString('latin1');
  }

  #take(length: number): Uint8Array {
    if (this.#isBroken || this.#at + length > this.#bytes.length) {
      this.#isBroken = true;
      return new Uint8Array();
    }
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }
}
