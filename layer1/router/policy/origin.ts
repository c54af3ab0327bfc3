/** Whom is a request from, and what is the backend told of that? */
import { addressIn, clientField, clientOf } from '@flynn/kit/client-address';
import type { Client, Fields, RequestHead } from '../exchange.ts';
import type { Networks } from './networks.ts';

/** Who asks, as far as this can be known: the peer, or whom a trusted proxy names. */
export type Origin = {
  readonly address: string;
  /** Under which limits count it. */
  readonly client: string;
  readonly isTls: boolean;
};

/** What stays the same over all requests of a connection. */
type Peer = {
  readonly origin: Origin;
  readonly isTrusted: boolean;
  readonly scheme: 'http' | 'https';
  readonly port: string;
  /** `for=192.0.2.1`, as RFC 7239 writes it. */
  readonly forwardedFor: string;
  /** What was told last, and of which host. */
  linesHost: string;
  lines: string;
};

/** Fields by which others than the router could tell a backend where a request is from: it alone may. */
const lookalikes = [
  'x_forwarded_for',
  'x_forwarded_proto',
  'x_forwarded_port',
  'x_forwarded_host',
  'x_request_id',
  'x_flynn_client',
];

/** What is told of a request besides where it is from. */
const own = ['x-request-id', 'x-request-start'];
const told = ['x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-port', 'x-forwarded-host', 'forwarded', clientField];

/**
 * What no backend gets of the client's: what the router says itself. CGI makes HTTP_PROXY of `Proxy`, and of
 * `X_Forwarded_For` the same as of `X-Forwarded-For`.
 */
export const neverForwarded: ReadonlySet<string> = new Set(['proxy', ...lookalikes, ...own, ...told]);

/** Nor this, where it was the password of the route. */
export const neverWithPassword: ReadonlySet<string> = new Set([...neverForwarded, 'authorization']);

/**
 * Proxies in front of the router are trusted by their address. Without any, a client's own X-Forwarded-For and Forwarded
 * are appended to, as apps expect that take the last entry, but not believed. With some, those of all others are dropped.
 */
export class Origins {
  readonly #trusted: Networks;
  readonly #peers = new WeakMap<Client, Peer>();

  constructor(trusted: Networks) {
    this.#trusted = trusted;
  }

  of(head: RequestHead, client: Client): Origin {
    const peer = this.#peerOf(client);
    if (!peer.isTrusted) return peer.origin;
    const address = this.#namedBy(head.header('x-forwarded-for')) ?? client.address;
    return { address, client: clientOf(address), isTls: schemeOf(head, peer) === 'https' };
  }

  /** What the backend is told of where a request is from: name, value …. */
  fields(head: RequestHead, client: Client): string[] {
    const peer = this.#peerOf(client);
    const appends = this.#appends(peer);
    const before = appends ? head.header('x-forwarded-for') : undefined;
    const forwardedBefore = appends ? head.header('forwarded') : undefined;
    const scheme = schemeOf(head, peer);
    const asked = head.header('host') ?? head.host;
    const host = (peer.isTrusted ? head.header('x-forwarded-host') : undefined) ?? asked;
    const port = (peer.isTrusted ? head.header('x-forwarded-port') : undefined) ?? peer.port;
    // What cannot stand in quotes as it is stands in no element.
    const hostPart = isQuotable(asked) ? `;host="${asked}"` : '';
    const element = `${peer.forwardedFor}${hostPart};proto=${peer.scheme}`;
    return [
      'x-forwarded-for',
      before === undefined || before === '' ? client.address : `${before}, ${client.address}`,
      'x-forwarded-proto',
      scheme,
      'x-forwarded-port',
      port,
      'x-forwarded-host',
      host,
      'forwarded',
      forwardedBefore === undefined || forwardedBefore === '' ? element : `${forwardedBefore}, ${element}`,
      // Of all others it is the last of X-Forwarded-For.
      ...(peer.isTrusted ? [clientField, this.of(head, client).address] : []),
    ];
  }

  /** The same as lines. A client that nobody is behind has the same ones for all that it asks of a host. */
  lines(head: RequestHead, client: Client): string {
    const peer = this.#peerOf(client);
    const appends = this.#appends(peer);
    const isNamed = head.header('x-forwarded-for') !== undefined || head.header('forwarded') !== undefined;
    const isPlain = !peer.isTrusted && !(appends && isNamed);
    if (!isPlain) return linesOf(this.fields(head, client));
    const host = head.header('host') ?? head.host;
    if (peer.lines === '' || peer.linesHost !== host) {
      peer.linesHost = host;
      peer.lines = inOnePiece(linesOf(this.fields(head, client)));
    }
    return peer.lines;
  }

  #appends(peer: Peer): boolean {
    return peer.isTrusted || this.#trusted.isEmpty;
  }

  /** The last that is not a trusted proxy itself: those before it are its own word. */
  #namedBy(forwardedFor: string | undefined): string | undefined {
    let named: string | undefined;
    for (const text of (forwardedFor ?? '').split(',').toReversed()) {
      const address = addressIn(text);
      if (address === undefined) break;
      named = address;
      if (!this.#trusted.has(address)) break;
    }
    return named;
  }

  #peerOf(client: Client): Peer {
    let peer = this.#peers.get(client);
    if (peer === undefined) {
      const { address, localPort, isTls } = client;
      peer = {
        origin: { address, client: clientOf(address), isTls },
        isTrusted: this.#trusted.has(address),
        scheme: isTls ? 'https' : 'http',
        port: String(localPort),
        forwardedFor: address.includes(':') ? `for="[${address}]"` : `for=${address}`,
        linesHost: '',
        lines: '',
      };
      this.#peers.set(client, peer);
    }
    return peer;
  }
}

/** One for each name and value. */
export function linesOf(fields: Fields): string {
  let lines = '';
  for (let i = 0; i + 1 < fields.length; i += 2) lines += `${fields[i]}: ${fields[i + 1]}\r\n`;
  return lines;
}

/** What was put together of pieces stays pieces, each gone through whenever it is written. */
function inOnePiece(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1');
}

function schemeOf(head: RequestHead, peer: Peer): 'http' | 'https' {
  if (!peer.isTrusted) return peer.scheme;
  const told = head.header('x-forwarded-proto');
  return told === 'http' || told === 'https' ? told : peer.scheme;
}

function isQuotable(text: string): boolean {
  if (text === '') return false;
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    if (code < 33 || code > 126 || code === 34 || code === 92) return false;
  }
  return true;
}

/** An id that the client gave is kept if it is safe to put anywhere, and long enough to be one. */
export function isSafeId(text: string): boolean {
  if (text.length < 20 || text.length > 200) return false;
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    const isLetterOrDigit = (code >= 97 && code <= 122) || (code >= 48 && code <= 57) || (code >= 65 && code <= 90);
    // Besides these: + - . / = _
    const isSafe = isLetterOrDigit || code === 43 || (code >= 45 && code <= 47) || code === 61 || code === 95;
    if (!isSafe) return false;
  }
  return true;
}
