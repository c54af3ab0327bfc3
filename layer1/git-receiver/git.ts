/** The git binary, always with a clean environment and an array of arguments: no shell reads them. */
import { spawn } from 'node:child_process';
import type { ChildProcessByStdio } from 'node:child_process';
import { mkdir, open, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { abortError } from '@flynn/kit/clock';
import { FlynnError, asFlynnError, hasErrno } from '@flynn/kit/errors';
import { shortId } from '@flynn/kit/ids';
import { endGroup } from '@flynn/kit/process-group';
import { withDeadline } from '@flynn/kit/retry';

/** Nothing of this process's own environment: it holds the cluster key. */
const cleanEnv = {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  LANG: 'C.UTF-8',
  HOME: '/nonexistent',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_TERMINAL_PROMPT: '0',
};
/**
 * The volume may belong to another user than the one in the container. Nothing is said to be stored that a power cut could
 * still empty: to a repository with half an object nobody can push any more.
 */
const settings = Object.entries({
  'safe.directory': '*',
  'init.defaultBranch': 'main',
  'gc.autoDetach': 'false',
  'core.fsync': 'all',
}).flatMap(([name, value]) => ['-c', `${name}=${value}`]);

/** What a push, or a fetch, may bring: of what is packed, in bytes. */
export const maxPackBytes = 1024 ** 3;

/** A file that would become larger is an error of whoever writes it, as on a full disk, not its end. Its words are 512 bytes. */
const limited = ['-c', `trap '' XFSZ; ulimit -f "$0" && exec git "$@"`] as const;
const limitUnit = 512;

const runMs = 60_000;

export type Git = ChildProcessByStdio<Writable, Readable, Readable>;

/** `maxFileBytes`: of each file that it, or what it starts, writes. */
export function startGit(
  args: readonly string[],
  options: { env?: Record<string, string>; maxFileBytes?: number } = {},
): Git {
  const { maxFileBytes } = options;
  const words = [...settings, ...args];
  const [program, all] =
    maxFileBytes === undefined
      ? ['git', words]
      : ['/bin/sh', [...limited, String(Math.ceil(maxFileBytes / limitUnit)), ...words]];
  return spawn(program, all, {
    env: { ...cleanEnv, ...options.env },
    stdio: ['pipe', 'pipe', 'pipe'],
    cwd: '/',
    // For `endGroup`: what git has started for a server that is silent lives on without it, and holds on to its output.
    detached: true,
  });
}

/** Resolves with the exit code once all output was read. */
export function exitOf(git: Git): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  git.once('error', (error) => reject(asFlynnError(error)));
  git.once('close', (code) => resolve(code ?? 128));
  // Who reads its output first hears of it after that.
  promise.catch(() => undefined);
  return promise;
}

/** Until this is disposed of the signal ends git, and what that has started. */
export function endedBy(git: Git, signal: AbortSignal): Disposable {
  const stop = (): void => endGroup(git);
  signal.addEventListener('abort', stop, { once: true });
  return { [Symbol.dispose]: () => signal.removeEventListener('abort', stop) };
}

/** Why it was ended. `slow`: what is said if it was its time that was over. */
export function endOf(signal: AbortSignal, slow: string): FlynnError {
  const reason = abortError(signal);
  return reason.code === 'timeout' ? new FlynnError('timeout', slow) : reason;
}

/** Of what git says of itself, and of what a server has it say: more is not read by anybody, and takes memory. */
const maxSaidBytes = 2 ** 20;

/** Ends git once it says more than that: whoever collects what it says takes it into memory. `tooMuch`: where it did. */
export function boundOutput(
  git: Git,
  { out = maxSaidBytes }: { out?: number } = {},
): { readonly tooMuch: 'stdout' | 'stderr' | undefined } {
  const seen: { tooMuch: 'stdout' | 'stderr' | undefined } = { tooMuch: undefined };
  for (const [name, maxBytes] of [
    ['stdout', out],
    ['stderr', maxSaidBytes],
  ] as const) {
    let bytes = 0;
    git[name].on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= maxBytes || seen.tooMuch !== undefined) return;
      seen.tooMuch = name;
      endGroup(git);
    });
  }
  return seen;
}

/**
 * Of what is told in a few words: runs to the end. Throws `internal` with what git said if it failed, `exhausted` if it says
 * more than `maxBytes`.
 */
export async function runGit(
  args: readonly string[],
  { env = {}, signal, maxBytes }: { env?: Record<string, string>; signal?: AbortSignal; maxBytes?: number } = {},
): Promise<string> {
  const limited = withDeadline(runMs, signal);
  limited.throwIfAborted();
  const git = startGit(args, { env });
  using _ending = endedBy(git, limited);
  git.stdin.end();
  const output = boundOutput(git, { out: maxBytes ?? Infinity });
  const [code, out, problem] = await Promise.all([exitOf(git), text(git.stdout), text(git.stderr)]);
  if (output.tooMuch === 'stdout')
    throw new FlynnError('exhausted', `git ${args[0] ?? ''} tells more than ${maxBytes} bytes`);
  if (output.tooMuch === 'stderr')
    throw new FlynnError('internal', `git ${args[0] ?? ''} failed: ${problem.trim().slice(0, 1_000)}`);
  if (limited.aborted) throw endOf(limited, `git ${args[0] ?? ''} was not done within ${runMs / 1_000} s`);
  if (code === 0) return out;
  throw new FlynnError('internal', `git ${args[0] ?? ''} failed with exit code ${code}: ${problem.trim()}`);
}

/** Of what is not whole yet. */
export const newPrefix = '.new-';

/** The bare repository, made if it is not there. Two that make it at once both get the same. */
export async function ensureRepository(dir: string, appId: string): Promise<string> {
  if (!/^[A-Za-z0-9][A-Za-z0-9_-]*$/.test(appId))
    throw new FlynnError('internal', `the app id "${appId}" is not usable in a path`);
  const path = join(dir, `${appId}.git`);
  if (await isThere(path)) return path;
  const temporary = join(dir, `${newPrefix}${shortId()}`);
  try {
    await mkdir(dirname(temporary), { recursive: true });
    await runGit(['init', '--quiet', '--bare', '--template=', temporary]);
    // These git leaves to the system to write when it likes.
    for (const name of ['HEAD', 'config']) await syncToDisk(join(temporary, name));
    await rename(temporary, path);
    await syncToDisk(dir);
  } catch (error) {
    if (!(await isThere(path))) throw error;
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
  return path;
}

async function syncToDisk(path: string): Promise<void> {
  await using handle = await open(path, 'r');
  await handle.sync();
}

async function isThere(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (hasErrno(error, 'ENOENT')) return false;
    throw error;
  }
}
