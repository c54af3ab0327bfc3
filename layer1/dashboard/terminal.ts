/**
 * Joins a page's terminal to a program: WebSocket messages on one side, the controller's frames on the other. What either side
 * does not take yet is not read from the other; whichever goes has the other end.
 */
import type { Duplex } from 'node:stream';
import { jobs, releases } from '@flynn/controller/api';
import { FlynnError, asFlynnError, hasCode } from '@flynn/kit/errors';
import { type Frame, encodeFrame, readFrames } from '@flynn/kit/frames';
import type { HttpClient } from '@flynn/kit/http-client';
import { newId } from '@flynn/kit/ids';
import type { Logger } from '@flynn/kit/log';
import type { RawData, WebSocket } from 'ws';
import { type ToTerminal, fromTerminal } from './api.ts';
import { type Person, authorized } from './sessions.ts';
import type { Wanted } from './terminal-query.ts';

/** A host may have to fetch the image first. */
const openMs = 90_000;
const callMs = 15_000;
const pingMs = 20_000;
/** Nobody has typed, and nothing was said, for so long: it was forgotten. */
const idleMs = 4 * 3_600_000;
/** A page that is not read, since its program takes nothing, cannot say that it is still there: for so long it is believed. */
const deafMs = 10 * 60_000;
const farewellMs = 5_000;
const earlyBytes = 64 * 1024;

const closeCodes = { ended: 1_000, goingAway: 1_001, failed: 1_011 } as const;

type Controller = Pick<HttpClient, 'call' | 'upgrade'>;

export type TerminalOptions = Readonly<{
  controller: Controller;
  person: Person;
  wanted: Wanted;
  /** This server's. */
  closing: AbortSignal;
  log: Logger;
  idleMs?: number;
  pingMs?: number;
  deafMs?: number;
}>;

/** Resolves when both sides have ended. Never rejects: what goes wrong is told to the page. */
export async function serveTerminal(page: WebSocket, options: TerminalOptions): Promise<void> {
  const { log, closing, wanted } = options;
  const gone = new AbortController();
  const input = new Input(page, (error) => gone.abort(error));
  page.once('close', () => gone.abort(new FlynnError('cancelled', 'the page went away')));
  page.on('error', (error) => {
    log.debug({ err: error }, 'the socket of a terminal broke');
    gone.abort(error);
  });
  const watching = watch(page, options, (error) => gone.abort(error));
  const until = AbortSignal.any([gone.signal, closing]);
  try {
    const program = await open(options, until);
    const end = () => program.destroy();
    until.addEventListener('abort', end, { once: true });
    if (until.aborted) end();
    input.passTo(program);
    try {
      const exit = await passOutput(program, page, watching.use);
      if (until.aborted) throw until.reason;
      await tell(page, { type: 'exit', code: exit.code, ...(exit.error === undefined ? {} : { message: exit.error }) });
      page.close(closeCodes.ended);
    } finally {
      input.stop();
      until.removeEventListener('abort', end);
      program.destroy();
    }
  } catch (error) {
    const { code, message } = asFlynnError(until.aborted ? until.reason : error);
    log.debug({ err: error, app: wanted.app }, 'a terminal ended early');
    await tell(page, { type: 'error', code, message });
    page.close(closing.aborted ? closeCodes.goingAway : closeCodes.failed);
  } finally {
    watching.stop();
    page.resume();
    // One that does not answer the closing is not waited for.
    setTimeout(() => page.terminate(), farewellMs).unref();
  }
}

function open({ controller, person, wanted }: TerminalOptions, signal: AbortSignal): Promise<Duplex> {
  return wanted.kind === 'exec' ? exec(controller, person, wanted, signal) : run(controller, person, wanted, signal);
}

function exec(
  controller: Controller,
  person: Person,
  { app, command, columns, rows, term, job, type }: Extract<Wanted, { kind: 'exec' }>,
  signal: AbortSignal,
): Promise<Duplex> {
  const query = { command: JSON.stringify(command), tty: true, columns, rows, term, job, type };
  return controller.upgrade(
    jobs.exec,
    { params: { app }, query },
    { signal, timeoutMs: openMs, headers: authorized(person) },
  );
}

/** A job nobody could be joined to is stopped rather than left behind; once joined, it ends with its terminal. */
async function run(
  controller: Controller,
  person: Person,
  { app, command, columns, rows, term, release }: Extract<Wanted, { kind: 'run' }>,
  signal: AbortSignal,
): Promise<Duplex> {
  const headers = authorized(person);
  const short = { timeoutMs: callMs, headers };
  const found =
    release === undefined
      ? {}
      : { releaseId: (await controller.call(releases.get, { params: { app, release } }, { ...short, signal })).id };
  const body = { command, env: { TERM: term }, tty: true, stdin: true, ...found };
  // Carried out to its end, whoever leaves: else nobody would know which job to stop. If its answer is lost, it is asked for again.
  const named = { ...short, headers: { ...headers, 'idempotency-key': newId() } };
  const start = () => controller.call(jobs.run, { params: { app }, body }, named);
  const job = await start().catch((error: unknown) => {
    if (hasCode(error, 'unavailable', 'timeout')) return start();
    throw error;
  });
  const params = { app, job: job.id };
  try {
    const query = { stdin: true, logs: true, columns, rows };
    return await controller.upgrade(jobs.attach, { params, query }, { signal, timeoutMs: openMs, headers });
  } catch (error) {
    await controller.call(jobs.stop, { params }, short).catch((again: unknown) => {
      // What kept us from joining it tells more than what keeps us from stopping it.
      if (!hasCode(again, 'not_found', 'conflict', 'unavailable', 'timeout')) throw again;
    });
    throw error;
  }
}

/** What the page sends. What comes before the program is there is kept, as much of it as somebody types. */
class Input {
  readonly #page: WebSocket;
  readonly #fail: (error: FlynnError) => void;
  readonly #early: { frame: Frame; bytes: number }[] = [];
  #program: Duplex | undefined;

  /** `fail` is told of what no terminal sends. */
  constructor(page: WebSocket, fail: (error: FlynnError) => void) {
    this.#page = page;
    this.#fail = fail;
    page.on('message', this.#onMessage);
  }

  passTo(program: Duplex): void {
    this.#program = program;
    this.#page.resume();
    for (const { frame } of this.#early.splice(0)) this.#send(frame);
  }

  stop(): void {
    this.#page.off('message', this.#onMessage);
  }

  readonly #onMessage = (data: RawData, isBinary: boolean) => {
    const bytes = Buffer.isBuffer(data) ? data : Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data);
    const frame = frameOf(bytes, isBinary);
    if (frame === undefined) this.#fail(unknownMessage());
    else if (this.#program === undefined) this.#keep(frame, bytes.length);
    else this.#send(frame);
  };

  #keep(frame: Frame, bytes: number): void {
    this.#early.push({ frame, bytes });
    // A page that is not read any more leaves unnoticed until it does not answer: only for what no hand has typed.
    if (this.#early.reduce((sum, one) => sum + one.bytes, 0) > earlyBytes) this.#page.pause();
  }

  #send(frame: Frame): void {
    const program = this.#program;
    if (program?.writable !== true || program.write(encodeFrame(frame))) return;
    this.#page.pause();
    program.once('drain', () => this.#page.resume());
  }
}

/** Undefined for a message that no terminal sends. */
function frameOf(bytes: Buffer, isBinary: boolean): Frame | undefined {
  if (isBinary) return { kind: 'stdin', data: bytes };
  const message = fromTerminal.safeParse(parsed(bytes.toString())).data;
  return message === undefined ? undefined : { kind: 'resize', columns: message.columns, rows: message.rows };
}

function unknownMessage(): FlynnError {
  return new FlynnError('invalid', 'the page sent a message that a terminal does not know');
}

/** Until the program has ended. Throws what its host reports, and `unavailable` when the connection ends before it. */
async function passOutput(
  program: Duplex,
  page: WebSocket,
  onOutput: () => void,
): Promise<Extract<Frame, { kind: 'exit' }>> {
  for await (const frame of readFrames(program)) {
    if (frame.kind !== 'ping') onOutput();
    if (frame.kind === 'stdout' || frame.kind === 'stderr') await sent(page, frame.data);
    if (frame.kind === 'error') throw new FlynnError(frame.code, frame.message);
    if (frame.kind === 'exit') return frame;
  }
  throw new FlynnError('unavailable', 'the connection to the program ended before it did, or the login is over');
}

/** A page that has gone is not told: nobody is there to hear why. */
async function tell(page: WebSocket, message: ToTerminal): Promise<void> {
  await sent(page, JSON.stringify(message)).catch(() => undefined);
}

/** Resolves once it is out of our memory. */
function sent(page: WebSocket, data: Buffer | string): Promise<void> {
  return new Promise((resolve, reject) => {
    page.send(data, (error) => (error ? reject(error) : resolve()));
  });
}

/** Ends a page that does not answer pings, and a terminal nobody has used for long. */
function watch(
  page: WebSocket,
  options: Pick<TerminalOptions, 'idleMs' | 'pingMs' | 'deafMs'>,
  end: (error: FlynnError) => void,
): { use: () => void; stop: () => void } {
  const limitMs = options.idleMs ?? idleMs;
  const unheardMs = options.deafMs ?? deafMs;
  let usedMs = performance.now();
  let heardMs = usedMs;
  let isAlive = true;
  const use = () => {
    usedMs = performance.now();
  };
  const hear = () => {
    isAlive = true;
  };
  page.on('message', use);
  // An answer to a ping comes after all that was sent before it, and is waited for no longer than that takes.
  page.on('message', hear);
  page.on('pong', hear);
  const timer = setInterval(() => {
    const nowMs = performance.now();
    if (isAlive) heardMs = nowMs;
    if (nowMs - usedMs > limitMs) {
      end(new FlynnError('timeout', `nothing was typed or said for ${limitMs / 3_600_000} hours`));
    } else if (nowMs - heardMs > unheardMs) {
      end(new FlynnError('timeout', `the program took nothing of what was typed for ${unheardMs / 60_000} minutes`));
    } else if (!isAlive && !page.isPaused) page.terminate();
    isAlive = false;
    if (page.readyState === page.OPEN) page.ping();
  }, options.pingMs ?? pingMs);
  return {
    use,
    stop() {
      clearInterval(timer);
      page.off('message', use);
      page.off('message', hear);
    },
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
