import type { Clock } from '@flynn/kit/clock';

/** What the command line has of the outside world, so that tests can run commands in the same process. */
export type Input = NodeJS.ReadableStream & {
  isTTY?: boolean;
  setRawMode?(isRaw: boolean): unknown;
  unref?(): unknown;
};

export type Output = NodeJS.WritableStream & {
  isTTY?: boolean;
  columns?: number;
  rows?: number;
  /** Whether a terminal takes colours, and its person wants any. */
  hasColors?(): boolean;
};

export type Io = {
  stdin: Input;
  stdout: Output;
  stderr: Output;
  env: Readonly<Record<string, string | undefined>>;
  cwd: string;
  /** For how long the cluster is asked again. */
  clock: Clock;
  /** Calls back for each of the process's signals; the answer takes it back. */
  onSignal(signal: 'SIGINT' | 'SIGTERM' | 'SIGWINCH', listener: () => void): () => void;
  /** From now on the process ends, and well, once nobody reads what it writes. */
  endWithReader(): void;
};

/** A terminal that can only go on with what is written last, as that of an editor. */
export function isDumb({ env }: Pick<Io, 'env'>): boolean {
  return env['TERM'] === 'dumb';
}
