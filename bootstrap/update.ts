/**
 * The whole cluster from one version to another: host by host, then the platform's apps one after the other, each once the
 * one before is well. What fails on the way has all of it go back, by the programs of the version before: those know what
 * they need. Either way each step looks first, so that the same command goes on where an earlier one was.
 */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { styleText } from 'node:util';
import { readKeeper } from '@flynn/host-agent/cluster/keeper';
import { platformImagesPut } from '@flynn/host-agent/cluster/platform-images';
import { readEncryption } from '@flynn/host-agent/network/encryption';
import { forgetRefresh } from '@flynn/host-agent/refresh-record';
import { goOnCommands } from '@flynn/host-agent/update-record';
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { leasesOf } from './admission.ts';
import { thisMachine } from './bring-up.ts';
import { digestOfFile } from './bundle/digest.ts';
import { type BundleSize, sizeOfBundle } from './bundle/size.ts';
import { findPerson } from './cli-config.ts';
import { withStore } from './controller.ts';
import { checkDoor } from './doors.ts';
import { checkKnown, features } from './features.ts';
import { tellEtcdImage } from './etcd.ts';
import {
  type BundleCopy,
  type Host,
  type Place,
  awayOf,
  hostsOf,
  moveHost,
  ownHost,
  roomOnHost,
  sickMembers,
  versionOfHost,
} from './host-move.ts';
import { type HostLock, withHostLock } from './host-lock.ts';
import { shortOf } from './room.ts';
import { commands, isInstalled, readBundle, root, versionOfThis } from './origin.ts';
import { checkRotated } from './rotation.ts';
import { runProgram } from './program.ts';
import { useThis, versionInUse } from './refresh.ts';
import { type Cluster, type Options, readOptions, settle } from './settings.ts';
import { readCluster } from './state.ts';
import { runSteps } from './step-list.ts';
import { imagesStep, platformImages } from './host-steps.ts';
import type { Step } from './step.ts';
import { stepsOf } from './steps.ts';
import { checkKept } from './take-over.ts';
import { asUpdate } from './unended-update.ts';
import type { Report } from './timed.ts';

type Env = Record<string, string | undefined>;

export type UpdateRequest = Readonly<{
  env: Env;
  /** What is to run; unless given that of the bundle, or of the program that is asked. */
  to?: string | undefined;
  /** For hosts that do not have that version yet. */
  bundle?: string | undefined;
  /** Whether what fails has the cluster go back. */
  mayReturn: boolean;
  /** Whether the others move though hosts are away. */
  leavesAway: boolean;
  /** Leaves things as they are: the same command goes on from there. */
  signal: AbortSignal;
}>;
type Locked = UpdateRequest & { lock: HostLock };

const installMs = 10 * 60_000;
const awayMs = 15_000;
/** A member that was away for a moment catches up. */
const storeMs = 120_000;

/** Whether the cluster is of the version now; what is wrong beforehand is thrown, and then nothing was changed. */
export async function updateCluster(request: UpdateRequest): Promise<boolean> {
  if (!isInstalled) {
    throw new FlynnError(
      'invalid',
      `this flynn is not installed from a bundle: ${commands.up} brings its host up to date`,
    );
  }
  const { FLYNN_STATE_DIR: stateDir } = readOptions(request.env);
  const place = { stateDir, cluster: checkPlace(await readCluster(stateDir)), log: silentLogger() };
  const what = request.to ?? (request.bundle === undefined ? versionOfThis() : basename(request.bundle));
  return await withHostLock(stateDir, `flynn-host update to ${what}`, (lock) =>
    updateLocked(place, { ...request, lock }),
  );
}

async function updateLocked(place: Place, request: Locked): Promise<boolean> {
  checkRotated(await readCluster(place.stateDir));
  try {
    await checkKeeping(place);
  } catch (error) {
    // Of a store that is away whoever moves the cluster tells.
    if (!hasCode(error, 'unavailable', 'timeout')) throw error;
  }
  const file = request.bundle === undefined ? undefined : resolve(request.bundle);
  const bundle = file === undefined ? undefined : await sizeOfBundle(file);
  await checkFeatures(place, bundle ?? readBundle(join(dirname(root), request.to ?? versionOfThis())));
  if (bundle !== undefined) await checkRoom(place, bundle);
  const version = file === undefined ? (request.to ?? versionOfThis()) : await install(file, request.signal);
  if (request.to !== undefined && request.to !== version) {
    throw new FlynnError('invalid', `the bundle is of version ${version}, and --to asks for ${request.to}`);
  }
  if (version !== versionOfThis()) return await delegate(version, { ...request, bundle: file });
  return await moveCluster(place, version, { ...request, bundle: file });
}

/** Whether this host is the one to move the cluster. Asked first: programs of a version before do not know of keepers. */
function checkKeeping(place: Place): Promise<void> {
  return withStore(place, async (store) => {
    const keeper = await readKeeper(store);
    if (keeper !== undefined) await checkKept(store, place, keeper);
    await checkDoor(store, place.cluster.hostId);
  });
}

/** That what is to run knows what the cluster stands on. Of a version that is not here whoever moves the cluster tells. */
async function checkFeatures(
  place: Place,
  next: Readonly<{ version: string; features: readonly string[] }> | undefined,
): Promise<void> {
  if (next === undefined || features.every((one) => next.features.includes(one))) return;
  const standing = await withStore(place, async (store) => ({
    encryption: await readEncryption(store, AbortSignal.timeout(storeMs)),
    behindNat: (await leasesOf(store)).flatMap(({ hostId, site }) => (site === undefined ? [] : [hostId])),
  }));
  checkKnown(next, standing);
}

/** Beside what is in use. Its version. */
async function install(file: string, signal: AbortSignal): Promise<string> {
  const args = [join(root, 'bootstrap/install'), '--bundle', file, '--prefix', dirname(root), '--keep-current'];
  const said = await runProgram('sh', args, { timeoutMs: installMs, signal });
  const version = /version (\S+) is ready/.exec(said)?.[1];
  if (version === undefined) throw new FlynnError('internal', `the installer said what nobody expected:\n${said}`);
  return version;
}

/** The version's own programs do it. */
async function delegate(
  version: string,
  { env, bundle, mayReturn, leavesAway, signal, lock }: Locked,
): Promise<boolean> {
  const program = join(dirname(root), version, 'bin/flynn-host');
  if (!existsSync(program)) {
    throw new FlynnError('not_found', `version ${version} is not installed here: give its bundle, with --bundle FILE`);
  }
  const args = [
    ...(env['FLYNN_STATE_DIR'] === undefined ? [] : ['--state-dir', env['FLYNN_STATE_DIR']]),
    'update',
    '--to',
    version,
    ...(bundle === undefined ? [] : ['--bundle', bundle]),
    ...(mayReturn ? [] : ['--stay']),
    ...(leavesAway ? ['--leave-away'] : []),
  ];
  return await new Promise<boolean>((fulfil, reject) => {
    const child = spawn(program, args, { stdio: ['inherit', 'inherit', 'inherit', lock.fd], env });
    // From a terminal it has heard of it by itself; twice is fine.
    const end = (): void => void child.kill('SIGTERM');
    if (signal.aborted) end();
    signal.addEventListener('abort', end, { once: true });
    child.once('error', reject);
    child.once('close', (code) => fulfil(code === 0));
  });
}

async function moveCluster(
  place: Place,
  version: string,
  { env, bundle: file, mayReturn, leavesAway, signal, lock }: Locked,
): Promise<boolean> {
  const options = readOptions(env);
  const inUse = await versionInUse();
  const previous = inUse === version ? undefined : inUse;
  const hosts = await withStore(place, hostsOf);
  await checkKeeping(place);
  await checkAway(place, { hosts, leavesAway });
  if (mayReturn) await checkMembers(place, hosts);
  const { known, silent } = await versionsOf(place, hosts);
  if (mayReturn && silent.length > 0) {
    throw new FlynnError('unavailable', `${silent.join(', ')}: flynn-host doctor tells more. Nothing was changed`);
  }
  process.stdout.write(`${[...known, ...silent].join(', ')}; all of them are to be ${version}\n`);
  const bundle = file === undefined ? undefined : { file, sha256: await digestOfFile(file) };
  const steps = await stepsOfUpdate({ options, place, env, version, previous, bundle });
  const outcome = await asUpdate(place.stateDir, { version, previous }, async () => {
    try {
      await runSteps(steps, signal);
      return 'moved';
    } catch (error) {
      process.stderr.write(`\n${styleText('red', '✖')} ${messageOf(error)}\n`);
      if (!mayReturn || previous === undefined || signal.aborted) {
        process.stderr.write(
          `\nThe cluster is partly of version ${version}: ${goOnCommands({ version, previous })}.\n`,
        );
        return 'partly';
      }
      process.stderr.write(`\nThe cluster goes back to version ${previous}.\n\n`);
      const back = { env, to: previous, mayReturn: false, leavesAway: true, signal, lock };
      if (!(await delegate(previous, back))) return 'partly';
      process.stderr.write(`\nThe cluster is of version ${previous}, as before.\n`);
      return 'back';
    }
  });
  if (outcome !== 'moved') return false;
  const back = previous === undefined ? '' : ` Back: flynn-host update --to ${previous}`;
  process.stdout.write(`\nThe cluster is of version ${version}.${back}\n`);
  return true;
}

/** On all hosts, before anything is installed on any. */
async function checkRoom(place: Place, bundle: BundleSize): Promise<void> {
  const short: string[] = [];
  for (const host of await withStore(place, hostsOf)) {
    const hasFile = host.id === place.cluster.hostId;
    try {
      const room = await roomOnHost(place, host);
      if (room !== undefined) short.push(...shortOf(room, bundle, { hasFile }).map((line) => `${host.id}: ${line}`));
    } catch (error) {
      // One that does not answer is looked at with the hosts that are away.
      if (!hasCode(error, 'unavailable', 'timeout')) throw error;
    }
  }
  if (short.length === 0) return;
  throw new FlynnError(
    'exhausted',
    `there is too little room for version ${bundle.version}:\n  ${short.join('\n  ')}\nNothing was changed. Make room, such as a version in ${dirname(root)} that is neither in use nor the one before, and run the same command again`,
  );
}

/** Hosts of the cluster that are not there; this one is brought back by its own steps. */
async function checkAway(
  place: Place,
  { hosts, leavesAway }: { hosts: readonly Host[]; leavesAway: boolean },
): Promise<void> {
  // One whose agent has just been replaced takes a moment.
  const others = async (): Promise<string[]> =>
    (await withStore(place, awayOf)).filter((id) => id !== place.cluster.hostId);
  const away = await untilNone(others);
  if (away.length === 0) return;
  const [are, them] = away.length === 1 ? [`${away[0]} is away`, 'it'] : [`${away.join(', ')} are away`, 'them'];
  if (leavesAway) {
    const there = hosts.map(({ id }) => id).join(', ');
    process.stdout.write(`${are}, and left there: only ${there} move. The same command again takes in who is back.\n`);
    return;
  }
  throw new FlynnError(
    'conflict',
    `${are}: bring ${them} back, or remove ${them} for good (flynn host remove), so that none is left behind, or go on without ${them} (--leave-away). Nothing was changed`,
  );
}

/** Each host's turn may take its member of the store from it for a moment: that has to be the only one. */
async function checkMembers(place: Place, hosts: readonly Host[]): Promise<void> {
  const sick = await sickMembers(place, hosts);
  if (sick.length === 0) return;
  throw new FlynnError(
    'unavailable',
    `the store does not answer on ${sick.join(', ')}: flynn-host doctor tells more. Nothing was changed`,
  );
}

function checkPlace(cluster: Cluster | undefined): Cluster {
  if (cluster === undefined) {
    throw new FlynnError('not_found', `this machine is no host of a cluster: ${commands.up} makes it one`);
  }
  if (cluster.hasPlatform) return cluster;
  throw new FlynnError(
    'conflict',
    `another host than ${cluster.hostId} keeps the platform, and updates the cluster: run it there (flynn-host status says which it is), or, where that is gone for good, or said to be this one, ${commands.takeOver} here first`,
  );
}

type UpdateContext = {
  options: Options;
  place: Place;
  env: Env;
  version: string;
  previous: string | undefined;
  bundle: BundleCopy | undefined;
};

async function stepsOfUpdate(context: UpdateContext): Promise<Step[]> {
  const { options, place, env, version, previous, bundle } = context;
  const cluster = settle(options, place.cluster, await thisMachine(place.cluster));
  const person = await findPerson(options.FLYNN_CONFIG_DIR, env);
  const { base, platform } = stepsOf({ options, cluster, person, env, isUpdate: true });
  const others = (await withStore(place, hostsOf)).filter(({ id }) => id !== cluster.hostId);
  return [
    imagesStep(options, () => {}),
    { title: 'Image of the store told to the hosts', run: () => tellStoreImage(place) },
    ...others.map((host) => ({
      title: `Host ${host.id}`,
      run: async (report: Report) => {
        await untilStoreServes(place, host.id, report);
        return await moveHost(place, host, { version, bundle, report });
      },
    })),
    { title: 'The store on the other hosts', run: (report) => untilStoreServes(place, cluster.hostId, report) },
    // This one by the steps that made it; what its agent is asked then is whether all is well.
    ...base,
    {
      title: `Host ${cluster.hostId}`,
      run: async (report) => {
        // What was begun here when another host moved the cluster is of before; it would be begun again, beside this command.
        await forgetRefresh(place.stateDir);
        return await moveHost(place, await ownHost(place), { version, bundle, report });
      },
    },
    { title: 'Images told to the hosts', run: () => tellImages(place, previous) },
    ...platform,
    { title: `Version ${version} in use`, run: useThis },
  ];
}

/** All members but that of the host whose turn it is: without it they are still a majority. */
async function untilStoreServes(place: Place, without: string, report: Report): Promise<void> {
  report('looking at the store');
  await waitFor(
    async () => {
      const others = (await withStore(place, hostsOf)).filter(({ id }) => id !== without);
      const sick = await sickMembers(place, others);
      if (sick.length > 0) throw new FlynnError('unavailable', `it does not on ${sick.join(', ')}`);
      return true;
    },
    { what: 'the store to answer on all other hosts', deadlineMs: storeMs, intervalMs: 1_000 },
  );
}

/** What hosts become members with, or are brought up to date to. */
async function tellStoreImage(place: Place): Promise<void> {
  const image = readBundle()?.images['etcd'];
  if (image !== undefined) await withStore(place, (store) => tellEtcdImage(store, image));
}

/**
 * Which images hosts keep: those of both versions until the end. Told once they have them, so that none fetches them from
 * another.
 */
async function tellImages(place: Place, previous: string | undefined): Promise<void> {
  const bundles = [readBundle(), previous === undefined ? undefined : readBundle(join(dirname(root), previous))];
  const names = bundles.flatMap((bundle) =>
    bundle === undefined ? [] : platformImages(Object.entries(bundle.images)),
  );
  await withStore(place, (store) => store.transact({ then: [platformImagesPut([...new Set(names)])] }));
}

/** As people read it: of which version each is, and who does not say so. */
async function versionsOf(place: Place, hosts: readonly Host[]): Promise<{ known: string[]; silent: string[] }> {
  const [known, silent]: [string[], string[]] = [[], []];
  for (const host of hosts) {
    try {
      known.push(`${host.id} ${await versionOfHost(place, host)}`);
    } catch (error) {
      // Of this one it is told by the step that starts its agent.
      if (host.id !== place.cluster.hostId) silent.push(`${host.id} does not answer (${messageOf(error)})`);
    }
  }
  return { known, silent };
}

/** What is on the list once it is empty, or has not become so for a while. */
async function untilNone(list: () => Promise<string[]>): Promise<string[]> {
  let last: string[] | undefined;
  try {
    await waitFor(
      async () => {
        last = await list();
        return last.length === 0;
      },
      { what: 'all hosts to be there', deadlineMs: awayMs, intervalMs: 500 },
    );
  } catch (error) {
    if (!hasCode(error, 'timeout') || last === undefined) throw error;
  }
  return last ?? [];
}
