/** A configuration file of another program, and the commands that check it and make the program read it. */
import { rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { readTextFile, writeFileAtomic } from '@flynn/kit/files';
import { shortId } from '@flynn/kit/ids';
import { quoteForShell, runShell } from './shell-command.ts';

export type ConfigurationFileOptions = {
  path: string;
  /** Makes the program read the file. */
  exec?: string;
  /** Has to succeed before the file is replaced; `{}` in it is the path of the candidate. */
  check?: string;
  /** Of each command, default 30 s. */
  commandTimeoutMs?: number;
  env?: NodeJS.ProcessEnv;
};

export type Outcome = 'unchanged' | 'written' | 'reloaded';

/**
 * INVARIANTS. The file is a whole old or a whole new one that passed the check, with the mode and owner it had (a new one:
 * 0644). From before it is replaced until the program was told there is a note beside it, so that a crash in between, or a
 * failed reload, is made up for by the next `bring`, whoever calls it.
 */
export class ConfigurationFile {
  readonly #options: ConfigurationFileOptions;
  readonly #note: string;

  constructor(options: ConfigurationFileOptions) {
    if (options.check !== undefined && !options.check.includes('{}')) {
      throw new FlynnError(
        'invalid',
        `the check "${options.check}" does not say where the file to check goes: write {}`,
      );
    }
    this.#options = options;
    this.#note = this.#beside('reload');
  }

  /** Rejects with what the check or the reload said; a file that was not fit to be used has changed nothing. */
  async bring(text: string, options: { signal: AbortSignal }): Promise<Outcome> {
    const { path: file, exec } = this.#options;
    const isChanged = (await readTextFile(file)) !== text;
    if (isChanged) {
      await this.#check(text, options.signal);
      if (exec !== undefined) await writeFile(this.#note, '');
      await this.#replace(text);
    }
    if (exec === undefined) return isChanged ? 'written' : 'unchanged';
    if ((await readTextFile(this.#note)) === undefined) return 'unchanged';
    await this.#run(exec, options.signal);
    await rm(this.#note, { force: true });
    return 'reloaded';
  }

  async #check(text: string, signal: AbortSignal): Promise<void> {
    const { check } = this.#options;
    if (check === undefined) return;
    const candidate = this.#beside(`${shortId()}.candidate`);
    try {
      await writeFile(candidate, text, { mode: 0o600 });
      await this.#run(check.replaceAll('{}', quoteForShell(candidate)), signal);
    } finally {
      await rm(candidate, { force: true });
    }
  }

  async #replace(text: string): Promise<void> {
    const { path: file } = this.#options;
    const before = await stat(file).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return undefined;
      throw new FlynnError('internal', `${file} cannot be looked at: ${messageOf(error)}`, { cause: error });
    });
    if (before === undefined) return writeFileAtomic(file, text, { mode: 0o644 });
    const { mode, uid, gid } = before;
    const isRoot = process.getuid?.() === 0;
    await writeFileAtomic(file, text, { mode: mode & 0o7777, ...(isRoot ? { owner: { uid, gid } } : {}) });
  }

  async #run(command: string, signal: AbortSignal): Promise<void> {
    const { commandTimeoutMs: timeoutMs = 30_000, env = process.env } = this.#options;
    await runShell(command, { timeoutMs, signal, env });
  }

  #beside(what: string): string {
    const { dir, base } = path.parse(path.resolve(this.#options.path));
    return path.join(dir, `.${base}.${what}`);
  }
}
