/** Which processes are a test host's? Those in its network, its engine with what that runs, and its supervisor. */
import { readFileSync, readdirSync, readlinkSync, statSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { runProgram } from '../machine/program.ts';
import { waitFor } from '@flynn/kit/retry';

export type HostTraits = Readonly<{
  /** The file of its network namespace. */
  namespaceFile: string;
  /** Below which all of its engine's files are: named on the command lines of the engine's processes. */
  directory: string;
  /** The control group above its containers'. */
  controlGroup: string;
}>;

export type HostProcess = Readonly<{
  pid: number;
  /** Which made it. */
  parent: number;
  command: string;
  isEngine: boolean;
  isContainer: boolean;
  /** It runs no program of its own, but goes on with that of its parent, at least yet. */
  isForked: boolean;
}>;

/** Of the kernel: forked, and has not begun another program. */
const forkedFlag = 0x40;
const enginePrograms = /^[^\0]*(dockerd|containerd|containerd-shim[^\0]*|docker-proxy)\0/;

export function hostProcesses(traits: HostTraits): HostProcess[] {
  const namespace = statSync(traits.namespaceFile, { throwIfNoEntry: false });
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .flatMap((pid) => {
      const line = read(() => readFileSync(`/proc/${pid}/cmdline`, 'utf8'));
      const isContainer = read(() => readFileSync(`/proc/${pid}/cgroup`, 'utf8')).includes(`${traits.controlGroup}/`);
      const isEngine = !isContainer && enginePrograms.test(line) && line.includes(`${traits.directory}/`);
      const isInside =
        namespace !== undefined && read(() => readlinkSync(`/proc/${pid}/ns/net`)) === `net:[${namespace.ino}]`;
      const isSupervisor = line.includes(`supervise\0${traits.directory}/`);
      const command = line.replaceAll('\0', ' ').trim();
      return isContainer || isEngine || isInside || isSupervisor
        ? [{ pid: Number(pid), command, isEngine, isContainer, ...originOf(pid) }]
        : [];
    });
}

function originOf(pid: string): Pick<HostProcess, 'parent' | 'isForked'> {
  const stat = read(() => readFileSync(`/proc/${pid}/stat`, 'latin1'));
  // What comes first, the name, may have any sign in it: pid (name) state parent group session terminal its-group flags …
  const [, parent = '', , , , , flags = ''] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return { parent: Number(parent), isForked: (Number(flags) & forkedFlag) !== 0 };
}

/**
 * Those that are what their command line says. Whoever starts a program is there twice for a moment, under the same words: the
 * second is about to be that program, or a part of a shell's work.
 */
export function ownPrograms(processes: readonly HostProcess[]): HostProcess[] {
  const commands = new Map(processes.map(({ pid, command }) => [pid, command]));
  return processes.filter(({ isForked, parent, command }) => !(isForked && commands.get(parent) === command));
}

/** Processes end while one looks. */
function read(look: () => string): string {
  try {
    return look();
  } catch {
    return '';
  }
}

/** KILL, again and again until none is left: they may start others meanwhile. */
export async function killHostProcesses(traits: HostTraits, which: (one: HostProcess) => boolean): Promise<void> {
  await waitFor(
    () => {
      const processes = hostProcesses(traits).filter(which);
      for (const { pid } of processes) {
        try {
          process.kill(pid, 'SIGKILL');
        } catch {
          // Ended by itself since.
        }
      }
      return processes.length === 0;
    },
    { what: `the processes of ${traits.directory} to end`, deadlineMs: 20_000, intervalMs: 50 },
  );
}

/** Everything mounted below the directory, the innermost first. */
export async function unmountBelow(directory: string): Promise<void> {
  const mounts = (await readFile('/proc/self/mountinfo', 'utf8'))
    .split('\n')
    .map((line) => line.split(' ')[4] ?? '')
    .filter((path) => path.startsWith(`${directory}/`))
    .toReversed();
  for (const path of mounts) await runProgram('umount', ['-l', path], { timeoutMs: 10_000 });
}
