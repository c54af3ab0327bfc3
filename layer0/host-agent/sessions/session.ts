/** The streams of one interactive job: connected before its start, kept until somebody attaches. */
import { AsyncQueue } from '@flynn/kit/queue';
import type { Attachment, Engine, OutputChunk } from '../engine/engine.ts';

/** Output kept for who attaches late: a prompt, a short program's whole output. */
const keptBytes = 1024 * 1024;
/** Chunks an attached client may be behind before the process has to wait for it. */
const readerLimit = 64;

type Reader = { queue: AsyncQueue<OutputChunk>; isGone: boolean };

/** How long a job that fills what is kept waits for its first client; then it goes on without, and the oldest is lost. */
const firstReaderMs = 60_000;

/**
 * INVARIANTS. The first reader gets everything from the start, in order and once, if it comes within a minute. After that
 * output is read whether somebody is attached or not, so a job never waits for nobody.
 */
export class Session {
  readonly #attachment: Attachment;
  readonly #readers = new Set<Reader>();
  #writers = 0;
  readonly #ended: Promise<void>;
  #kept: OutputChunk[] = [];
  #keptBytes = 0;
  #hadReader = false;
  #isEnded = false;
  #drained = Promise.withResolvers<void>();
  readonly #firstReader: Promise<void>;
  #welcome: () => void = () => undefined;

  constructor(attachment: Attachment) {
    this.#attachment = attachment;
    this.#firstReader = new Promise((resolve) => {
      const timer = setTimeout(resolve, firstReaderMs).unref();
      this.#welcome = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#ended = this.#pump();
  }

  /** Resolves when all output is through, or the connection broke. */
  get ended(): Promise<void> {
    return this.#ended;
  }

  get readers(): number {
    return this.#readers.size;
  }

  async #pump(): Promise<void> {
    let failure: unknown;
    try {
      for await (const chunk of this.#attachment.output) {
        // Keeping it would mean to forget what the first reader has not seen.
        if (!this.#hadReader && this.#keptBytes + chunk.data.length > keptBytes) await this.#firstReader;
        this.#keep(chunk);
        for (const { queue } of this.#readers) queue.push(chunk);
        await this.#waitForReaders();
      }
    } catch (error) {
      // The readers are told; the job itself is the convergence's affair.
      failure = error;
    }
    this.#isEnded = true;
    for (const { queue } of this.#readers) queue.end(failure);
  }

  #keep(chunk: OutputChunk): void {
    this.#kept.push(chunk);
    this.#keptBytes += chunk.data.length;
    while (this.#keptBytes > keptBytes && this.#kept.length > 1)
      this.#keptBytes -= this.#kept.shift()?.data.length ?? 0;
  }

  async #waitForReaders(): Promise<void> {
    while ([...this.#readers].some(({ queue, isGone }) => !isGone && queue.size >= readerLimit)) {
      this.#drained = Promise.withResolvers<void>();
      await this.#drained.promise;
    }
  }

  /** Ends when the output does. The first reader, and one `withLogs`, begins with what is kept. */
  async *read(options: { withLogs: boolean; signal: AbortSignal }): AsyncGenerator<OutputChunk> {
    const reader: Reader = { queue: new AsyncQueue<OutputChunk>(), isGone: false };
    if (options.withLogs || !this.#hadReader) for (const chunk of this.#kept) reader.queue.push(chunk);
    this.#hadReader = true;
    this.#welcome();
    if (this.#isEnded) reader.queue.end();
    const leave = () => {
      reader.isGone = true;
      reader.queue.end();
      this.#drained.resolve();
    };
    this.#readers.add(reader);
    options.signal.addEventListener('abort', leave, { once: true });
    if (options.signal.aborted) leave();
    try {
      for await (const chunk of reader.queue) {
        this.#drained.resolve();
        yield chunk;
      }
    } finally {
      options.signal.removeEventListener('abort', leave);
      this.#readers.delete(reader);
      leave();
    }
  }

  /** A client is there that may write. */
  enter(): void {
    this.#writers += 1;
  }

  /** It is gone. Answers whether it was the last: nobody will ever end the input that it did not end. */
  leave(): boolean {
    this.#writers -= 1;
    return this.#writers === 0;
  }

  write(data: Uint8Array): Promise<void> {
    return this.#attachment.write(data);
  }

  endInput(): void {
    this.#attachment.endInput();
  }

  close(): void {
    this.#welcome();
    this.#attachment.close();
  }
}

/** Long enough for a client that is on its way. */
const keptAfterEndMs = 60_000;

/** The sessions of this host by job. */
export class Sessions {
  readonly #engine: Engine;
  readonly #sessions = new Map<string, Session>();

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  get(jobId: string): Session | undefined {
    return this.#sessions.get(jobId);
  }

  /** Connects to a container; before its start nothing is missed. A session from an earlier run is closed. */
  async open(jobId: string, containerId: string, options: { logs: boolean }): Promise<Session> {
    const attachment = await this.#engine.attach(containerId, { stdin: true, logs: options.logs });
    this.#sessions.get(jobId)?.close();
    const session = new Session(attachment);
    this.#sessions.set(jobId, session);
    void session.ended.then(() => {
      setTimeout(() => {
        if (this.#sessions.get(jobId) === session) this.#sessions.delete(jobId);
        session.close();
      }, keptAfterEndMs).unref();
    });
    return session;
  }

  close(): void {
    for (const session of this.#sessions.values()) session.close();
    this.#sessions.clear();
  }
}
