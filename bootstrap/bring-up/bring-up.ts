/** This machine as a cluster, or as a host of one. Done again: brings it up to date. */
import { hostname } from 'node:os';
import { readEncryption } from '@flynn/host-agent/network/encryption';
import { forgetUpdate } from '@flynn/host-agent/update/record';
import { silentLogger } from '@flynn/kit/log';
import { newSecret } from '@flynn/kit/secrets';
import { createAuthority } from '@flynn/kit/tls';
import { findPerson } from '../cli/config.ts';
import { type DomainChange, withDomain } from '../domain/domain.ts';
import { readHostOptions } from '../host-options.ts';
import { joinCluster, makeToken, rejoinCluster, standingOf } from '../joining/admission.ts';
import { type Formation, joinText, judgeFormation, membersStep, missingOf } from '../joining/formation.ts';
import { askedOf, refuseOtherMachine } from '../joining/other-machine.ts';
import { askingAs, whereaboutsText, withWhereabouts } from '../joining/whereabouts.ts';
import { othersOfAnotherVersion, takeOver, takenOverText } from '../keeper/take-over.ts';
import { readUpgradeText } from '../machine/engine-modes.ts';
import { untilBooted } from '../machine/readiness.ts';
import { thisMachine } from '../machine/this-machine.ts';
import { lookAtWireguard } from '../machine/tools.ts';
import { commands, versionOfThis } from '../origin.ts';
import { withStore } from '../platform/controller.ts';
import { type Unwell, unwellText } from '../restore/apps.ts';
import {
  type Backup,
  checkRestore,
  encryptionText,
  openBackup,
  restoredText,
  takeKeys,
  withBackup,
} from '../restore/from-backup.ts';
import { placesOf, restoredAppsStep, unrestoredText } from '../restore/steps.ts';
import { unmetText } from '../restore/unmet-limits.ts';
import { type Rotation, beginning, withNextRootKey, withNextRound } from '../rotation/rotation.ts';
import { withNextSealingKey } from '../rotation/sealing-key-round.ts';
import { type Cluster, type Options, keptText, refuseContradictions, settle, withKept } from '../settings.ts';
import { readCluster } from '../state.ts';
import { joinStepsOf } from '../steps/host.ts';
import { runSteps } from '../steps/list.ts';
import type { Context } from '../steps/step.ts';
import { stepsOf } from '../steps/steps.ts';
import { checkOwnVersion } from '../update/own-version.ts';
import { checkUpdated } from '../update/unended.ts';
import { joinedFarewell, sayFarewell } from './farewell.ts';
import { lockedIfRoot } from './locked.ts';
import { isReady } from './ready.ts';
import { checkDomain, checkRotation, checkSite, checkTakeOver } from './refusals.ts';

/** A store that answers at all does so within less. */
const askMs = 30_000;

export type BringUp = Readonly<{
  env: Record<string, string | undefined>;
  /** What lets this machine into the cluster of another. */
  token?: string | undefined;
  /** The private network behind NAT that this machine is in, where the cluster's hosts do not reach into. */
  site?: string | undefined;
  fromBackup?: string | undefined;
  passphraseFile?: string | undefined;
  /** What is made anew. */
  rotation?: Rotation | undefined;
  /** Where apps are to be, or no more. */
  domain?: DomainChange | undefined;
  /** Whether this host is to do from now on what the one that made the cluster did. */
  takesOver?: boolean | undefined;
  /** The hosts that the cluster is to have before anything runs on it. */
  formation?: Formation;
}>;

/** Whatever step failed. */
export const goOnText = `What is done so far stays; run the same command again to go on, or ${commands.down} to take it away.`;

/** What stands in the way of it is told, and false the answer; what fails on the way is thrown. */
export async function bringUp(request: BringUp): Promise<boolean> {
  const given = await readHostOptions(request.env);
  const doing = request.token === undefined ? commands.up : commands.join;
  return await lockedIfRoot(given, doing, () => bringUpLocked(given, request));
}

async function bringUpLocked(given: Options, request: BringUp): Promise<boolean> {
  const begun = await begin(given, request);
  const joined = begun === undefined ? undefined : await asHost(begun, request);
  if (begun === undefined || joined === undefined) return false;
  const { options, backup } = begun;
  let cluster = joined;
  if (request.takesOver === true) {
    const taken = await takeOverHere(options, cluster);
    if (taken.isForUpdate) return true;
    cluster = taken.cluster;
  }
  if (backup !== undefined) cluster = await takeKeys(options.FLYNN_STATE_DIR, cluster, backup);
  const context = await contextOf(withChanges(cluster, request), begun, request);
  await carryOut(context, request.formation);
  if (backup !== undefined) await sayRestored(context, backup);
  else if (context.cluster.hasPlatform) await sayFarewell(context);
  else process.stdout.write(joinedFarewell(context.cluster));
  return true;
}

/** What is known of this machine, and that nothing is in the way of what is asked for. Nothing was changed yet. */
type Begun = Readonly<{
  options: Options;
  cluster: Cluster;
  standing: Awaited<ReturnType<typeof standingOf>>;
  backup: Backup | undefined;
}>;

async function begin(given: Options, request: BringUp): Promise<Begun | undefined> {
  const { env, token, site, formation, fromBackup, passphraseFile } = request;
  const backup = fromBackup === undefined ? undefined : await openBackup(fromBackup, { env, passphraseFile });
  // Before anything is settled: an address that this machine does not have yet would be missing in it for good.
  await untilBooted(given, report);
  const stateDir = given.FLYNN_STATE_DIR;
  const stored = await readCluster(stateDir);
  const options = backup === undefined ? given : withBackup(given, backup.inspection, stored);
  const standing = token === undefined ? 'known' : await standingOf(token, stored);
  if (site !== undefined) checkSite(site, stored);
  if (request.rotation !== undefined) checkRotation(request.rotation, stored);
  if (request.domain !== undefined) checkDomain(request.domain, stored);
  if (request.takesOver === true) checkTakeOver(stored);
  await checkRestore(stateDir, stored, backup);
  const settled = settle(options, stored, await thisMachine(stored));
  const isJoining = standing === 'new';
  const cluster = isJoining && site !== undefined ? { ...settled, site } : settled;
  const problems = formation === undefined ? [] : judgeFormation(formation, cluster);
  const isToBegin = await mayBegin({
    isReady: () =>
      isReady(options, cluster, { scope: isJoining ? 'joining' : 'host', problems, inspection: backup?.inspection }),
    async refuseOther() {
      if (stored !== undefined) await refuseOtherMachine(stateDir, stored, askedOf(stateDir, stored, report));
    },
    async checkUpdated() {
      await checkUpdated(options, stored);
      if (request.takesOver !== true) await checkOwnVersion(stateDir, stored);
    },
  });
  return isToBegin ? { options, cluster, standing, backup } : undefined;
}

function report(line: string): void {
  process.stderr.write(`${line}\n`);
}

/**
 * False where the machine is not ready; what else stands in the way is thrown. `refuseOther` takes the word of who runs the
 * command that this machine is the host: not where the machine is not ready, but before an update that was cut refuses the rest.
 * `checkUpdated` starts what is there of the host, ready or not.
 */
export async function mayBegin(steps: {
  isReady: () => Promise<boolean>;
  refuseOther: () => Promise<void>;
  checkUpdated: () => Promise<void>;
}): Promise<boolean> {
  const isReadyNow = await steps.isReady();
  if (isReadyNow) await steps.refuseOther();
  await steps.checkUpdated();
  return isReadyNow;
}

/** Of the cluster that the token is of, if there is one. Undefined where the machine is not ready for what that gave it. */
async function asHost({ options, cluster, standing }: Begun, { token, site }: BringUp): Promise<Cluster | undefined> {
  if (token === undefined) return cluster;
  if (standing === 'left') return await rejoinCluster(token, cluster, { withoutWireguard: await lookAtWireguard() });
  if (standing === 'known') {
    const found = await withWhereabouts(token, cluster, askingAs(options.FLYNN_STATE_DIR, cluster));
    process.stdout.write(whereaboutsText(found.failures));
    return found.cluster;
  }
  return await join(token, { options, cluster, site });
}

type Joining = Readonly<{ options: Options; cluster: Cluster; site: string | undefined }>;

async function join(token: string, { options, cluster: { hostId }, site }: Joining): Promise<Cluster | undefined> {
  const name = hostname();
  if (options.FLYNN_HOST_ID === undefined && hostId !== name)
    report(`This machine, ${name}, is to be host ${hostId}; FLYNN_HOST_ID gives it another name.`);
  const joining = {
    hostId,
    release: versionOfThis(),
    withoutWireguard: await lookAtWireguard(),
    ...(options.FLYNN_ADDRESS === undefined ? {} : { address: options.FLYNN_ADDRESS }),
    ...(site === undefined ? {} : { site }),
  };
  const cluster = withKept(await joinCluster(token, joining), options);
  refuseContradictions(options, cluster);
  // Where its containers are to be, and which ports are the router's, it knows only now.
  return (await isReady(options, cluster, { scope: 'host', hasJoined: true })) ? cluster : undefined;
}

async function takeOverHere(options: Options, known: Cluster): Promise<{ cluster: Cluster; isForUpdate: boolean }> {
  const place = { stateDir: options.FLYNN_STATE_DIR, cluster: known, log: silentLogger() };
  const differing = await othersOfAnotherVersion(place);
  const cluster = await takeOver(place, () => createAuthority('flynn'));
  // Of a time when it kept the platform before.
  await forgetUpdate(options.FLYNN_STATE_DIR);
  process.stdout.write(takenOverText(cluster, differing));
  // What this version's programs would do to the platform is an update's to do, in its order.
  return { cluster, isForUpdate: differing.length > 0 };
}

/** What the steps are to make of it. */
function withChanges(cluster: Cluster, { rotation, domain }: BringUp): Cluster {
  const moved = domain !== undefined && 'to' in domain ? withDomain(cluster, domain.to) : cluster;
  if (rotation === 'tokens') return withNextRound(moved);
  if (rotation === 'root key') return withNextRootKey(moved, newSecret(), beginning());
  if (rotation === 'sealing key') return withNextSealingKey(moved, newSecret(), beginning());
  return moved;
}

async function contextOf(
  cluster: Cluster,
  { options, backup }: Begun,
  { env, domain, rotation }: BringUp,
): Promise<Context> {
  return {
    options,
    cluster,
    env,
    person: await findPerson(options.FLYNN_CONFIG_DIR, env),
    dropDomain: domain !== undefined && 'drop' in domain ? domain.drop : undefined,
    nextAuthority: rotation === 'authority' ? await createAuthority('flynn') : undefined,
    ...(backup === undefined ? {} : { backup }),
  };
}

async function carryOut(context: Context, formation: Formation | undefined): Promise<void> {
  const { options, cluster } = context;
  for (const line of keptText(cluster, options)) process.stdout.write(`${line}\n`);
  if (cluster.hasPlatform) await formCluster(context, formation);
  else await runSteps(joinStepsOf(context));
  process.stdout.write(await readUpgradeText(options.FLYNN_DOCKER_SOCKET));
}

/**
 * With other hosts, those come in as soon as there is something to join, so that the platform is spread over all from its
 * beginning.
 */
async function formCluster(context: Context, formation: Formation | undefined): Promise<void> {
  const { base, platform } = stepsOf(context);
  if (formation === undefined || formation.minHosts === 1) return await runSteps([...base, ...platform]);
  await runSteps(base);
  const { options, cluster } = context;
  const host = { stateDir: options.FLYNN_STATE_DIR, cluster, log: silentLogger() };
  await withStore(host, async (store) => {
    const missing = await missingOf(store, formation);
    if (missing.length > 0) process.stdout.write(joinText(await makeToken(store, cluster), missing));
  });
  await runSteps([membersStep(host, formation), ...platform]);
}

async function sayRestored({ options, cluster }: Context, backup: Backup): Promise<void> {
  let unwell: readonly Unwell[] = [];
  const host = { stateDir: options.FLYNN_STATE_DIR, cluster, log: silentLogger() };
  await runSteps([restoredAppsStep(host, (found) => (unwell = found))]);
  process.stdout.write(restoredText(cluster, backup));
  const word = await withStore(host, (store) => readEncryption(store, AbortSignal.timeout(askMs)));
  process.stdout.write(encryptionText(backup, { word, withoutWireguard: await lookAtWireguard() }));
  const places = await withStore(host, (store) => placesOf(store, cluster.hostId));
  process.stdout.write(unmetText(backup.inspection.platform, places));
  process.stdout.write(unwellText(unwell));
  process.stdout.write(await unrestoredText(host));
}
