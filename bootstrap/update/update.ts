/**
 * The whole cluster from one version to another: host by host, then the platform's apps one after the other, each once the
 * one before is well. What fails on the way has all of it go back, by the programs of the version before: those know what
 * they need. Either way each step looks first, so that the same command goes on where an earlier one was.
 */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { styleText } from 'node:util';
import { type LastUpdate, lastUpdatePut } from '@flynn/host-agent/cluster/last-update';
import { goOnCommands, readUpdate } from '@flynn/host-agent/update/record';
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { setupOf } from '../agent/agent.ts';
import { digestOfFile } from '../bundle/digest.ts';
import { sizeOfBundle } from '../bundle/size.ts';
import { withController } from '../platform/controller-client.ts';
import { withStore } from '../platform/controller.ts';
import { type BundleCopy, type Place, hostsOf } from './host-move.ts';
import { type HostLock, withHostLock } from '../host-lock.ts';
import { readHostOptions } from '../host-options.ts';
import { type LeftCounts, leftCountsPut } from '../platform/left-counts.ts';
import { dashboardApp } from '../platform/manifest.ts';
import { commands, digestsFile, isInstalled, readBundle, root, versionOfThis } from '../origin.ts';
import { checkRotated } from '../rotation/rotation.ts';
import { runProgram } from '../machine/program.ts';
import { versionInUse } from './refresh.ts';
import { readOptions, forUpdate } from '../settings.ts';
import { readCluster } from '../state.ts';
import { asUpdate, beginReturn, isNews, otherVersion } from './unended.ts';
import { runSteps } from '../steps/list.ts';
import {
  checkAway,
  checkFeatures,
  checkKeeping,
  checkMembers,
  checkPlace,
  checkRoom,
  checkWays,
  versionsOf,
} from './checks.ts';
import { removeUnknownParts } from '../platform/unknown-parts.ts';
import { stepsOfUpdate } from './steps.ts';
import { checkVoters } from './voters.ts';

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
  if (version !== versionOfThis()) {
    // As the version's own programs do next: what they would refuse is to be refused while nothing is gone.
    await leaveBehind(place, version, async () => void (await checkMovable(place, version, request)));
    return await delegate(place, version, { ...request, bundle: file });
  }
  return await moveCluster(place, version, { ...request, bundle: file });
}

/** Beside what is in use. Its version. */
async function install(file: string, signal: AbortSignal): Promise<string> {
  const args = [join(root, 'bootstrap/install'), '--bundle', file, '--prefix', dirname(root), '--keep-current'];
  const said = await runProgram('sh', args, { timeoutMs: installMs, signal });
  const version = /version (\S+) is ready/.exec(said)?.[1];
  if (version === undefined) throw new FlynnError('internal', `the installer said what nobody expected:\n${said}`);
  return version;
}

/**
 * What the version's own programs would not know to be theirs. What cannot be taken away now is no reason to stay; what `check`
 * throws is.
 */
async function leaveBehind(place: Place, version: string, check?: () => Promise<void>): Promise<void> {
  const known = readBundle(join(dirname(root), version))?.images;
  if (known === undefined) return;
  let refusal: { why: unknown } | undefined;
  const checked = async (): Promise<void> => {
    try {
      await check?.();
    } catch (why) {
      refusal = { why };
      throw why;
    }
  };
  const tell = (line: string): void => void process.stdout.write(`${line}\n`);
  try {
    const { cluster } = place;
    const keep = async (counts: LeftCounts): Promise<void> => {
      await withStore(place, (store) => store.transact({ then: [leftCountsPut(counts)] }));
    };
    const removal = { cluster, known, check: checked, keep, tell };
    await withController(place, (client) => removeUnknownParts(client, removal));
  } catch (error) {
    if (refusal !== undefined) throw refusal.why;
    // Controllers of that version let no part of the platform be deleted.
    tell(
      `What version ${version} does not know could not be taken away: ${messageOf(error)}. There "flynn -a ${dashboardApp} scale web=0" stops it; a version that has a web page takes it over again.`,
    );
  }
}

/** The version's own programs do it. Those of before are told what they do not read themselves of how this host is set up. */
async function delegate(
  { cluster }: Place,
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
  const options = forUpdate(await readHostOptions(env));
  const ownEnv = {
    ...env,
    FLYNN_DOCKER_SOCKET: options.FLYNN_DOCKER_SOCKET,
    FLYNN_SUPERVISOR: setupOf(options, cluster).supervisor === 'own' ? 'own' : undefined,
    FLYNN_NETWORK_BACKEND: undefined,
    FLYNN_CLOUD_METADATA: undefined,
  };
  return await new Promise<boolean>((fulfil, reject) => {
    const child = spawn(program, args, { stdio: ['inherit', 'inherit', 'inherit', lock.fd], env: ownEnv });
    // From a terminal it has heard of it by itself; twice is fine.
    const end = (): void => void child.kill('SIGTERM');
    if (signal.aborted) end();
    signal.addEventListener('abort', end, { once: true });
    child.once('error', reject);
    child.once('close', (code) => fulfil(code === 0));
  });
}

/** Throws, while nothing was changed, unless the cluster can be moved. Of which versions its hosts are, and who does not move. */
async function checkMovable(
  place: Place,
  version: string,
  { bundle, mayReturn, leavesAway }: Pick<UpdateRequest, 'bundle' | 'mayReturn' | 'leavesAway'>,
): Promise<{ known: string[]; silent: string[]; staying: readonly string[] }> {
  const hosts = await withStore(place, hostsOf);
  await checkKeeping(place);
  await checkAway(place, { hosts, leavesAway });
  if (mayReturn) {
    await checkMembers(place, hosts);
    await checkVoters(place, version);
  }
  const versions = await versionsOf(place, hosts);
  if (mayReturn && versions.silent.length > 0) {
    const silent = versions.silent.join(', ');
    throw new FlynnError('unavailable', `${silent}: flynn-host doctor tells more. Nothing was changed`);
  }
  const inUse = await versionInUse();
  const staying = await checkWays(place, hosts, {
    ...(bundle === undefined ? { to: version } : {}),
    ...(mayReturn && inUse !== version ? { back: inUse } : {}),
    leavesAway,
  });
  return { ...versions, staying };
}

async function moveCluster(
  place: Place,
  version: string,
  { env, bundle: file, mayReturn, leavesAway, signal, lock }: Locked,
): Promise<boolean> {
  const options = forUpdate(await readHostOptions(env));
  const inUse = await versionInUse();
  const previous = inUse === version ? undefined : inUse;
  const { known, silent, staying } = await checkMovable(place, version, { bundle: file, mayReturn, leavesAway });
  const but = staying.length === 0 ? '' : `, but for ${staying.join(', ')}`;
  process.stdout.write(`${[...known, ...silent].join(', ')}; all of them are to be ${version}${but}\n`);
  const bundle = file === undefined ? undefined : await copyOf(file);
  const left = await readUpdate(place.stateDir);
  const other = otherVersion({ version, previous }, left);
  const steps = await stepsOfUpdate({ options, place, env, version, other, bundle, staying });
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
      await leaveBehind(place, previous);
      await beginReturn(place.stateDir);
      const back = { env, to: previous, mayReturn: false, leavesAway: true, signal, lock };
      if (!(await delegate(place, previous, back))) return 'partly';
      process.stderr.write(`\nThe cluster went back to version ${previous}.\n`);
      return 'back';
    }
  });
  if (isNews(outcome, { isMove: previous !== undefined, left }))
    await tellOutcome(place, { version, ...(previous === undefined ? {} : { previous }), outcome });
  if (outcome !== 'moved') return false;
  const back = previous === undefined ? '' : ` Back: flynn-host update --to ${previous}`;
  const more = but === '' ? '' : `${but}: flynn-host update --to ${version} --bundle FILE has them become so, too`;
  process.stdout.write(`\nThe cluster is of version ${version}${more}.${back}\n`);
  return true;
}

/** The file, and the version's list of files as this host has it: what was installed from it is compared with that. */
async function copyOf(file: string): Promise<BundleCopy> {
  const [sha256, listDigest, { size }] = await Promise.all([
    digestOfFile(file),
    digestOfFile(join(root, digestsFile)),
    stat(file),
  ]);
  return { file, sha256, bytes: size, listDigest };
}

/** For whoever is notified of updates. That it cannot be written changes nothing of how the update ended. */
async function tellOutcome(place: Place, ended: Omit<LastUpdate, 'at'>): Promise<void> {
  try {
    const put = lastUpdatePut({ ...ended, at: new Date().toISOString() });
    await withStore(place, (store) => store.transact({ then: [put] }));
  } catch (error) {
    process.stderr.write(`nobody is notified of how the update ended: ${messageOf(error)}\n`);
  }
}
