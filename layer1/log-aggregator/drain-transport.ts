/** How lines reach a drain's other side. */
import { once } from 'node:events';
import { connect as connectTcp, isIP } from 'node:net';
import type { Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { FlynnError } from '@flynn/kit/errors';
import type { Outside } from '@flynn/kit/outside';
import { HttpTarget } from './drain-http.ts';
import type { Trust } from './drain-http.ts';
import { parseDrainUrl } from './drain-url.ts';
import type { Target } from './drain-url.ts';
import { syslogMessage } from './syslog.ts';
import type { Drain, Line } from './api.ts';

export type NamedLine = Readonly<{ app: string; appName: string; line: Line }>;

/** What the other side will never take, and why. */
export type Refused = Readonly<{ lines: number; why: string }>;

/**
 * `send` resolves when the other side has the lines, as far as one can know, but for how many it will never take. With an error
 * it may take them later, and any part of them may have arrived.
 */
export interface Transport {
  /** A send that resolved is certain only so much later, if `isBroken` stays false. */
  readonly doubtMs: number;
  readonly isBroken: boolean;
  send(lines: readonly NamedLine[], signal: AbortSignal): Promise<Refused | undefined>;
  close(): Promise<void>;
}

/** With `outside` it connects to nothing else. */
export function openTransport({ url, ca }: Pick<Drain, 'url' | 'ca'>, outside?: Outside): Transport {
  const target = parseDrainUrl(url);
  return target.kind === 'http' ? new HttpTarget(target, { ca, outside }) : new SyslogTarget(target, { ca, outside });
}

const dialMs = 10_000;
const writeMs = 30_000;

/** Syslog confirms nothing: what was handed to a connection that breaks soon after may not have arrived. */
class SyslogTarget implements Transport {
  readonly doubtMs = 2_000;
  readonly #target: Extract<Target, { kind: 'syslog' }>;
  readonly #ca: string | undefined;
  readonly #outside: Outside | undefined;
  #socket: Socket | undefined;
  #isBroken = false;

  constructor(target: Extract<Target, { kind: 'syslog' }>, trust: Trust) {
    this.#target = target;
    this.#ca = trust.ca;
    this.#outside = trust.outside;
  }

  get isBroken(): boolean {
    return this.#isBroken;
  }

  async send(lines: readonly NamedLine[], signal: AbortSignal): Promise<undefined> {
    this.#isBroken = false;
    if (this.#socket !== undefined) await this.#outside?.closeInside([this.#socket]);
    const socket = this.#socket ?? (await this.#dial(signal));
    const bytes = Buffer.concat(lines.map(({ line, appName }) => syslogMessage(line, appName)));
    const limited = AbortSignal.any([signal, AbortSignal.timeout(writeMs)]);
    const written = Promise.withResolvers<void>();
    const giveUp = () => socket.destroy(new FlynnError('timeout', `${this.#name} takes nothing`));
    const onClose = () => written.reject(new FlynnError('unavailable', `${this.#name} closed the connection`));
    limited.addEventListener('abort', giveUp, { once: true });
    socket.once('close', onClose);
    try {
      socket.write(bytes, (error) => (error ? written.reject(error) : written.resolve()));
      await written.promise;
    } finally {
      limited.removeEventListener('abort', giveUp);
      socket.off('close', onClose);
    }
  }

  get #name(): string {
    return `${this.#target.host}:${this.#target.port}`;
  }

  async #dial(signal: AbortSignal): Promise<Socket> {
    const { host, port, isSecure } = this.#target;
    const trust = this.#ca === undefined ? {} : { ca: this.#ca };
    // An address is no name to ask for.
    const name = isIP(host) === 0 ? { servername: host } : {};
    // A name is judged by what it leads to, an address is looked up by nobody.
    this.#outside?.check(host);
    const to = { host, port, ...(this.#outside && { lookup: this.#outside.lookup }) };
    const socket = isSecure ? connectTls({ ...to, ...name, ...trust }) : connectTcp(to);
    try {
      const limited = AbortSignal.any([signal, AbortSignal.timeout(dialMs)]);
      await once(socket, isSecure ? 'secureConnect' : 'connect', { signal: limited });
    } catch (error) {
      socket.destroy();
      throw new FlynnError('unavailable', `cannot reach ${this.#name}: ${reasonOf(error)}`, { cause: error });
    }
    socket.setKeepAlive(true, 30_000);
    // Whatever it says is not for us, but it has to be read for its end to be seen.
    socket.resume();
    socket.on('error', () => undefined);
    socket.once('close', () => {
      if (this.#socket === socket) this.#socket = undefined;
      this.#isBroken = true;
    });
    this.#socket = socket;
    return socket;
  }

  async close(): Promise<void> {
    const socket = this.#socket;
    if (socket === undefined || socket.destroyed) return;
    // Who does not close its side in time, or breaks off, is cut off all the same.
    const closed = once(socket, 'close', { signal: AbortSignal.timeout(1_000) }).catch(() => undefined);
    socket.end();
    await closed;
    socket.destroy();
  }
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.name === 'AbortError' ? `no answer within ${dialMs / 1_000} s` : error.message;
}
