/** Other programs of the machine, run to their end. */
import { spawn } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { FlynnError } from '@flynn/kit/errors';

export type ProgramResult = Readonly<{ code: number; stdout: string; stderr: string }>;

export type ProgramOptions = {
  timeoutMs: number;
  env?: Record<string, string | undefined>;
  cwd?: string;
  input?: string;
  /** Each line of either stream, as it comes. */
  onLine?: (line: string) => void;
};

/** The words a process was started with; none when it is gone. Its pid may be another program's by now. */
export async function commandOf(pid: number): Promise<readonly string[]> {
  try {
    return (await readFile(`/proc/${pid}/cmdline`, 'utf8')).split('\0').slice(0, -1);
  } catch {
    // Gone, before this look or during it.
    return [];
  }
}

export function hasProgram(name: string): boolean {
  return (process.env['PATH'] ?? '').split(':').some((folder) => {
    try {
      accessSync(join(folder, name), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/** Any exit code is an answer; `timeout` after killing it, `not_found` if there is no such program. */
export function tryProgram(program: string, args: readonly string[], options: ProgramOptions): Promise<ProgramResult> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      cwd: options.cwd,
      env: options.env === undefined ? process.env : { ...process.env, ...options.env },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    let stdout = '';
    let stderr = '';
    let rest = '';
    const tell = (text: string): void => {
      const lines = `${rest}${text}`.split(/\r?\n|\r/);
      rest = lines.pop() ?? '';
      for (const line of lines) options.onLine?.(line);
    };
    const timer = setTimeout(() => {
      child.kill('SIGKILL');
      reject(
        new FlynnError(
          'timeout',
          `${program} ${args[0] ?? ''} did not end within ${options.timeoutMs / 1_000} s\n${`${stdout}${stderr}`.slice(-2_000)}`,
        ),
      );
    }, options.timeoutMs);
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text;
      tell(text);
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text;
      tell(text);
    });
    child.once('error', (error) => {
      clearTimeout(timer);
      reject(new FlynnError('not_found', `${program} could not be run: ${error.message}`, { cause: error }));
    });
    child.once('close', (code, signal) => {
      clearTimeout(timer);
      if (rest !== '') options.onLine?.(rest);
      resolve({ code: code ?? (signal === null ? 1 : 128), stdout, stderr });
    });
    // A program that does not read its input closes the pipe early; its exit code tells the rest.
    child.stdin.on('error', () => {});
    child.stdin.end(options.input ?? '');
  });
}

/** Its standard output; `internal` with the last lines of what it said when it fails. */
export async function runProgram(program: string, args: readonly string[], options: ProgramOptions): Promise<string> {
  const result = await tryProgram(program, args, options);
  if (result.code === 0) return result.stdout;
  const said = `${result.stdout}${result.stderr}`.trim().split('\n').slice(-12).join('\n');
  throw new FlynnError('internal', `${program} ${args[0] ?? ''} failed with ${result.code}:\n${said}`);
}
