/** Tests run builds as a user of their own, who has to get at the programs of this checkout: not in a home such as /root. */
import { spawn } from 'node:child_process';
import type { ChildProcess, SpawnOptions } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { constants } from 'node:os';
import { dirname, join, resolve } from 'node:path';

const othersEnter = 0o001;

/** The folder on the way to `path`, itself included, that other users may not pass through; undefined if there is none. */
export function closedFolderOf(path: string): string | undefined {
  const folder = resolve(path);
  const above = dirname(folder);
  const closed = above === folder ? undefined : closedFolderOf(above);
  if (closed !== undefined) return closed;
  return (statSync(folder).mode & othersEnter) === 0 ? folder : undefined;
}

const passedOn = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

/**
 * Runs `program`, a path below `checkout`, in a copy of all of it that everybody gets at, and removes the copy afterwards. A
 * signal ends the copying, and is the program's to take. Resolves with its exit code. Throws if nobody else gets at `copies`.
 */
export async function runInCopy(
  checkout: string,
  program: string,
  options: { args: readonly string[]; copies: string },
): Promise<number> {
  const closed = closedFolderOf(options.copies);
  if (closed !== undefined) {
    throw new Error(`others may not enter ${closed} either: move the checkout to where every user may go, as /srv`);
  }
  const folder = mkdtempSync(join(options.copies, 'flynn-checkout-'));
  let child: ChildProcess | undefined;
  const passOn = (signal: NodeJS.Signals) => void child?.kill(signal);
  for (const signal of passedOn) process.on(signal, passOn);
  const run = async (command: string, args: readonly string[], how: SpawnOptions = {}): Promise<number> => {
    child = spawn(command, args, { stdio: 'inherit', ...how });
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    child.once('error', reject);
    child.once('exit', (code, signal) => resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal])));
    return promise;
  };
  try {
    chmodSync(folder, 0o755);
    const copy = join(folder, 'flynn');
    const copied = await run('cp', ['--archive', '--reflink=auto', checkout, copy]);
    // Of who is careful with all that is made nobody could read what is in it, either.
    const opened = copied === 0 ? await run('chmod', ['--recursive', 'a+rX', copy]) : copied;
    if (opened !== 0) return opened;
    // Programs are found there too, before those of the checkout that npm put first; what is compiled is kept for its paths.
    const { NODE_COMPILE_CACHE: _, ...env } = process.env;
    const path = `${join(copy, 'node_modules/.bin')}:${env['PATH'] ?? ''}`;
    const node = existsSync(join(copy, 'node_modules/.bin/node')) ? 'node' : process.execPath;
    return await run(node, [join(copy, program), ...options.args], { cwd: copy, env: { ...env, PATH: path } });
  } finally {
    for (const signal of passedOn) process.removeListener(signal, passOn);
    rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  }
}
