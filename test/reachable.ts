/** Tests run builds as a user of their own, who has to get at the programs of this checkout: not in a home such as /root. */
import { execFileSync, spawn } from 'node:child_process';
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

/**
 * Runs `program`, a path below `checkout`, in a copy of all of it that everybody gets at, and removes the copy afterwards. A
 * signal is the program's to take. Resolves with its exit code.
 */
export async function runInCopy(
  checkout: string,
  program: string,
  options: { args: readonly string[]; copies: string },
): Promise<number> {
  const folder = mkdtempSync(join(options.copies, 'flynn-checkout-'));
  try {
    chmodSync(folder, 0o755);
    const copy = join(folder, 'flynn');
    execFileSync('cp', ['--archive', '--reflink=auto', checkout, copy]);
    chmodSync(copy, 0o755);
    // Programs are found there too, before those of the checkout that npm put first.
    const env = { ...process.env, PATH: `${join(copy, 'node_modules/.bin')}:${process.env['PATH'] ?? ''}` };
    const node = existsSync(join(copy, 'node_modules/.bin/node')) ? 'node' : process.execPath;
    const child = spawn(node, [join(copy, program), ...options.args], { cwd: copy, env, stdio: 'inherit' });
    const passOn = (signal: NodeJS.Signals) => void child.kill(signal);
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, passOn);
    return await new Promise((ended, failed) => {
      child.once('error', failed);
      child.once('exit', (code, signal) => ended(code ?? 128 + (signal === null ? 0 : constants.signals[signal])));
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
