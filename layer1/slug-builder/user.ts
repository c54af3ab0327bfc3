/** Steps that touch what the app's code may have made run as the app's user, in processes without secrets of the cluster. */
import { spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { FlynnError, asFlynnError } from '@flynn/kit/errors';

/** Of whoever runs apps; slugs belong to it. */
export const appUserId = 5000;

export type Step = {
  command: readonly [string, ...string[]];
  cwd: string;
  env: Readonly<Record<string, string>>;
  signal: AbortSignal;
  /** No file it writes may be larger. */
  fileBytes?: number;
};

/** When memory runs out the step goes, not the process that tells why; and there is no use for its core. */
function limited({ command, fileBytes }: Step): [string, ...string[]] {
  const size = fileBytes === undefined ? [] : [`--fsize=${fileBytes}`];
  return ['choom', '-n', '500', '--', 'prlimit', '--core=0', ...size, '--', ...command];
}

/** Only root can become somebody else: without it (in tests) steps run as who is there. */
function identity(): { uid?: number; gid?: number } {
  return process.getuid?.() === 0 ? { uid: appUserId, gid: appUserId } : {};
}

/**
 * Gives the step its input and answers what it wrote to its fourth file descriptor; its output is this process's. One that answers
 * more than `most.bytes` is ended, with that error.
 */
export async function runStep(
  step: Step,
  input: Readable,
  most?: Readonly<{ bytes: number; error: () => FlynnError }>,
): Promise<string> {
  const [program, ...args] = limited(step);
  const child = spawn(program, args, {
    ...identity(),
    cwd: step.cwd,
    env: { ...step.env },
    signal: step.signal,
    stdio: ['pipe', 'inherit', 'inherit', 'pipe'],
  });
  const exited = exitOf(child, step);
  const answers: Buffer[] = [];
  let answeredBytes = 0;
  let exceeded: FlynnError | undefined;
  const answer = child.stdio[3];
  answer?.on('data', (chunk: Buffer) => {
    answeredBytes += chunk.length;
    if (most === undefined || answeredBytes <= most.bytes) {
      answers.push(chunk);
      return;
    }
    exceeded ??= most.error();
    // What the step started may go on answering without it.
    answer.destroy();
    child.kill('SIGKILL');
  });
  // Both at once: what ends the step may be told while its input still waits.
  const [inputError, code] = await Promise.all([child.stdin === null ? undefined : feed(input, child.stdin), exited]);
  if (exceeded !== undefined) throw exceeded;
  if (inputError !== undefined) throw inputError;
  const text = Buffer.concat(answers).toString();
  if (code !== 0) throw new StepFailure(code, text);
  return text;
}

/**
 * What went wrong with the input itself, if anything did. That a step wants no more of it is no failure, however the
 * connection says so: tar, for one, ends at the mark of the archive's end and leaves what may follow unread. What a step
 * that ends early thinks is wrong it says itself, and by its exit code.
 */
async function feed(input: Readable, stdin: Writable): Promise<unknown> {
  let isInputBroken: boolean | undefined;
  // Whichever comes first, it comes here before the pipeline gives up the input on its account.
  const look = (): void => {
    isInputBroken ??= input.destroyed && !input.readableEnded;
  };
  stdin.once('error', look).once('close', look);
  try {
    await pipeline(input, stdin);
    return undefined;
  } catch (error) {
    return isInputBroken === false ? undefined : error;
  }
}

/** What the step writes to its output. Fails at the end if the step did. */
export async function* streamStep(step: Step): AsyncGenerator<Buffer> {
  const [program, ...args] = step.command;
  const child = spawn(program, args, {
    ...identity(),
    cwd: step.cwd,
    env: { ...step.env },
    signal: step.signal,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = exitOf(child, step);
  exited.catch(() => {
    // Told below, once the output has ended.
  });
  try {
    yield* child.stdout;
    const code = await exited;
    if (code !== 0) throw new FlynnError('internal', `${program} failed with exit code ${code}: its output is above`);
  } finally {
    child.kill();
  }
}

/** The step has told the reason already. */
export class StepFailure extends Error {
  readonly exitCode: number;
  /** As of a step that succeeds. */
  readonly answer: string;

  constructor(exitCode: number, answer: string) {
    super(`a step of the build ended with exit code ${exitCode}`);
    this.name = 'StepFailure';
    this.exitCode = exitCode;
    this.answer = answer;
  }
}

function exitOf(child: ReturnType<typeof spawn>, { command, signal }: Step): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once('error', (error) => {
      // Why the build is to end is told by who ends it.
      if (signal.aborted) reject(asFlynnError(signal.reason));
      else reject(new FlynnError('internal', `could not run ${command[0]}: ${error.message}`, { cause: error }));
    });
    child.once('close', (code, killedBy) => resolve(code ?? (killedBy === 'SIGKILL' ? 137 : 143)));
  });
}
