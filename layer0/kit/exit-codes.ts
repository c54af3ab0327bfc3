/** What does an exit code say of how a program ended? */
import { constants } from 'node:os';

/** "exit code 127 (command not found)", as shells use them: of a signal 128 and its number. */
export function exitCodeText(code: number): string {
  const meaning = code === 126 ? 'not executable' : code === 127 ? 'command not found' : signalOf(code);
  return `exit code ${code}${meaning === undefined ? '' : ` (${meaning})`}`;
}

function signalOf(code: number): string | undefined {
  return Object.entries(constants.signals).find(([, number]) => number === code - 128)?.[0];
}
