/** A person's command line, run to its end or its deadline. */
import { spawn } from 'node:child_process';
import { abortError } from '@flynn/kit/clock';
import { FlynnError } from '@flynn/kit/errors';
import { signalGroup } from '@flynn/kit/process-group';

const keptBytes = 4_000;
const lastWordsMs = 500;

/**
 * By `sh -c`, in a process group of its own, which is killed at the deadline and when the signal aborts. Rejects with
 * `timeout`, `cancelled`, or `internal` when it fails, with the end of what it said.
 */
export async function runShell(
  command: string,
  options: { timeoutMs: number; signal: AbortSignal; env: NodeJS.ProcessEnv },
): Promise<void> {
  const { timeoutMs, signal } = options;
  if (signal.aborted) throw abortError(signal);
  const child = spawn('/bin/sh', ['-c', command], {
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: options.env,
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk: string) => {
      said = (said + chunk).slice(-keptBytes);
    });
  }
  let isLate = false;
  const kill = () => signalGroup(child, 'SIGKILL');
  const deadline = setTimeout(() => {
    isLate = true;
    kill();
  }, timeoutMs);
  signal.addEventListener('abort', kill, { once: true });
  try {
    const outcome = await new Promise<string | undefined>((resolve, reject) => {
      child.once('error', reject);
      // What was said last is read after the end. But what a reload leaves running may hold the pipes open for good.
      child.once('exit', () => {
        const timer = setTimeout(() => {
          child.stdout.destroy();
          child.stderr.destroy();
        }, lastWordsMs);
        child.once('close', () => clearTimeout(timer));
      });
      child.once('close', (code, killedBy) =>
        resolve(code === 0 ? undefined : killedBy === null ? `ended with ${code}` : `was ended by ${killedBy}`),
      );
    });
    if (signal.aborted) throw abortError(signal);
    const output = said.trim() === '' ? '' : `:\n${said.trim()}`;
    if (isLate) {
      throw new FlynnError('timeout', `"${command}" took longer than ${timeoutMs / 1_000} s and was ended${output}`);
    }
    if (outcome !== undefined) throw new FlynnError('internal', `"${command}" ${outcome}${output}`);
  } finally {
    clearTimeout(deadline);
    signal.removeEventListener('abort', kill);
    child.stdout.destroy();
    child.stderr.destroy();
  }
}

export function quoteForShell(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
