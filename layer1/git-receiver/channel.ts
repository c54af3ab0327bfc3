/** A client's channel: a git whose input and output it is, and words to whoever is at its other end. */
import { endGroup } from '@flynn/kit/process-group';
import type { ServerChannel } from 'ssh2';
import { exitOf, startGit } from './git.ts';

/** Its exit code, also when the signal ended it. `onProgress`: the client has sent something, or taken what git said. */
export async function runOn(
  channel: ServerChannel,
  args: readonly string[],
  options: { env: Record<string, string>; onProgress?: () => void; signal: AbortSignal },
): Promise<number> {
  const { env, onProgress = () => {}, signal } = options;
  signal.throwIfAborted();
  const git = startGit(args, { env });
  const stop = () => {
    endGroup(git);
    // It is over once all it said was read: nobody does any more who is gone, or takes nothing.
    for (const output of [git.stdout, git.stderr]) output.unpipe().resume();
  };
  signal.addEventListener('abort', stop, { once: true });
  // A git that ends before it has read everything says itself what is wrong.
  git.stdin.on('error', () => {});
  channel.on('data', onProgress);
  // What a full channel has no room for is not read from git either.
  git.stdout.on('data', onProgress);
  channel.pipe(git.stdin);
  git.stdout.pipe(channel, { end: false });
  git.stderr.pipe(channel.stderr, { end: false });
  try {
    return await exitOf(git);
  } finally {
    signal.removeEventListener('abort', stop);
    channel.off('data', onProgress);
    channel.unpipe(git.stdin);
  }
}

export function tell(channel: ServerChannel, line: string): void {
  if (channel.stderr.writable) channel.stderr.write(`${line}\n`);
}

/** The exit code that says it. */
export function refuse(channel: ServerChannel, problem: string): number {
  tell(channel, `error: ${problem}`);
  return 128;
}

export function minutesText(ms: number): string {
  const minutes = Math.round(ms / 60_000);
  return minutes === 1 ? '1 minute' : `${minutes} minutes`;
}
