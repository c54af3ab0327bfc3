/** Programs of the machine's network, run to their end. */
import { spawn } from 'node:child_process';
import { abortError } from '@flynn/kit/clock';
import { FlynnError } from '@flynn/kit/errors';

/**
 * Runs a program with `input` on its stdin and answers its stdout. `not_found` if there is no such program, `internal`
 * with what it said when it fails, `timeout` after killing it, `cancelled`.
 */
export type Run = (command: Command, signal: AbortSignal) => Promise<string>;
export type Command = Readonly<{ program: string; args: readonly string[]; input?: string }>;

const timeoutMs = 10_000;

export const runProgram: Run = ({ program, args, input = '' }, signal) =>
  new Promise((resolve, reject) => {
    const deadline = AbortSignal.timeout(timeoutMs);
    const until = AbortSignal.any([signal, deadline]);
    const child = spawn(program, args, { stdio: 'pipe', signal: until, killSignal: 'SIGKILL' });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => void (stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => void (stderr += text));
    child.once('error', (error: NodeJS.ErrnoException) => {
      if (signal.aborted) reject(abortError(signal));
      else if (deadline.aborted) reject(new FlynnError('timeout', `${program} did not end within ${timeoutMs} ms`));
      else if (error.code === 'ENOENT') reject(new FlynnError('not_found', missing(program), { cause: error }));
      else reject(new FlynnError('internal', `${program} could not be run: ${error.message}`, { cause: error }));
    });
    child.once('close', (code) => {
      if (code === 0) return resolve(stdout);
      const said = stderr.trim().split('\n').slice(0, 6).join('\n');
      return reject(new FlynnError('internal', `${[program, ...args].join(' ')} failed with ${code}: ${said}`));
    });
    // A program that does not read its input closes the pipe early; its exit code tells the rest.
    child.stdin.on('error', () => undefined);
    child.stdin.end(input);
  });

const packages: Record<string, string> = { nft: 'nftables', ip: 'iproute2', bridge: 'iproute2', wg: 'wireguard-tools' };

function missing(program: string): string {
  const name = packages[program] ?? program.replace(/-.*/, '');
  return `${program} is not on this machine: install the package ${name}`;
}
