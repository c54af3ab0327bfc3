/** The DNS server of a host: the cluster's names from discovery, all others from the host's own resolvers. */
import { asFlynnError, messageOf } from '@flynn/kit/errors';
import { listenOn } from '@flynn/kit/listening';
import type { Logger } from '@flynn/kit/log';
import {
  AUTHORITATIVE_ANSWER,
  RECURSION_AVAILABLE,
  RECURSION_DESIRED,
  TRUNCATED_RESPONSE,
  decode,
  encode,
  encodingLength,
} from 'dns-packet';
import type { Answer, DecodedPacket } from 'dns-packet';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer, isIPv6 } from 'node:net';
import type { Server, Socket } from 'node:net';
import { networkInterfaces } from 'node:os';
import { serveConnection } from './dns-connection.ts';
import { Forwarder, hostResolvers } from './forward.ts';
import type { Upstream } from './forward.ts';
import { answerQuestion, isOwnName, rcodes, udpLimitOf } from './names.ts';
import type { RegistryReads } from './registry.ts';

export type DnsServer = { readonly address: string; readonly port: number } & AsyncDisposable;

type Via = 'udp' | 'tcp';

/** Of all, and of one address: a job that holds connections leaves the others some. */
const maxConnections = 256;
const maxConnectionsOfOne = 32;

/** Port 0 takes one that is free for UDP and TCP alike. Throws `unavailable` when the address cannot be used. */
export async function startDnsServer(options: {
  /**
   * Asked at each question. Without one the cluster's own names fail for the moment, instead of being told not to exist, which
   * clients may believe for long; others are answered.
   */
  registry: () => Pick<RegistryReads, 'instances' | 'leader'> | undefined;
  log: Logger;
  signal: AbortSignal;
  address: string;
  port?: number;
  /** Instead of those in the host's resolv.conf. */
  upstreams?: readonly Upstream[];
  resolvConf?: string;
  /** How long one upstream has before the next is asked. */
  upstreamTimeoutMs?: number;
}): Promise<DnsServer> {
  const { log, signal, address, upstreamTimeoutMs: timeoutMs = 2_000 } = options;
  const { upstreams } = options;
  const resolvers =
    upstreams === undefined
      ? hostResolvers(options.resolvConf ?? '/etc/resolv.conf', ownAddresses(address))
      : async () => upstreams;

  const forwarder = new Forwarder({ resolvers, timeoutMs, signal });

  async function respond(query: Buffer, via: Via, asker: string): Promise<Buffer | undefined> {
    let packet: DecodedPacket;
    try {
      packet = decode(query);
    } catch {
      // Not DNS. Say so if there is at least an id to answer to, but never to a response: that could go on for ever.
      if (query.length < 12 || (query.readUInt8(2) & 0x80) !== 0) return undefined;
      return encode({ type: 'response', id: query.readUInt16BE(0), flags: rcodes.formatError });
    }
    if (packet.flag_qr) return undefined;
    // Opcode 0 asks; the others want what this server does not do (RFC 1035, 4.1.1).
    if ((((packet.flags ?? 0) >> 11) & 15) !== 0) return encodeReply(packet, { flags: rcodes.notImplemented });
    const [question] = packet.questions ?? [];
    if (question === undefined) return encodeReply(packet, { flags: rcodes.formatError });
    if (!isOwnName(question.name)) {
      try {
        return await forwarder.ask(query, { via, asker });
      } catch (error) {
        if (!signal.aborted) log.debug({ err: error, name: question.name }, messageOf(error));
        return encodeReply(packet, { flags: rcodes.serverFailure });
      }
    }
    const registry = options.registry();
    if (registry === undefined) return encodeReply(packet, { flags: rcodes.serverFailure });
    const { rcode, answers, additionals } = answerQuestion(question, registry, Math.random);
    const flags = rcode | AUTHORITATIVE_ANSWER;
    const limit = via === 'udp' ? udpLimitOf(packet) : 65_535;
    for (const reply of [
      { flags, answers, additionals },
      // The additional records are a courtesy; the answers are not: without room for them the client asks again by TCP.
      { flags, answers },
    ]) {
      const encoded = encodeReply(packet, reply);
      if (encoded.length <= limit) return encoded;
    }
    return encodeTruncated(packet, flags, answers, limit);
  }

  const listening = await listen(address, options.port ?? 0, log);
  const { udp, tcp, port } = listening;

  udp.on('message', (query, from) => {
    void respond(query, 'udp', from.address)
      .then((reply) => {
        if (reply !== undefined && !signal.aborted) udp.send(reply, from.port, from.address, () => undefined);
      })
      // Also sending throws: to port 0, which anybody can pretend to ask from, and once the socket is closed.
      .catch((error: unknown) => log.error({ err: error }, `could not answer a DNS question: ${messageOf(error)}`));
  });
  udp.on('error', (error) => log.error({ err: error }, `the DNS server's UDP socket failed: ${messageOf(error)}`));

  const connections = new Map<Socket, string>();
  tcp.maxConnections = maxConnections;
  tcp.on('connection', (socket) => {
    const asker = socket.remoteAddress ?? '';
    const others = [...connections.values()].filter((one) => one === asker).length;
    if (others >= maxConnectionsOfOne) return socket.destroy();
    connections.set(socket, asker);
    socket.on('close', () => connections.delete(socket));
    serveConnection(socket, (query) => respond(query, 'tcp', asker));
    return undefined;
  });

  async function close(): Promise<void> {
    for (const socket of connections.keys()) socket.destroy();
    await closeBoth(udp, tcp);
  }
  let closed: Promise<void> | undefined;
  const closeOnce = () => (closed ??= close());
  signal.addEventListener('abort', () => void closeOnce(), { once: true });
  if (signal.aborted) await closeOnce();
  return { address, port, [Symbol.asyncDispose]: closeOnce };
}

/** As many answers as fit, for clients that do not ask again. */
function encodeTruncated(query: DecodedPacket, flags: number, answers: readonly Answer[], limit: number): Buffer {
  const empty: Reply = { flags: flags | TRUNCATED_RESPONSE, answers: [] };
  let left = limit - encodeReply(query, empty).length;
  const fitting = answers.findIndex((answer) => {
    left -= encodingLength({ answers: [answer] }) - encodingLength({});
    return left < 0;
  });
  return encodeReply(query, { ...empty, answers: answers.slice(0, Math.max(0, fitting)) });
}

type Reply = { flags: number; answers?: readonly Answer[]; additionals?: readonly Answer[] };

function encodeReply(query: DecodedPacket, reply: Reply): Buffer {
  const opt = query.additionals?.find((record) => record.type === 'OPT');
  const additionals = [...(reply.additionals ?? [])];
  if (opt !== undefined) {
    additionals.push({
      type: 'OPT',
      name: '.',
      udpPayloadSize: 1_232,
      extendedRcode: 0,
      ednsVersion: 0,
      flags: 0,
      flag_do: false,
      options: [],
    });
  }
  return encode({
    answers: [...(reply.answers ?? [])],
    type: 'response',
    ...(query.id === undefined ? {} : { id: query.id }),
    flags: reply.flags | RECURSION_AVAILABLE | (query.flag_rd ? RECURSION_DESIRED : 0),
    questions: query.questions ?? [],
    additionals,
  });
}

type Listening = { udp: ReturnType<typeof createSocket>; tcp: Server; port: number };

async function listen(address: string, port: number, log: Logger): Promise<Listening> {
  for (let attempt = 0; ; attempt += 1) {
    const tcp = createServer();
    const udp = createSocket({ type: isIPv6(address) ? 'udp6' : 'udp4' });
    try {
      const chosen = await listenOn(tcp, { name: 'DNS server', at: { host: address, port }, log });
      udp.bind(chosen, address);
      await once(udp, 'listening');
      return { udp, tcp, port: chosen };
    } catch (error) {
      await closeBoth(udp, tcp);
      // The port that was free for TCP may be taken for UDP; another one is not.
      if (port === 0 && attempt < 10) continue;
      const known = asFlynnError(error);
      throw Object.assign(known, { message: `could not serve DNS on ${address}:${port}: ${known.message}` });
    }
  }
}

async function closeBoth(udp: Listening['udp'], tcp: Server): Promise<void> {
  await Promise.all([
    // A socket that never came up is closed already.
    new Promise<void>((resolve) => {
      try {
        udp.close(() => resolve());
      } catch {
        resolve();
      }
    }),
    new Promise<void>((resolve) => {
      tcp.close(() => resolve());
    }),
  ]);
}

function ownAddresses(address: string): string[] {
  if (address !== '0.0.0.0' && address !== '::') return [address];
  return Object.values(networkInterfaces()).flatMap((list) => (list ?? []).map((entry) => entry.address));
}
