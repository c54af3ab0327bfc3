/** Runs programs for the build, as whoever this process is. */
import { spawn } from 'node:child_process';
import { FlynnError } from '@flynn/kit/errors';
import { type Output, lineSink } from './output.ts';

const leftoverMs = 2_000;

export type CommandOptions = {
  cwd: string;
  env: Readonly<Record<string, string>>;
  signal: AbortSignal;
};

/**
 * Streams the program's output below the current topic and gives its exit code. `raw` leaves lines as they are. With `onStdout` its
 * stdout is for that alone.
 */
export async function runShown(
  [program, ...args]: readonly [string, ...string[]],
  options: CommandOptions & {
    out: Output;
    style?: 'indented' | 'raw';
    onStdout?: ((chunk: Buffer) => void) | undefined;
  },
): Promise<number> {
  const { cwd, env, signal, out, style = 'indented', onStdout } = options;
  const child = spawn(program, args, { cwd, env: { ...env }, signal, stdio: ['ignore', 'pipe', 'pipe'] });
  const line = style === 'raw' ? out.raw : out.line;
  if (onStdout !== undefined) child.stdout.on('data', onStdout);
  for (const stream of onStdout === undefined ? [child.stdout, child.stderr] : [child.stderr]) {
    const sink = lineSink(line);
    stream.on('data', (chunk: Buffer) => sink.push(chunk));
    stream.on('end', () => sink.end());
  }
  return exitOf(program, child);
}

/** For people: what the exit code of a failed program means, with a space in front, where it means something. */
export function exitReason(code: number): string {
  if (code === 137) return ' (killed: most likely out of memory)';
  return code === 153 ? ' (it wrote a file larger than a build may write at all: FLYNN_BUILD_DISK)' : '';
}

/** Keeps the program's stdout; its stderr becomes part of the error. `invalid` if it does not exit with 0. */
export async function runForOutput(
  [program, ...args]: readonly [string, ...string[]],
  options: CommandOptions,
): Promise<string> {
  const { cwd, env, signal } = options;
  const child = spawn(program, args, { cwd, env: { ...env }, signal, stdio: ['ignore', 'pipe', 'pipe'] });
  const stdout: Buffer[] = [];
  const stderr: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => stdout.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => stderr.push(chunk));
  const code = await exitOf(program, child);
  const text = Buffer.concat(stdout).toString();
  if (code === 0) return text;
  const said = (Buffer.concat(stderr).toString().trim() || text.trim()).split('\n').slice(-15).join('\n');
  throw new FlynnError('invalid', `${[program, ...args].join(' ')} failed (exit code ${code}): ${said}`, {
    detail: { exitCode: code },
  });
}

/**
 * As a shell would say it: 128 + n when a signal ended the program. What the program left running may hold on to its output:
 * a moment after its end nobody listens to that any more.
 */
function exitOf(program: string, child: ReturnType<typeof spawn>): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once('exit', () => {
      const timer = setTimeout(() => {
        child.stdout?.destroy();
        child.stderr?.destroy();
      }, leftoverMs);
      child.once('close', () => clearTimeout(timer));
    });
    child.once('error', (error) => {
      if (error.name === 'AbortError') reject(new FlynnError('cancelled', 'the build was cancelled', { cause: error }));
      else reject(new FlynnError('invalid', `could not run ${program}: ${error.message}`, { cause: error }));
    });
    child.once('close', (code, signal) => resolve(code ?? (signal === 'SIGKILL' ? 137 : 143)));
  });
}
