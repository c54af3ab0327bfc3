/** Supervises the processes that carry the traffic: starts them, asks them, ends them, and starts again those that died. */
import type { ChildProcess } from 'node:child_process';
import { pause, systemClock } from '@flynn/kit/clock';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { backoffMs, raceAbort, withDeadline } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import { fromWorker, signOfLife } from './messages.ts';
import type { FromParent } from './messages.ts';
import { Standstill, defaultPatience, sightOf } from './standstill.ts';
import type { Patience } from './standstill.ts';

/** A worker that served this long is not one that dies at once: the next start does not wait for earlier ones. */
const stableMs = 30_000;
const askMs = 5_000;
/** No other question has it: nobody waits for this answer, that there is one is all. */
const signOfLifeId = 0;

type Question = { resolve: (answer: unknown) => void; reject: (error: Error) => void };

type Worker = {
  readonly process: ChildProcess;
  readonly served: Promise<void>;
  readonly exited: Promise<void>;
  readonly questions: Map<number, Question>;
  isServing: boolean;
  /** It takes no more connections, ends with those it has, and nobody takes its place. */
  isLeaving: boolean;
  isToldToStop: boolean;
  /** From when it first served until it has ended. */
  standstill: Standstill | undefined;
};

export type WorkersOptions = {
  /** To begin with. */
  count: number;
  /** Starts one of `count`: a Node process with an IPC channel, that stops on SIGTERM. */
  spawn: (index: number, count: number) => ChildProcess;
  startDeadlineMs: number;
  /** What one that leaves has counted in all. */
  onLast?: (counts: unknown) => void;
  /** With one that says nothing. */
  patience?: Patience;
  /** Ends the start, with nothing left. */
  signal?: AbortSignal;
  log: Logger;
};

/**
 * INVARIANTS. After `start` there are always `count` workers, or on their way: one that ends is started again, the first time
 * at once, then after growing pauses. A worker's death costs nobody but its own connections. One that stands still is killed.
 * Beside them are those that leave, until their last connection has ended; the one with index 0 never does. Each knows how many
 * there are. After `stop` none is left.
 */
export class Workers {
  readonly #options: WorkersOptions;
  readonly #tasks = new TaskGroup();
  /** By index: the lowest that is free is the next one's. */
  readonly #workers = new Map<number, Worker>();
  #count: number;
  #lastId = 0;
  #isStopping = false;

  /** Resolves when all serve; throws if one ends before it does, or cannot be started. */
  static async start(options: WorkersOptions): Promise<Workers> {
    const { count, signal } = options;
    signal?.throwIfAborted();
    const workers = new Workers(options);
    const served = Promise.all(Array.from({ length: count }, (_, index) => workers.#first(index)));
    try {
      await (signal === undefined ? served : raceAbort(served, signal));
    } catch (error) {
      await workers.stop({ deadlineMs: 1_000 });
      throw error;
    }
    return workers;
  }

  private constructor(options: WorkersOptions) {
    this.#options = options;
    this.#count = options.count;
    this.#tasks.run('standing still', (signal) => this.#watch(options.patience ?? defaultPatience, signal));
  }

  /** How many there are to be; those that leave are not among them. */
  get count(): number {
    return this.#count;
  }

  /** Of those that serve now, if only what they have. */
  get pids(): number[] {
    return this.#serving.map(({ process }) => process.pid ?? 0);
  }

  /** Of those that take connections. */
  get takingPids(): number[] {
    return this.#serving.filter(({ isLeaving }) => !isLeaving).map(({ process }) => process.pid ?? 0);
  }

  get #serving(): Worker[] {
    return [...this.#workers.values()].filter(({ isServing }) => isServing);
  }

  /** Resolves when one more serves and the others know; rejects, with as many as before, if it ends before it does. */
  async grow(): Promise<void> {
    const index = this.#freeIndex();
    this.#count += 1;
    try {
      await this.#first(index);
    } catch (error) {
      this.#workers.delete(index);
      this.#count -= 1;
      await this.#tellCount();
      throw error;
    }
    await this.#tellCount();
  }

  /**
   * Resolves when one less takes connections; there has to be more than one. `busy`: all that might go have something under way,
   * and stay. What comes to one until it hears that it is to go is its own to bring to an end.
   */
  async shrink(): Promise<'left' | 'busy'> {
    const staying = [...this.#workers].filter(([index, { isLeaving }]) => index > 0 && !isLeaving);
    if (staying.length === 0) throw new FlynnError('invalid', 'the only worker of a router does not leave');
    this.#count -= 1;
    for (const [, worker] of staying.toSorted(([a], [b]) => b - a)) {
      // Said first: if it dies now, nobody takes its place.
      worker.isLeaving = true;
      if (await this.#mayLeave(worker)) {
        await this.#tellCount();
        return 'left';
      }
      worker.isLeaving = false;
    }
    this.#count += 1;
    await this.#tellCount();
    return 'busy';
  }

  async #mayLeave(worker: Worker): Promise<boolean> {
    try {
      return (await this.#ask(worker, { question: 'leave', input: null, timeoutMs: askMs })) === true;
    } catch (error) {
      this.#options.log.warn({ err: error }, 'a worker that is to leave does not answer: it is told to stop');
      this.#tellToStop(worker);
      return true;
    }
  }

  /** Asks every worker that serves; those that die meanwhile, or do not answer in time, are left out. */
  async ask(
    question: string,
    input: unknown = null,
    options: { timeoutMs: number } = { timeoutMs: askMs },
  ): Promise<unknown[]> {
    const answers = await Promise.allSettled(
      this.#serving.map((worker) => this.#ask(worker, { question, input, ...options })),
    );
    return answers.flatMap((answer) => {
      if (answer.status === 'fulfilled') return [answer.value];
      this.#options.log.warn({ question, reason: messageOf(answer.reason) }, 'a worker did not answer');
      return [];
    });
  }

  /** Tells them to end; kills what is left at the deadline. */
  async stop({ deadlineMs }: { deadlineMs: number }): Promise<void> {
    this.#isStopping = true;
    const left = [...this.#workers.values()];
    for (const worker of left) this.#tellToStop(worker);
    const kill = setTimeout(() => {
      for (const worker of left) worker.process.kill('SIGKILL');
    }, deadlineMs);
    await Promise.all(left.map((worker) => worker.exited));
    clearTimeout(kill);
    await this.#tasks.stop();
  }

  async #first(index: number): Promise<void> {
    const worker = this.#spawn(index);
    await Promise.race([worker.served, worker.exited]);
    if (!worker.isServing) {
      throw new FlynnError('unavailable', `worker ${index} of the router ended before it served: its log says why`);
    }
    this.#tasks.run(`worker ${index}`, (signal) => this.#keep(index, worker, signal));
  }

  /** Starts the worker again whenever it ended. */
  async #keep(index: number, first: Worker, signal: AbortSignal): Promise<void> {
    let worker = first;
    let attempt = 0;
    let startedMs = performance.now();
    for (;;) {
      await worker.exited;
      if (worker.isLeaving) this.#workers.delete(index);
      if (worker.isLeaving || this.#isStopping || signal.aborted) return;
      const { exitCode, signalCode } = worker.process;
      this.#options.log.error({ worker: index, exitCode, signalCode }, 'a worker ended: its connections are lost');
      if (performance.now() - startedMs > stableMs) attempt = 0;
      if (attempt > 0) await systemClock.sleep(backoffMs(attempt, { minMs: 100, maxMs: 10_000 }), { signal });
      // Who died and was to leave meanwhile has left.
      if (worker.isLeaving) this.#workers.delete(index);
      if (worker.isLeaving || this.#isStopping) return;
      attempt += 1;
      startedMs = performance.now();
      try {
        worker = this.#spawn(index);
      } catch (error) {
        // No memory for another process, say: the one that ended is waited for no longer, and the next try comes later.
        this.#options.log.error({ err: error, worker: index }, 'a worker could not be started');
      }
    }
  }

  /** Kills those that stand still: they hold their part of new connections, and nothing else ends them. */
  async #watch({ lookEveryMs }: Patience, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await pause(lookEveryMs, signal);
      for (const [index, { process, standstill }] of this.#workers) {
        const found = standstill?.look(sightOf(process.pid ?? 0));
        if (found === 'ask') {
          // A channel that is closed is that of one that ends.
          process.send({ id: signOfLifeId, question: signOfLife, input: null } satisfies FromParent, () => undefined);
        } else if (found === 'still') {
          this.#options.log.error(
            { worker: index },
            'a worker stands still, and is killed: it answers nothing any more',
          );
          process.kill('SIGKILL');
        }
      }
    }
  }

  #freeIndex(): number {
    let index = 0;
    while (this.#workers.has(index)) index += 1;
    return index;
  }

  #countQuestion() {
    return { question: 'count', input: { count: this.#count }, timeoutMs: askMs };
  }

  async #tellCount(): Promise<void> {
    const { question, input } = this.#countQuestion();
    await this.ask(question, input);
  }

  /** Once: a second signal would end it at once. */
  #tellToStop(worker: Worker): void {
    if (!worker.isToldToStop) worker.process.kill('SIGTERM');
    worker.isToldToStop = true;
  }

  #spawn(index: number): Worker {
    if (this.#isStopping) throw new FlynnError('cancelled', 'the router is being stopped');
    const child = this.#options.spawn(index, this.#count);
    const served = Promise.withResolvers<void>();
    const exited = Promise.withResolvers<void>();
    const worker: Worker = {
      process: child,
      served: served.promise,
      exited: exited.promise,
      questions: new Map(),
      isServing: false,
      isLeaving: false,
      isToldToStop: false,
      standstill: undefined,
    };
    this.#workers.set(index, worker);
    const late = setTimeout(() => {
      this.#options.log.error({ worker: index }, 'a worker does not serve in time, and is killed');
      child.kill('SIGKILL');
    }, this.#options.startDeadlineMs);
    void served.promise.then(() => clearTimeout(late));
    child.on('message', (message) => this.#hear(worker, message, served.resolve));
    const end = (error: Error) => {
      clearTimeout(late);
      worker.isServing = false;
      worker.standstill = undefined;
      for (const question of worker.questions.values()) question.reject(error);
      worker.questions.clear();
      exited.resolve();
    };
    child.once('exit', () => end(new FlynnError('unavailable', `worker ${index} ended`)));
    child.once('error', end);
    return worker;
  }

  #hear(worker: Worker, message: unknown, onServing: () => void): void {
    const heard = fromWorker.safeParse(message);
    if (!heard.success) return;
    worker.standstill?.heard();
    if (heard.data.type === 'serving') {
      worker.isServing = true;
      const { patience = defaultPatience } = this.#options;
      worker.standstill = new Standstill(patience, sightOf(worker.process.pid ?? 0));
      // There may be more or less by now than when it was started.
      void this.#ask(worker, this.#countQuestion()).catch((error: unknown) => {
        this.#options.log.warn({ reason: messageOf(error) }, 'a new worker did not answer');
      });
      onServing();
      return;
    }
    if (heard.data.type === 'last') {
      // What it would still answer has been counted with this.
      worker.isServing = false;
      this.#options.onLast?.(heard.data.counts);
      return;
    }
    const question = worker.questions.get(heard.data.id);
    worker.questions.delete(heard.data.id);
    if (heard.data.type === 'answer') question?.resolve(heard.data.answer);
    else question?.reject(new FlynnError('internal', heard.data.message));
  }

  async #ask(worker: Worker, asked: { question: string; input: unknown; timeoutMs: number }): Promise<unknown> {
    const { question, input, timeoutMs } = asked;
    this.#lastId += 1;
    const message: FromParent = { id: this.#lastId, question, input };
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    worker.questions.set(message.id, { resolve, reject });
    try {
      // A channel that is closed says so, and the end of the process follows.
      worker.process.send(message, (error) => error !== null && reject(error));
      return await raceAbort(promise, withDeadline(timeoutMs));
    } finally {
      worker.questions.delete(message.id);
    }
  }
}
