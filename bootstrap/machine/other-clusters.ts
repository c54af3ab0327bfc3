/** Clusters that this machine has something of, beside the one that a command is about: what all of them share is not to go. */
import { readFile, readdir } from 'node:fs/promises';
import { programFile } from '@flynn/host-agent/agent-process';
import { hasErrno } from '@flynn/kit/errors';
import { commandOf, findProcesses } from '@flynn/kit/processes';
import { withDeadline } from '@flynn/kit/retry';
import { stateDirIn, unitsFolder } from '../agent/unit.ts';
import { clustersIn } from '../leaving/removal.ts';
import { hasCluster } from '../state.ts';
import { engineAt, isEngineUp } from './engine.ts';
import { type Asked, type Where, isOwnSupervisor, refuseUnclaimed } from './unclaimed.ts';

const listMs = 20_000;

type Unit = Readonly<{ name: string; file: string; text: string }>;

/** Of host agents, of whatever cluster. */
async function unitsIn(folder: string): Promise<Unit[]> {
  const units: Unit[] = [];
  for (const file of await filesIn(folder)) {
    const name = /^flynn-host-([a-z0-9]+)\.service$/.exec(file)?.[1];
    if (name !== undefined) units.push({ name, file, text: await readFile(`${folder}/${file}`, 'utf8') });
  }
  return units;
}

async function filesIn(folder: string): Promise<string[]> {
  try {
    return (await readdir(folder)).toSorted();
  } catch (error) {
    if (hasErrno(error, 'ENOENT')) return [];
    throw error;
  }
}

/** `atWork`: those alone that have a container that runs, or an agent whose state is there. */
async function otherClusters(options: Where, name: string, { atWork, folder }: Looked): Promise<string[]> {
  const units = isOwnSupervisor(options) ? [] : await unitsIn(folder);
  const named = units.filter(({ text }) => !atWork || hasCluster(stateDirIn(text) ?? '/')).map((unit) => unit.name);
  const { FLYNN_DOCKER_SOCKET: socket } = options;
  const inEngine = (await isEngineUp(socket))
    ? await clustersIn(engineAt(socket), { signal: withDeadline(listMs), isRunning: atWork })
    : [];
  return [...new Set([...named, ...inEngine])].filter((other) => other !== name).toSorted();
}

type Looked = Readonly<{ atWork: boolean; folder: string }>;

/**
 * `conflict` where the state directory has no cluster, and the machine has one of any name: who named another folder or cluster
 * when it was made, and says neither now, would lose it. By force what is left of others goes, but not one that is at work.
 */
export async function refuseAnyUnclaimed(
  options: Where,
  asked: Pick<Asked, 'name' | 'command'>,
  { isForced, folder = unitsFolder }: { isForced: boolean; folder?: string },
): Promise<void> {
  if (!isForced) await refuseUnclaimed(options, asked);
  for (const name of await otherClusters(options, asked.name, { atWork: isForced, folder })) {
    await refuseUnclaimed(options, { ...asked, name });
  }
}

/** What of this machine still starts the programs below the folder, for people: they stay for it. */
export async function userOf(prefix: string, folder = unitsFolder): Promise<string | undefined> {
  const unit = (await unitsIn(folder)).find(({ text }) => text.includes(`ExecStart=${prefix}/`));
  if (unit !== undefined) return `the unit ${unit.file}`;
  const isUser = ([program = '', ...words]: readonly string[]): boolean =>
    program.startsWith(`${prefix}/`) && words.at(-1)?.endsWith(`/agent/current/${programFile}`) === true;
  const [pid] = await findProcesses(isUser);
  return pid === undefined ? undefined : `the process ${pid}, ${(await commandOf(pid)).join(' ')}`;
}
