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

/** How long an upstream that did not answer is asked last. */
const badForMs = 10_000;
/** And how much shorter it is waited for: who asks is kept waiting by each question. */
const badShare = 0.5;
/** A datagram may be lost: the question is sent again after these shares of the time that there is for it. */
const againShares = [0.2, 0.5];
/** Different ones, of all. With upstreams that answer nobody comes near it; with none, each is a socket as long as it waits. */
const maxUnderWay = 1_000;
/** And of one that asks: a job that asks for names nobody answers for leaves the others room. */
const maxOfOne = 100;

/**
 * Asks the upstreams in their order, each for `timeoutMs` at most; those that did not answer lately come after the others,
 * and all at once, so that a question waits for one that is away only when it is news, and fails soon when all are.
 */
export class Forwarder {
  readonly #resolvers: () => Promise<readonly Upstream[]>;
  readonly #timeoutMs: number;
  readonly #signal: AbortSignal;
  readonly #badUntil = new Map<string, number>();
  /** By question: who asks the same waits for the same answer. */
  readonly #underWay = new Map<string, Promise<Buffer>>();
  readonly #waiting = new Map<string, number>();

  constructor(options: { resolvers: () => Promise<readonly Upstream[]>; timeoutMs: number; signal: AbortSignal }) {
    this.#resolvers = options.resolvers;
    this.#timeoutMs = options.timeoutMs;
    this.#signal = options.signal;
  }

  /**
   * The first good answer, as bytes with the question's id; one that only says that this upstream could or would not help
   * if no other says more. Throws `unavailable` when none answers, and at once when too many questions, or too many of this
   * asker, wait for answers already.
   */
  async ask(query: Buffer, { via, asker }: { via: 'udp' | 'tcp'; asker: string }): Promise<Buffer> {
    const waiting = this.#waiting.get(asker) ?? 0;
    if (waiting >= maxOfOne) {
      throw new FlynnError('unavailable', `${waiting} questions of ${asker} wait for upstream resolvers already`);
    }
    this.#waiting.set(asker, waiting + 1);
    try {
      const answer = Buffer.from(await this.#askOnce(query, via));
      answer.writeUInt16BE(query.readUInt16BE(0), 0);
      return answer;
    } finally {
      const left = (this.#waiting.get(asker) ?? 1) - 1;
      if (left === 0) this.#waiting.delete(asker);
      else this.#waiting.set(asker, left);
    }
  }

  #askOnce(query: Buffer, via: 'udp' | 'tcp'): Promise<Buffer> {
    // All but its id.
    const key = `${via} ${query.toString('latin1', 2)}`;
    const known = this.#underWay.get(key);
    if (known !== undefined) return known;
    if (this.#underWay.size >= maxUnderWay) {
      const message = `${this.#underWay.size} questions wait for upstream resolvers already`;
      return Promise.reject(new FlynnError('unavailable', message));
    }
    const asked = this.#askAll(query, via).finally(() => this.#underWay.delete(key));
    this.#underWay.set(key, asked);
    return asked;
  }

  async #askAll(query: Buffer, via: 'udp' | 'tcp'): Promise<Buffer> {
    const failures: string[] = [];
    let refusal: Buffer | undefined;
    const attempt = async (upstream: Upstream, timeoutMs: number) => {
      try {
        const answer = await this.#askOne(query, upstream, { via, timeoutMs });
        if (!isRefusal(answer)) return answer;
        refusal ??= answer;
      } catch (error) {
        if (this.#signal.aborted) throw abortError(this.#signal);
        failures.push(`${upstream.address}: ${messageOf(error)}`);
      }
      return undefined;
    };
    const upstreams = await this.#resolvers();
    const isBad = (upstream: Upstream) => (this.#badUntil.get(keyOf(upstream)) ?? 0) > performance.now();
    const bad = upstreams.filter(isBad);
    for (const upstream of upstreams) {
      const answer = bad.includes(upstream) ? undefined : await attempt(upstream, this.#timeoutMs);
      if (answer !== undefined) return answer;
    }
    const lastTries = () => bad.map((upstream) => attempt(upstream, this.#timeoutMs * badShare));
    const answer = refusal ?? (await firstDefined(lastTries())) ?? refusal;
    if (answer !== undefined) return answer;
    const why = failures.length === 0 ? 'the host has no other resolver' : failures.join('; ');
    throw new FlynnError('unavailable', `no upstream resolver answered (${why})`);
  }

  async #askOne(
    query: Buffer,
    upstream: Upstream,
    { via, timeoutMs }: { via: 'udp' | 'tcp'; timeoutMs: number },
  ): Promise<Buffer> {
    const signal = withDeadline(timeoutMs, this.#signal);
    const againAfterMs = againShares.map((share) => share * timeoutMs);
    try {
      const answer =
        via === 'udp' ? await askUdp(query, upstream, { againAfterMs, signal }) : await askTcp(query, upstream, signal);
      this.#badUntil.delete(keyOf(upstream));
      return answer;
    } catch (error) {
      this.#badUntil.set(keyOf(upstream), performance.now() + badForMs);
      throw error;
    }
  }
}

function keyOf({ address, port }: Upstream): string {
  return `${address} ${port}`;
}

/** SERVFAIL, NOTIMP, REFUSED. */
function isRefusal(answer: Buffer): boolean {
  return [2, 4, 5].includes(answer.readUInt8(3) & 15);
}

/** undefined when all are. */
async function firstDefined<T>(attempts: readonly Promise<T | undefined>[]): Promise<T | undefined> {
  const found = Promise.withResolvers<T | undefined>();
  const all = Promise.all(
    attempts.map(async (attempt) => {
      const value = await attempt;
      if (value !== undefined) found.resolve(value);
    }),
  );
  void all.then(() => found.resolve(undefined), found.reject);
  return found.promise;
}

function askUdp(
  query: Buffer,
  upstream: Upstream,
  { againAfterMs, signal }: { againAfterMs: readonly number[]; signal: AbortSignal },
): Promise<Buffer> {
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
  const again: NodeJS.Timeout[] = [];
  socket.once('connect', () => {
    socket.send(query);
    again.push(...againAfterMs.map((ms) => setTimeout(() => socket.send(query), ms)));
  });
  socket.connect(upstream.port, upstream.address);
  if (signal.aborted) abort();
  return promise.finally(() => {
    for (const timer of again) clearTimeout(timer);
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
