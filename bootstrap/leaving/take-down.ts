/** Takes away all that makes this machine a host of a cluster, and only that. */
import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { styleText } from 'node:util';
import { residentFile } from '@flynn/host-agent/cluster/etcd-resident';
import { removeNetwork } from '@flynn/host-agent/network/removal';
import { volumesFile } from '@flynn/host-agent/jobs/resident-volumes';
import { FlynnError } from '@flynn/kit/errors';
import { removeAgent } from '../agent/agent.ts';
import { forgetHost, leaveCluster, leaveMs } from './leaving.ts';
import { findPerson, removeCluster } from '../cli/config.ts';
import { secureControllerUrlOf } from '../domain/urls.ts';
import { engineAt, isEngineUp, stopStartedEngine } from '../machine/engine.ts';
import { withHostLock } from '../host-lock.ts';
import { readHostOptions } from '../host-options.ts';
import { commands } from '../origin.ts';
import { removeContainers, removeImages, removeNetworks, removeVolumes } from './removal.ts';
import { knownRootKeys } from '../rotation/rotation.ts';
import { listed } from '../machine/preflight.ts';
import { type Options, defaultName } from '../settings.ts';
import { readCluster, removeStateDir, strangersIn } from '../state.ts';
import { downHosts, isInsideHost } from '../test-hosts/cluster.ts';
import { type Report, timed } from '../steps/timed.ts';
import { refuseAnyUnclaimed } from '../machine/other-clusters.ts';

const say = (line: string): void => void process.stdout.write(`${line}\n`);
const progress = (line: string): void => say(styleText('dim', `  ${line}`));
const part = <T>(
  what: string,
  deadlineMs: number,
  task: (signal: AbortSignal, report: Report) => Promise<T>,
): Promise<T> => timed({ what, deadlineMs, report: progress }, task);
const removedLine = (what: string): void => say(`${styleText('green', '✔')} removed ${what}`);

export type TakeDown = Readonly<{
  env: Record<string, string | undefined>;
  keepImages: boolean;
  /** Also where it leaves other hosts behind that need this one, or takes with it what nobody else may have. */
  isForced: boolean;
}>;

export async function takeDown(request: TakeDown): Promise<void> {
  if (process.getuid?.() !== 0) throw new FlynnError('denied', 'this needs root: run it again with sudo');
  const options = await readHostOptions(request.env);
  await withHostLock(options.FLYNN_STATE_DIR, commands.down, () => takeDownLocked(options, request));
}

async function takeDownLocked(options: Options, { env, keepImages, isForced }: TakeDown): Promise<void> {
  const stateDir = options.FLYNN_STATE_DIR;
  const cluster = await readCluster(stateDir);
  const name = cluster?.name ?? options.FLYNN_CLUSTER ?? defaultName;
  let isAnythingRemoved = false;
  const tell = (what: string): void => {
    isAnythingRemoved = true;
    removedLine(what);
  };

  if (cluster === undefined) await refuseAnyUnclaimed(options, { name, command: commands.down }, { isForced });
  // A host of its own knows nothing of the others on the same machine.
  if (!(await isInsideHost())) {
    const person = await findPerson(options.FLYNN_CONFIG_DIR, env);
    for (const what of await part('taking away the hosts on this machine', 180_000, () => downHosts(person)))
      tell(what);
  }
  const goesOn =
    cluster !== undefined &&
    (await part('leaving the cluster', leaveMs, (_signal, report) =>
      leaveCluster({ stateDir, cluster, dockerSocket: options.FLYNN_DOCKER_SOCKET, isForced, report }),
    ));
  // Also where its state is lost: it would start again what is taken away.
  const agent = { stateDir, cluster: { name } };
  for (const what of await part('stopping the host agent', 90_000, () => removeAgent(agent))) tell(what);
  const range = cluster === undefined ? {} : { range: cluster.range };
  const network = await part("removing the cluster's network", 60_000, (signal) =>
    removeNetwork({ cluster: name, ...range, signal }),
  );
  for (const what of network) tell(what);
  if (await isEngineToEmpty(options, { isForced, report: say })) await emptyEngine(options, name, keepImages, tell);
  if (cluster !== undefined) {
    // Only now that nothing of it runs here, which the others may run instead.
    if (goesOn) {
      await part('telling the cluster', 60_000, (_signal, report) => forgetHost({ stateDir, cluster }, report));
    }
    const person = await findPerson(options.FLYNN_CONFIG_DIR, env);
    const wasAt = { controllerUrl: secureControllerUrlOf(cluster), ca: cluster.authority.certificate };
    const isGone = cluster.hasPlatform && !goesOn;
    if (await removeCluster(person, { name, keys: knownRootKeys(cluster), ...(isGone ? { wasAt } : {}) }))
      tell(`the cluster from ${person.configDir}`);
  }
  const engine = await part('stopping the container engine', 120_000, () => stopStartedEngine(stateDir));
  if (engine === 'stopped')
    say(`${styleText('green', '✔')} stopped the container engine, which was started for the cluster`);
  if (engine === 'killed')
    say(
      `${styleText('green', '✔')} killed the container engine, which was started for the cluster: it hung, and did not end when it was told to`,
    );
  if (engine === 'in use')
    say('The container engine was started for the cluster and stays: others have containers in it.');
  if (engine === 'silent')
    say(
      'The container engine was started for the cluster and stays: it does not say whether others have containers in it.',
    );
  const strangers = await strangersIn(stateDir);
  if (strangers.length > 0) {
    say(`${stateDir} stays: it is no state directory of a cluster, and has ${listed(strangers)} in it`);
  } else if (existsSync(stateDir)) {
    await removeStateDir(stateDir);
    tell(`${stateDir} with the cluster's keys`);
  }
  say(
    isAnythingRemoved
      ? `\n${goneText({ name, ...cluster }, goesOn)}`
      : `There is no cluster ${name} on this machine: nothing to remove.`,
  );
}

/** `goesOn`: whether others were told, and go on without this host, whichever of them keeps the platform. */
export function goneText({ name, hasPlatform }: { name: string; hasPlatform?: boolean }, goesOn: boolean): string {
  if (goesOn || hasPlatform === false) return `This machine is no host of the cluster ${name} any more.`;
  return `The cluster ${name} is gone.`;
}

/** By force a host goes whose engine is gone for good. `unavailable` for one that does not answer, and may have what is to go. */
export async function isEngineToEmpty(
  { FLYNN_DOCKER_SOCKET: socket, FLYNN_STATE_DIR: stateDir }: Pick<Options, 'FLYNN_DOCKER_SOCKET' | 'FLYNN_STATE_DIR'>,
  { isForced, report }: { isForced: boolean; report: (line: string) => void },
): Promise<boolean> {
  if (await isEngineUp(socket)) return true;
  if (!existsSync(stateDir)) return false;
  const what = `the container engine at ${socket} does not answer`;
  if (!isForced) {
    throw new FlynnError(
      'unavailable',
      `${what}, and the cluster's containers are in it: start it and run ${commands.down} again; or, where it is gone for good, ${commands.force}`,
    );
  }
  report(`${what}: what the cluster has in it (containers, volumes, images) stays there, or is gone with it.`);
  return false;
}

async function emptyEngine(
  options: Options,
  name: string,
  keepImages: boolean,
  tell: (what: string) => void,
): Promise<void> {
  const docker = engineAt(options.FLYNN_DOCKER_SOCKET);
  const tellCount = (count: number, kind: string): void => {
    if (count > 0) tell(`${count} ${count === 1 ? kind : `${kind}s`}`);
  };
  const remove = <T>(kind: string, deadlineMs: number, task: (signal: AbortSignal) => Promise<T>): Promise<T> =>
    part(`removing ${kind}s`, deadlineMs, task);
  tellCount(await remove('container', 120_000, (signal) => removeContainers(docker, name, { signal })), 'container');
  // Broken off after that, what `up` begins anew is not taken for lost.
  await rm(volumesFile(dirname(residentFile(options.FLYNN_STATE_DIR))), { force: true });
  tellCount(await remove('volume', 120_000, (signal) => removeVolumes(docker, name, { signal })), 'volume');
  tellCount(await remove('network', 60_000, (signal) => removeNetworks(docker, name, { signal })), 'network');
  const images = await remove('image', 240_000, (signal) =>
    removeImages(docker, name, { signal, keepOwn: keepImages }),
  );
  tellCount(images.count, 'image');
  if (images.kept.length > 0) say(`Images that other containers use stay: ${images.kept.join(' ')}`);
}
