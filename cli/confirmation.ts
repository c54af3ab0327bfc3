/** Asks before what cannot be undone. */
import { createInterface } from 'node:readline/promises';
import { FlynnError } from '@flynn/kit/errors';
import type { Io } from './io.ts';
import { visible } from './output.ts';

/** `doing`: "deleting shop". Whoever types `word`, which is `called` so ("its name"), means it. Without a terminal: `invalid`. */
export async function confirmByTyping(
  { stdin, stderr }: Pick<Io, 'stdin' | 'stderr'>,
  { doing, word, called, kept }: { doing: string; word: string; called: string; kept: string },
): Promise<void> {
  if (!stdin.isTTY) throw new FlynnError('invalid', `${doing} cannot be undone\n  say so with -y`);
  const readline = createInterface({ input: stdin, output: stderr });
  try {
    // The end of the input is no answer either; without this the question would wait for ever.
    const closed = new Promise<string>((resolve) => readline.once('close', () => resolve('')));
    const begun = `${doing.charAt(0).toUpperCase()}${doing.slice(1)}`;
    const asked = readline.question(visible(`${begun} cannot be undone. Type ${called} to go on: `));
    const answer = await Promise.race([asked, closed]);
    if (answer.trim() !== word) throw new FlynnError('cancelled', `that was not "${word}": ${kept}`);
  } finally {
    readline.close();
  }
}
