/**
 * The programs of the memory engine: just enough of `sh -c` that one conformance suite drives both engines.
 * Statements are separated by `;`: `echo TEXT [>&2]`, `printf TEXT`, `sleep SECONDS`, `exit CODE`, `cat`, `env NAME`,
 * `trap '' TERM`, `oom`.
 */
import type { Clock } from '@flynn/kit/clock';
import { FlynnError } from '@flynn/kit/errors';

export type Shell = {
  env: Readonly<Record<string, string>>;
  write(stream: 'stdout' | 'stderr', text: string): void;
  /** Chunks of stdin until it ends. */
  input: AsyncIterable<Buffer>;
  ignoreTerm(): void;
  runOutOfMemory(): void;
  clock: Clock;
  /** The process was killed. */
  signal: AbortSignal;
};

/** Answers the exit code. */
export async function runScript(script: string, shell: Shell): Promise<number> {
  for (const statement of script.split(';').map((part) => part.trim())) {
    if (shell.signal.aborted) return 137;
    const [word = '', ...rest] = statement.replace(/^exec /, '').split(/\s+/);
    const code = await runStatement(word, rest.join(' '), shell);
    if (code !== undefined) return code;
  }
  return 0;
}

async function runStatement(word: string, argument: string, shell: Shell): Promise<number | undefined> {
  switch (word) {
    case '':
      return undefined;
    case 'echo': {
      const isError = argument.endsWith('>&2');
      const text = argument.replace(/\s*>&2$/, '').replace(/^(['"])(.*)\1$/, '$2');
      shell.write(isError ? 'stderr' : 'stdout', `${text}\n`);
      return undefined;
    }
    case 'printf':
      shell.write('stdout', argument.replace(/^(['"])(.*)\1$/, '$2'));
      return undefined;
    case 'printenv':
      shell.write('stdout', `${shell.env[argument] ?? ''}\n`);
      return undefined;
    case 'sleep':
      await shell.clock.sleep(Math.min(Number(argument) * 1000, 2 ** 31 - 1), { signal: shell.signal });
      return undefined;
    case 'cat':
      for await (const chunk of shell.input) shell.write('stdout', chunk.toString());
      return undefined;
    case 'trap':
      shell.ignoreTerm();
      return undefined;
    case 'oom':
      shell.runOutOfMemory();
      return 137;
    case 'exit':
      return Number(argument);
    default:
      throw new FlynnError('invalid', `the memory engine cannot run "${word}"`);
  }
}
