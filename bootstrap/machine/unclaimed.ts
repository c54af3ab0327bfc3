/**
 * What is on this machine of a cluster whose state is not where it was looked for: in a folder that was not named, or on a disk
 * that is not mounted. Without its state nobody knows whose it is, so it is neither built upon nor taken away.
 */
import { FlynnError } from '@flynn/kit/errors';
import { withDeadline } from '@flynn/kit/retry';
import { engineAt, isEngineUp, isSystemdRunning } from './engine.ts';
import { commands } from '../origin.ts';
import { labelledVolumes, listContainers } from '../leaving/removal.ts';
import { type Options, defaultName } from '../settings.ts';
import { hasCluster } from '../state.ts';
import { hasUnit, otherStateDir, unitFile, unitOf, unitTextOf } from '../agent/unit.ts';

const listMs = 20_000;

export type Unclaimed = Readonly<{
  containers: number;
  volumes: number;
  /** Where the unit of that name has its agent's state: elsewhere, or in this folder, which does not have it now. */
  unitStateDir?: string;
}>;

export type Where = Pick<Options, 'FLYNN_STATE_DIR' | 'FLYNN_DOCKER_SOCKET' | 'FLYNN_SUPERVISOR'>;

/** Nothing where the state directory has a cluster: then all of that name is its own. An engine that is not there has nothing. */
export async function unclaimedOf(options: Where, name: string): Promise<Unclaimed> {
  const { FLYNN_STATE_DIR: stateDir, FLYNN_DOCKER_SOCKET: socket } = options;
  if (hasCluster(stateDir)) return { containers: 0, volumes: 0 };
  const unitStateDir = await unitStateDirOf(options, name);
  const told = unitStateDir === undefined ? {} : { unitStateDir };
  if (!(await isEngineUp(socket))) return { containers: 0, volumes: 0, ...told };
  const docker = engineAt(socket);
  const limits = { signal: withDeadline(listMs) };
  const [containers, volumes] = await Promise.all([
    listContainers(docker, name, limits),
    labelledVolumes(docker, name, limits),
  ]);
  return { containers: containers.length, volumes: volumes.length, ...told };
}

/** Of who keeps its agent itself the machine's units are none: a test host has the files of the machine, and not its systemd. */
export function isOwnSupervisor({ FLYNN_SUPERVISOR: given }: Where): boolean {
  return (given ?? (isSystemdRunning() ? 'systemd' : 'own')) === 'own';
}

async function unitStateDirOf(options: Where, name: string): Promise<string | undefined> {
  if (isOwnSupervisor(options)) return undefined;
  const { FLYNN_STATE_DIR: stateDir } = options;
  // One of this folder is neither there before `up` has written the state, nor once `down` takes that away.
  if (hasUnit({ name }, stateDir)) return stateDir;
  return otherStateDir((await unitTextOf({ name })) ?? '', stateDir);
}

export type Asked = Readonly<{ name: string; stateDir: string; command: string }>;

/** For people: what there is, and what to do about it. Nothing where there is nothing. */
export function unclaimedText(
  { containers, volumes, unitStateDir }: Unclaimed,
  { name, stateDir, command }: Asked,
): { what: string; remedy: string } | undefined {
  const unit = unitOf({ name });
  const force = `${name === defaultName ? '' : `FLYNN_CLUSTER=${name} `}${commands.force}`;
  const isGone = `Is it gone for good, copy what apps keep on volumes, then: ${force}`;
  if (unitStateDir === stateDir) {
    return {
      what: `the unit ${unit} is that of a cluster ${name} whose state was in ${stateDir}, and is not there now`,
      remedy: `mount the disk that has it, and run the same command again. ${isGone}`,
    };
  }
  if (unitStateDir !== undefined) {
    return {
      what: `the unit ${unit} is that of a cluster ${name} whose state is in ${unitStateDir}, not in ${stateDir}`,
      remedy: `name that folder (sudo passes no variables on): FLYNN_STATE_DIR=${unitStateDir} ${command}. Is it gone for good: systemctl disable --now ${unit}, rm ${unitFile({ name })}, and the same again`,
    };
  }
  if (containers + volumes === 0) return undefined;
  const amount = [counted(containers, 'container'), counted(volumes, 'volume')].join(' and ');
  return {
    what: `the container engine has ${amount} of a cluster ${name}, and its state is not in ${stateDir}`,
    remedy: `mount the disk that has it; or name its folder (sudo passes no variables on): FLYNN_STATE_DIR=FOLDER ${command}. ${isGone}`,
  };
}

/** `conflict` where there is anything. `done`: what was changed before it could be looked for. */
export async function refuseUnclaimed(
  options: Where,
  { name, command, done = 'Nothing was changed' }: Pick<Asked, 'name' | 'command'> & { done?: string },
): Promise<void> {
  const found = await unclaimedOf(options, name);
  const told = unclaimedText(found, { name, stateDir: options.FLYNN_STATE_DIR, command });
  if (told !== undefined) throw new FlynnError('conflict', `${told.what}. ${done}\n  ${told.remedy}`);
}

const counted = (count: number, what: string): string => `${count} ${count === 1 ? what : `${what}s`}`;
