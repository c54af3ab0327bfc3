/** Questions about other people's names, passed on to the resolvers the host uses itself. */
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { abortError } from '@flynn/kit/clock';
import { withDeadline } from '@flynn/kit/retry';
import { createSocket } from 'node:dgram';
import { readFile } from 'node:fs/promises';
import { connect, isIP, isIPv6 } from 'node:net';

export type Upstream = { address: string; port: number };

/** The nameservers of a resolv.conf, in order; never one of our own addresses, or a question would go round in circles. */
export function parseResolvers(resolvConf: string, own: readonly string[]): Upstream[] {
  return [...resolvConf.matchAll(/^\s*nameserver\s+(\S+)/gm)]
    .map((match) => match[1] ?? '')
    .filter((address) => isIP(address) !== 0 && !own.includes(address))
    .map((address) => ({ address, port: 53 }));
}

/** Reads the file again at most every 10 s: a laptop changes networks, a host its DHCP lease. */
export function hostResolvers(path: string, own: readonly string[]): () => Promise<readonly Upstream[]> {
  let known: Promise<readonly Upstream[]> = Promise.resolve([]);
  let readAt = -Infinity;
  return () => {
    if (performance.now() - readAt > 10_000) {
      readAt = performance.now();
      known = readFile(path, 'utf8').then(
        (text) => parseResolvers(text, own),
        // A host without the file has no resolvers: questions then end with SERVFAIL, which says so.
        () => [],
      );
    }
    return known;
  };
}

/** The first upstream's answer that comes in time, as bytes with the question's id. Throws `unavailable` when none does. */
export async function forward(
  query: Buffer,
  options: { upstreams: readonly Upstream[]; via: 'udp' | 'tcp'; timeoutMs: number; signal: AbortSignal },
): Promise<Buffer> {
  const failures: string[] = [];
  for (const upstream of options.upstreams) {
    const signal = withDeadline(options.timeoutMs, options.signal);
    try {
      return options.via === 'udp' ? await askUdp(query, upstream, signal) : await askTcp(query, upstream, signal);
    } catch (error) {
      if (options.signal.aborted) throw abortError(options.signal);
      failures.push(`${upstream.address}: ${messageOf(error)}`);
    }
  }
  const why = failures.length === 0 ? 'the host has no other resolver' : failures.join('; ');
  throw new FlynnError('unavailable', `no upstream resolver answered (${why})`);
}

function askUdp(query: Buffer, upstream: Upstream, signal: AbortSignal): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const socket = createSocket(isIPv6(upstream.address) ? 'udp6' : 'udp4');
  const abort = () => reject(abortError(signal));
  signal.addEventListener('abort', abort, { once: true });
  socket.on('error', reject);
  // A connected socket hears only its peer; a late answer to another question has another id.
  socket.on('message', (answer) => {
    if (answer.length >= 12 && answer.readUInt16BE(0) === query.readUInt16BE(0)) resolve(answer);
  });
  // Its callback would be told of a failure too, and not being connected is then an exception when sending.
  socket.once('connect', () => socket.send(query));
  socket.connect(upstream.port, upstream.address);
  if (signal.aborted) abort();
  return promise.finally(() => {
    signal.removeEventListener('abort', abort);
    socket.close();
  });
}

function askTcp(query: Buffer, upstream: Upstream, signal: AbortSignal): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const socket = connect(upstream.port, upstream.address);
  const abort = () => reject(abortError(signal));
  signal.addEventListener('abort', abort, { once: true });
  let received = Buffer.alloc(0);
  socket.on('error', reject);
  socket.on('close', () => reject(new FlynnError('unavailable', 'it closed the connection without an answer')));
  socket.on('connect', () => socket.write(frameMessage(query)));
  socket.on('data', (chunk: Buffer) => {
    received = Buffer.concat([received, chunk]);
    const [message] = takeMessages(received).messages;
    if (message !== undefined) resolve(message);
  });
  if (signal.aborted) abort();
  return promise.finally(() => {
    signal.removeEventListener('abort', abort);
    socket.destroy();
  });
}

/** DNS over TCP: two bytes of length before each message. */
export function frameMessage(message: Buffer): Buffer {
  const head = Buffer.alloc(2);
  head.writeUInt16BE(message.length);
  return Buffer.concat([head, message]);
}

export function takeMessages(received: Buffer): { messages: Buffer[]; rest: Buffer } {
  const messages: Buffer[] = [];
  let rest = received;
  while (rest.length >= 2 && rest.length >= 2 + rest.readUInt16BE(0)) {
    const end = 2 + rest.readUInt16BE(0);
    messages.push(rest.subarray(2, end));
    rest = rest.subarray(end);
  }
  return { messages, rest };
}
