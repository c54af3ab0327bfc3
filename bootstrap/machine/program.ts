/** Other programs of the machine, run to their end. */
import { type ChildProcess, spawn } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { join } from 'node:path';
import { abortError } from '@flynn/kit/clock';
import { FlynnError } from '@flynn/kit/errors';
import { endGroup } from '@flynn/kit/process-group';
import type { HostLock } from '../host-lock.ts';

export type ProgramResult = Readonly<{ code: number; stdout: string; stderr: string }>;

export type ProgramOptions = {
  timeoutMs: number;
  env?: Record<string, string | undefined>;
  cwd?: string;
  input?: string;
  /** Ends it with all that it started; so does the deadline then. Without one a terminal's Ctrl-C reaches it by itself. */
  signal?: AbortSignal;
  /** Goes on to the program, which does a part of the work under it. */
  lock?: HostLock;
  /** Each line of either stream, as it comes. */
  onLine?: (line: string) => void;
};

/** `su` without a dash leaves the path of who called it, where root's own programs (nft, dockerd, dpkg's) are not. */
export function pathOfRoot(path = '/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin'): string {
  const folders = path.split(':');
  return [...folders, ...['/usr/local/sbin', '/usr/sbin', '/sbin'].filter((one) => !folders.includes(one))].join(':');
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

/** Any exit code is an answer; `timeout` or `cancelled` after ending it, `not_found` if there is no such program. */
export async function tryProgram(
  program: string,
  args: readonly string[],
  options: ProgramOptions,
): Promise<ProgramResult> {
  const { signal, timeoutMs } = options;
  const refuseAborted = (): void => {
    if (signal?.aborted === true) throw abortError(signal);
  };
  refuseAborted();
  const child = spawn(program, args, {
    cwd: options.cwd,
    env: options.env === undefined ? process.env : { ...process.env, ...options.env },
    stdio: ['pipe', 'pipe', 'pipe', ...(options.lock === undefined ? [] : [options.lock.fd])],
    detached: signal !== undefined,
  });
  const said = listen(child, options.onLine);
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    if (signal === undefined) child.kill('SIGKILL');
    else endGroup(child);
    const what = `${program} ${args[0] ?? ''} did not end within ${timeoutMs / 1_000} s`;
    late.reject(new FlynnError('timeout', `${what}\n${`${said.stdout}${said.stderr}`.slice(-2_000)}`));
  }, timeoutMs);
  const onAbort = (): void => endGroup(child);
  signal?.addEventListener('abort', onAbort, { once: true });
  // A program that does not read its input closes the pipe early; its exit code tells the rest.
  child.stdin?.on('error', () => {});
  child.stdin?.end(options.input ?? '');
  try {
    const code = await Promise.race([endOf(child, program), late.promise]);
    refuseAborted();
    return { code, ...said };
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', onAbort);
  }
}

function endOf(child: ChildProcess, program: string): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once('error', (error) =>
      reject(new FlynnError('not_found', `${program} could not be run: ${error.message}`, { cause: error })),
    );
    child.once('close', (code, killedBy) => resolve(code ?? (killedBy === null ? 1 : 128)));
  });
}

/** What it says, as far as it has. */
function listen(child: ChildProcess, onLine: (line: string) => void = () => {}): { stdout: string; stderr: string } {
  const said = { stdout: '', stderr: '' };
  let rest = '';
  for (const stream of ['stdout', 'stderr'] as const) {
    child[stream]?.setEncoding('utf8').on('data', (text: string) => {
      said[stream] += text;
      const lines = `${rest}${text}`.split(/\r?\n|\r/);
      rest = lines.pop() ?? '';
      for (const line of lines) onLine(line);
    });
  }
  child.once('close', () => {
    if (rest !== '') onLine(rest);
  });
  return said;
}

/** Its standard output; `internal` with the last lines of what it said when it fails. */
export async function runProgram(program: string, args: readonly string[], options: ProgramOptions): Promise<string> {
  const result = await tryProgram(program, args, options);
  if (result.code === 0) return result.stdout;
  const said = `${result.stdout}${result.stderr}`.trim().split('\n').slice(-12).join('\n');
  throw new FlynnError('internal', `${program} ${args[0] ?? ''} failed with ${result.code}:\n${said}`);
}
