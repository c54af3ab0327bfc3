/** This machine as a cluster, or as a host of one. Done again: brings it up to date. */
import { hostname } from 'node:os';
import { styleText } from 'node:util';
import { type Cluster as KnownCluster, loadClusters } from '@flynn/cli/clusters/clusters';
import { readEncryption } from '@flynn/host-agent/network/encryption';
import { siteSchema } from '@flynn/host-agent/network/lease';
import { primaryAddress } from '@flynn/host-agent/hosts/own-addresses';
import { forgetUpdate } from '@flynn/host-agent/update/record';
import { FlynnError } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { newSecret } from '@flynn/kit/secrets';
import { createAuthority } from '@flynn/kit/tls';
import { addLine, fingerprintText } from './cli/add-line.ts';
import { joinCluster, makeToken, rejoinCluster, standingOf } from './joining/admission.ts';
import { findPerson } from './cli/config.ts';
import { doorAddresses } from './platform/doors.ts';
import { type DomainChange, checkDrop, formerDomainsOf, withDomain } from './domain/domain.ts';
import { domainText, recordsText } from './domain/text.ts';
import { withStore } from './platform/controller.ts';
import { readFacts } from './machine/facts.ts';
import { type Formation, joinText, judgeFormation, membersStep, missingOf } from './joining/formation.ts';
import { restoredAppsStep, unrestoredText } from './restore/steps.ts';
import { type Unwell, unwellText } from './restore/apps.ts';
import { checkRestore, encryptionText, openBackup, restoredText, takeKeys, withBackup } from './restore/from-backup.ts';
import { withHostLock } from './host-lock.ts';
import { readHostOptions } from './host-options.ts';
import { commands, isInstalled, versionOfThis } from './origin.ts';
import { askedOf, refuseOtherMachine } from './joining/other-machine.ts';
import { type Problem, type Scope, judge } from './machine/preflight.ts';
import { rangeWarnings } from './machine/range-use.ts';
import { untilBooted } from './machine/readiness.ts';
import { type Rotation, beginning, rootKeyNews, told, withNextRootKey, withNextRound } from './rotation/rotation.ts';
import { readUpgradeText } from './machine/engine-modes.ts';
import { sampleName } from './platform/sample-app.ts';
import { withNextSealingKey } from './rotation/sealing-key-round.ts';
import {
  type Cluster,
  type Machine,
  type Options,
  keptText,
  readOptions,
  refuseContradictions,
  settle,
  withKept,
} from './settings.ts';
import { appUrlOf } from './domain/urls.ts';
import { readCluster } from './state.ts';
import { runSteps } from './steps/list.ts';
import { joinStepsOf, leasedText, writeHostFiles } from './steps/host.ts';
import type { Context } from './steps/step.ts';
import { stepsOf } from './steps/steps.ts';
import { othersOfAnotherVersion, takeOver, takenOverText } from './keeper/take-over.ts';
import { checkOwnVersion } from './update/own-version.ts';
import { checkUpdated } from './update/unended.ts';
import { askingAs, whereaboutsText, withWhereabouts } from './joining/whereabouts.ts';
import { lookAtWireguard } from './machine/tools.ts';
import { isInsideHost, readHostsCluster, stepsOfHosts } from './test-hosts/cluster.ts';

/** A store that answers at all does so within less. */
const askMs = 30_000;

type Env = Record<string, string | undefined>;

export type BringUp = Readonly<{
  env: Env;
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

/** Who may not lock anything may not change anything either, and is told so with all else that is in the way. */
async function lockedIfRoot<T>(options: Options, doing: string, task: () => Promise<T>): Promise<T> {
  return process.getuid?.() === 0 ? await withHostLock(options.FLYNN_STATE_DIR, doing, task) : await task();
}

async function bringUpLocked(given: Options, { env, token, site, formation, ...request }: BringUp): Promise<boolean> {
  const path = request.fromBackup;
  const backup =
    path === undefined ? undefined : await openBackup(path, { env, passphraseFile: request.passphraseFile });
  const options = backup === undefined ? given : withBackup(given, backup.inspection);
  // Before anything is settled: an address that this machine does not have yet would be missing in it for good.
  await untilBooted(options, (line) => process.stderr.write(`${line}\n`));
  const stored = await readCluster(options.FLYNN_STATE_DIR);
  const standing = token === undefined ? 'known' : await standingOf(token, stored);
  if (site !== undefined) checkSite(site, stored);
  if (request.rotation !== undefined) checkRotation(request.rotation, stored);
  if (request.domain !== undefined) checkDomain(request.domain, stored);
  if (request.takesOver === true && stored === undefined) {
    throw new FlynnError('not_found', 'there is no cluster here yet: a host of one takes over. Nothing was changed');
  }
  await checkRestore(options.FLYNN_STATE_DIR, stored, backup);
  let cluster = settle(options, stored, await thisMachine(stored));
  const isJoining = standing === 'new';
  if (isJoining && site !== undefined) cluster = { ...cluster, site };
  const problems = formation === undefined ? [] : judgeFormation(formation, cluster);
  const report = (line: string): void => void process.stderr.write(`${line}\n`);
  const isToBegin = await mayBegin({
    isReady: () => isReady(options, cluster, { scope: isJoining ? 'joining' : 'host', problems }),
    async refuseOther() {
      if (stored === undefined) return;
      await refuseOtherMachine(options.FLYNN_STATE_DIR, stored, askedOf(options.FLYNN_STATE_DIR, stored, report));
    },
    async checkUpdated() {
      await checkUpdated(options, stored);
      if (request.takesOver !== true) await checkOwnVersion(options.FLYNN_STATE_DIR, stored);
    },
  });
  if (!isToBegin) return false;
  if (isJoining) {
    const { hostId } = cluster;
    const name = hostname();
    if (options.FLYNN_HOST_ID === undefined && hostId !== name)
      report(`This machine, ${name}, is to be host ${hostId}; FLYNN_HOST_ID gives it another name.`);
    const address = options.FLYNN_ADDRESS === undefined ? {} : { address: options.FLYNN_ADDRESS };
    const joining = {
      hostId,
      release: versionOfThis(),
      withoutWireguard: await lookAtWireguard(),
      ...address,
      ...(site === undefined ? {} : { site }),
    };
    cluster = withKept(await joinCluster(token ?? '', joining), options);
    refuseContradictions(options, cluster);
    // Where its containers are to be, and which ports are the router's, it knows only now.
    if (!(await isReady(options, cluster, { scope: 'host', hasJoined: true }))) return false;
  }
  if (standing === 'known' && token !== undefined) {
    const found = await withWhereabouts(token, cluster, askingAs(options.FLYNN_STATE_DIR, cluster));
    cluster = found.cluster;
    process.stdout.write(whereaboutsText(found.failures));
  }
  if (standing === 'left') {
    cluster = await rejoinCluster(token ?? '', cluster, { withoutWireguard: await lookAtWireguard() });
  }
  if (request.takesOver === true) {
    const place = { stateDir: options.FLYNN_STATE_DIR, cluster, log: silentLogger() };
    const differing = await othersOfAnotherVersion(place);
    cluster = await takeOver(place, () => createAuthority('flynn'));
    // Of a time when it kept the platform before.
    await forgetUpdate(options.FLYNN_STATE_DIR);
    process.stdout.write(takenOverText(cluster, differing));
    // What this version's programs would do to the platform is an update's to do, in its order.
    if (differing.length > 0) return true;
  }
  if (backup !== undefined) cluster = await takeKeys(options.FLYNN_STATE_DIR, cluster, backup);
  if (request.rotation === 'tokens') cluster = withNextRound(cluster);
  if (request.rotation === 'root key') cluster = withNextRootKey(cluster, newSecret(), beginning());
  if (request.rotation === 'sealing key') cluster = withNextSealingKey(cluster, newSecret(), beginning());
  if (request.domain !== undefined && 'to' in request.domain) cluster = withDomain(cluster, request.domain.to);
  const dropDomain = request.domain !== undefined && 'drop' in request.domain ? request.domain.drop : undefined;
  const nextAuthority = request.rotation === 'authority' ? await createAuthority('flynn') : undefined;
  const person = await findPerson(options.FLYNN_CONFIG_DIR, env);
  const context = {
    options,
    cluster,
    person,
    env,
    dropDomain,
    nextAuthority,
    ...(backup === undefined ? {} : { backup }),
  };
  for (const line of keptText(cluster, options)) process.stdout.write(`${line}\n`);
  if (cluster.hasPlatform) await formCluster(context, formation);
  else await runSteps(joinStepsOf(context));
  process.stdout.write(await readUpgradeText(options.FLYNN_DOCKER_SOCKET));
  if (backup !== undefined) {
    let unwell: readonly Unwell[] = [];
    const host = { stateDir: options.FLYNN_STATE_DIR, cluster, log: silentLogger() };
    await runSteps([restoredAppsStep(host, (found) => (unwell = found))]);
    process.stdout.write(restoredText(cluster, backup));
    const word = await withStore(host, (store) => readEncryption(store, AbortSignal.timeout(askMs)));
    process.stdout.write(encryptionText(backup, { word, withoutWireguard: await lookAtWireguard() }));
    process.stdout.write(unwellText(unwell));
    process.stdout.write(await unrestoredText(host));
    return true;
  }
  if (cluster.hasPlatform) await sayFarewell(context);
  else process.stdout.write(joinedFarewell(cluster));
  return true;
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

/** A change of the root key ends with it: whoever is cut off before is told the new one by the next `up`. */
async function sayFarewell({ options, cluster: begun, person }: Context): Promise<void> {
  const stateDir = options.FLYNN_STATE_DIR;
  // As the steps left it.
  const cluster = (await readCluster(stateDir)) ?? begun;
  const news = rootKeyNews(cluster);
  const { clusters } = await loadClusters(person.configDir);
  process.stdout.write(farewell(cluster, news, clusters));
  const isMoved = formerDomainsOf(cluster).length > 0;
  if (isMoved || news === 'first') {
    const addresses = await withStore({ stateDir, cluster, log: silentLogger() }, doorAddresses);
    process.stdout.write(isMoved ? domainText(cluster, addresses, clusters) : recordsText(cluster, addresses));
  }
  if (news !== 'known') await writeHostFiles(stateDir, told(cluster));
}

/** What a host is to the others stays: where they reach it, and where its containers are, hangs on it. */
function checkSite(site: string, stored: Cluster | undefined): void {
  if (!siteSchema.safeParse(site).success) {
    throw new FlynnError(
      'invalid',
      `--behind-nat takes a name for the private network that this machine is in, of lower-case letters, digits and dashes, such as home; not ${JSON.stringify(site)}`,
    );
  }
  if (stored === undefined || stored.site === site) return;
  const is =
    stored.site === undefined
      ? `is a host of the cluster ${stored.name}, which the others reach at ${stored.address}`
      : `joined the cluster ${stored.name} behind the NAT of ${stored.site}`;
  throw new FlynnError(
    'conflict',
    `this machine ${is}: take it out with ${commands.down}, and join with --behind-nat ${site}. Nothing was changed`,
  );
}

const rotated: Readonly<Record<Rotation, readonly [what: string, command: string]>> = {
  tokens: ['tokens are', commands.rotateTokens],
  'root key': ['the root key is', commands.rotateRootKey],
  'sealing key': ['the sealing key is', commands.rotateSealingKey],
  authority: ['the authority is', commands.rotateAuthority],
};

/** `conflict` but where the platform is: that host alone gives its parts their tokens and keys. */
export function checkRotation(rotation: Rotation, stored: Cluster | undefined): void {
  if (stored?.hasPlatform === true) return;
  const [what, command] = rotated[rotation];
  throw notKeptHere(stored, `${what} made anew on the host that keeps it, by ${command}`);
}

function notKeptHere(stored: Cluster | undefined, how: string): FlynnError {
  const where =
    stored === undefined
      ? 'there is no cluster here yet'
      : `another host keeps the platform of the cluster ${stored.name} (flynn-host status says which; where it is gone for good, or said to be this one: ${commands.takeOver} here)`;
  return new FlynnError('conflict', `${where}: ${how}. Nothing was changed`);
}

/** `conflict` but where the platform is, as for keys; and for what cannot be dropped. */
function checkDomain(change: DomainChange, stored: Cluster | undefined): void {
  if (stored?.hasPlatform !== true) {
    throw notKeptHere(stored, 'the domain is changed on the host that keeps it');
  }
  if ('drop' in change) checkDrop(stored, change.drop);
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

export async function thisMachine(stored: Cluster | undefined): Promise<Machine> {
  return {
    hostname: hostname(),
    address: primaryAddress(),
    now: new Date(),
    newSecret: () => newSecret(),
    authority: stored?.authority ?? (await createAuthority('flynn')),
  };
}

/** Several hosts on this machine, each in a network of its own. */
export async function bringUpHosts(env: Env, count: string): Promise<boolean> {
  const options = readOptions(env);
  return await lockedIfRoot(options, `${commands.up} -- --hosts ${count}`, () =>
    bringUpHostsLocked(options, env, count),
  );
}

async function bringUpHostsLocked(options: Options, env: Env, count: string): Promise<boolean> {
  await untilBooted(options, (line) => process.stderr.write(`${line}\n`));
  if (await isInsideHost())
    throw new FlynnError('conflict', '--hosts makes hosts on a machine, not in one of its hosts');
  const steps = stepsOfHosts({ count: Number(count), options, env });
  const cluster = settle(options, undefined, await thisMachine(undefined));
  if (!(await isReady(options, cluster, { scope: 'machine' }))) return false;
  await runSteps(steps);
  const made = await readHostsCluster();
  if (made !== undefined) process.stdout.write(farewell(made, 'first'));
  return true;
}

type Judging = { scope: Scope; problems?: readonly Problem[]; hasJoined?: boolean };

async function isReady(
  options: Options,
  cluster: Cluster,
  { scope, problems: known = [], hasJoined = false }: Judging,
): Promise<boolean> {
  const facts = await readFacts(options, cluster);
  const problems = [...known, ...judge(facts, cluster, scope)];
  if (problems.length === 0) {
    if (hasJoined) for (const line of rangeWarnings(facts, cluster)) process.stdout.write(`${line}\n`);
    return true;
  }
  const lines = problems.map(({ what, remedy }) => `  ${styleText('red', '✖')} ${what}\n    → ${remedy}`);
  const changed = hasJoined ? `Nothing was changed here. ${leasedText(cluster.hostId)}` : 'Nothing was changed';
  process.stderr.write(`This machine is not ready to be a host. ${changed}.\n\n${lines.join('\n')}\n`);
  return false;
}

/** Alone on standard output, so that it can be handed on. */
export async function printToken(env: Env): Promise<void> {
  const options = readOptions(env);
  const cluster = await readCluster(options.FLYNN_STATE_DIR);
  if (cluster === undefined) {
    throw new FlynnError('not_found', `this machine is no host of a cluster: ${commands.up} makes it one`);
  }
  const host = { stateDir: options.FLYNN_STATE_DIR, cluster, log: silentLogger() };
  process.stdout.write(`${await withStore(host, (store) => makeToken(store, cluster))}\n`);
}

/** The root key is shown when it is made, and not again. */
export function farewell(
  cluster: Cluster,
  rootKey: 'first' | 'new' | 'known',
  known: readonly KnownCluster[] = [],
): string {
  const url = appUrlOf(sampleName, cluster);
  const command = (text: string): string => `  ${styleText('bold', text)}\n`;
  const sample =
    cluster.sample === 'gone'
      ? '\nThe cluster is up.\n'
      : `\nThe cluster is up, and the sample app is live at ${styleText('cyan', url)}\n\n${command(`curl ${url}`)}`;
  return [
    sample,
    '\nNext, in the folder of an app of yours (a git repository; docs/builds.md tells which languages build):\n\n',
    command('flynn create my-app'),
    command('git push flynn main'),
    command('flynn scale web=3'),
    command('flynn log -f'),
    '\nThe cluster has a web page. This opens it, and logs in:\n\n',
    command('flynn dashboard'),
    ...(rootKey === 'new'
      ? [
          '\nThe root key is made anew, and the former one opens nothing any more. This machine’s flynn command has the new one, unless it goes by a token of somebody; on other hosts of the cluster this gives it to theirs:\n\n',
          command(commands.up),
        ]
      : []),
    ...(rootKey === 'known'
      ? []
      : [
          `\nFrom another computer you reach the cluster with its ${rootKey === 'new' ? 'new ' : ''}root key, which is shown this once: keep it as you keep a password.\n\n`,
          command(addLine(cluster, known)),
        ]),
    ...(rootKey === 'known' ? [fingerprintText(cluster)] : []),
    '\nFor everybody else there is a user, with a role on the cluster or on single apps, and a line of their own:\n\n',
    command('flynn user add NAME --role developer'),
    '\nAnother machine becomes a host of this cluster with the token that the first of these prints, here:\n\n',
    command(commands.token),
    command(commands.join),
    `\n${isInstalled ? '' : `flynn is ${styleText('bold', 'bin/flynn')} in this repository: link it into your PATH. `}${commands.down} takes everything away again.\n`,
  ].join('');
}

function joinedFarewell(cluster: Cluster): string {
  return `\nThis machine is host ${styleText('bold', cluster.hostId)} of the cluster ${cluster.name}: work is placed here from now on.\n\n  ${styleText('bold', 'flynn host list')}\n\n${commands.down} takes it out again.\n`;
}
