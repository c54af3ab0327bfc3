/** Programs that run on this machine, by the words they were started with. */
import { readFile, readdir, readlink } from 'node:fs/promises';

/** The words a process was started with; none when it is gone. Its pid may be another program's by now. */
export async function commandOf(pid: number): Promise<readonly string[]> {
  try {
    return (await readFile(`/proc/${pid}/cmdline`, 'utf8')).split('\0').slice(0, -1);
  } catch {
    // Gone, before this look or during it.
    return [];
  }
}

/** Those there are at the moment, the lowest pid first. Those of containers are not this machine's, whatever they are called. */
export async function findProcesses(isIt: (command: readonly string[]) => boolean): Promise<number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);
  const found: number[] = [];
  for (const pid of pids.toSorted((a, b) => a - b))
    if (isIt(await commandOf(pid)) && (await isOfHere(pid))) found.push(pid);
  return found;
}

/** Whose namespace may not be looked at is taken for one of here. */
async function isOfHere(pid: number): Promise<boolean> {
  const [own, its] = await Promise.all(
    ['self', pid].map((one) => readlink(`/proc/${one}/ns/pid`).catch(() => undefined)),
  );
  return own === undefined || its === undefined || own === its;
}

/** Whether its words begin with a shell, which has those of the program it is to run among its own. */
export function isShell([program = '']: readonly string[]): boolean {
  return /(?:^|\/)(?:ba|da)?sh$/.test(program);
}
