/** Whoever ends this program: Ctrl-C, a terminal that goes away, another command. */
import { FlynnError } from '@flynn/kit/errors';

const endings = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** The signal aborts with `cancelled` as soon as somebody does; until the task has ended the program goes on. */
export async function interruptible<T>(task: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const ending = new AbortController();
  const end = (name: NodeJS.Signals): void => ending.abort(new FlynnError('cancelled', `it was ended by ${name}`));
  for (const name of endings) process.on(name, end);
  try {
    return await task(ending.signal);
  } finally {
    for (const name of endings) process.off(name, end);
  }
}
