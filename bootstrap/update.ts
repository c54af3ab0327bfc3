/**
 * The whole cluster from one version to another: host by host, then the platform's apps one after the other, each once the
 * one before is well. What fails on the way has all of it go back, by the programs of the version before: those know what
 * they need. Either way each step looks first, so that the same command goes on where an earlier one was.
 */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { styleText } from 'node:util';
import { platformImagesPut } from '@flynn/host-agent/cluster/platform-images';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { replaceLink } from './agent.ts';
import { thisMachine } from './bring-up.ts';
import { digestOfFile } from './bundle/digest.ts';
import { findPerson } from './cli-config.ts';
import { withStore } from './controller.ts';
import { tellEtcdImage } from './etcd.ts';
import { type BundleCopy, type Host, type Place, awayOf, hostsOf, moveHost, versionOfHost } from './host-move.ts';
import { commands, imagesOf, isInstalled, readBundle, root, versionOfThis } from './origin.ts';
import { runProgram } from './program.ts';
import { type Cluster, type Options, readOptions, settle } from './settings.ts';
import { readCluster } from './state.ts';
import { runSteps } from './step-list.ts';
import { hostStepsOf, imagesStep, platformImages } from './host-steps.ts';
import type { Step } from './step.ts';
import { stepsOf } from './steps.ts';

type Env = Record<string, string | undefined>;

export type UpdateRequest = Readonly<{
  env: Env;
  /** What is to run; unless given that of the bundle, or of the program that is asked. */
  to?: string | undefined;
  /** For hosts that do not have that version yet. */
  bundle?: string | undefined;
  /** Whether what fails has the cluster go back. */
  mayReturn: boolean;
}>;

const installMs = 10 * 60_000;

/** Whether the cluster is of the version now; what is wrong beforehand is thrown, and then nothing was changed. */
export async function updateCluster(request: UpdateRequest): Promise<boolean> {
  if (!isInstalled) {
    throw new FlynnError(
      'invalid',
      `this flynn is not installed from a bundle: ${commands.up} brings its host up to date`,
    );
  }
  const file = request.bundle === undefined ? undefined : resolve(request.bundle);
  const version = file === undefined ? (request.to ?? versionOfThis()) : await install(file);
  if (request.to !== undefined && request.to !== version) {
    throw new FlynnError('invalid', `the bundle is of version ${version}, and --to asks for ${request.to}`);
  }
  if (version !== versionOfThis()) return await delegate(version, { ...request, bundle: file });
  return await moveCluster(version, { ...request, bundle: file });
}

/** Beside what is in use. Its version. */
async function install(file: string): Promise<string> {
  const args = [join(root, 'bootstrap/install'), '--bundle', file, '--prefix', dirname(root), '--keep-current'];
  const said = await runProgram('sh', args, { timeoutMs: installMs });
  const version = /version (\S+) is ready/.exec(said)?.[1];
  if (version === undefined) throw new FlynnError('internal', `the installer said what nobody expected:\n${said}`);
  return version;
}

/** The version's own programs do it. */
async function delegate(version: string, { env, bundle, mayReturn }: UpdateRequest): Promise<boolean> {
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
  ];
  return await new Promise<boolean>((fulfil, reject) => {
    const child = spawn(program, args, { stdio: 'inherit', env });
    child.once('error', reject);
    child.once('close', (code) => fulfil(code === 0));
  });
}

async function moveCluster(version: string, { env, bundle: file, mayReturn }: UpdateRequest): Promise<boolean> {
  const options = readOptions(env);
  const stored = await readCluster(options.FLYNN_STATE_DIR);
  const cluster = checkPlace(stored);
  const place: Place = { stateDir: options.FLYNN_STATE_DIR, cluster, log: silentLogger() };
  const hosts = await withStore(place, hostsOf);
  const away = await withStore(place, awayOf);
  if (away.length > 0) {
    throw new FlynnError(
      'conflict',
      `${away.join(', ')} ${away.length === 1 ? 'is' : 'are'} away: bring them back, or remove them for good (flynn host remove), so that none is left behind`,
    );
  }
  const versions = await Promise.all(hosts.map((host) => versionOfHost(place, host)));
  const previous = versions[hosts.findIndex(({ id }) => id === cluster.hostId)];
  if (previous === undefined) {
    throw new FlynnError(
      'unavailable',
      `this host, ${cluster.hostId}, is not in the cluster now: flynn-host doctor tells why`,
    );
  }
  process.stdout.write(
    `${hosts.map(({ id }, index) => `${id} ${versions[index]}`).join(', ')}; all of them are to be ${version}\n`,
  );
  const bundle = file === undefined ? undefined : { file, sha256: await digestOfFile(file) };
  try {
    await runSteps(await stepsOfUpdate({ options, place, env, version, previous, bundle }));
  } catch (error) {
    process.stderr.write(`\n${styleText('red', '✖')} ${messageOf(error)}\n`);
    if (!mayReturn || previous === version) return false;
    process.stderr.write(`\nThe cluster goes back to version ${previous}.\n\n`);
    const isBack = await delegate(previous, { env, to: previous, mayReturn: false });
    process.stderr.write(
      isBack
        ? `\nThe cluster is of version ${previous}, as before.\n`
        : `\nThe cluster is partly of version ${version}: flynn-host update --to ${previous} goes on with the way back.\n`,
    );
    return false;
  }
  process.stdout.write(`\nThe cluster is of version ${version}. Back: flynn-host update --to ${previous}\n`);
  return true;
}

function checkPlace(cluster: Cluster | undefined): Cluster {
  if (cluster === undefined) {
    throw new FlynnError('not_found', `this machine is no host of a cluster: ${commands.up} makes it one`);
  }
  if (cluster.hasPlatform) return cluster;
  throw new FlynnError(
    'conflict',
    `the cluster is updated from the host that made it, and ${cluster.hostId} joined: run it there`,
  );
}

type UpdateContext = {
  options: Options;
  place: Place;
  env: Env;
  version: string;
  previous: string;
  bundle: BundleCopy | undefined;
};

async function stepsOfUpdate(context: UpdateContext): Promise<Step[]> {
  const { options, place, env, version, previous, bundle } = context;
  const cluster = settle(options, place.cluster, await thisMachine(place.cluster));
  const person = await findPerson(options.FLYNN_CONFIG_DIR, env);
  const { base, platform } = stepsOf({ options, cluster, person, env, isUpdate: true });
  const hosts = await withStore(place, hostsOf);
  const isOwn = ({ id }: Host): boolean => id === cluster.hostId;
  const wholeStep = (host: Host): Step => ({
    title: `Host ${host.id}`,
    run: (report) => moveHost(place, host, { version, bundle, report }),
  });
  return [
    imagesStep(options, () => {}),
    { title: 'Images told to the hosts', run: () => tellImages(place, previous) },
    ...hosts.filter((host) => !isOwn(host)).map(wholeStep),
    // This one by the steps that made it; what its agent is asked then is whether all is well.
    ...base,
    ...hosts.filter(isOwn).map(wholeStep),
    ...platform,
    { title: `Version ${version} in use`, run: useThis },
  ];
}

/** What hosts look up for themselves: the store's image, and which images they keep. Those of both versions until the end. */
async function tellImages(place: Place, previous: string): Promise<void> {
  const bundles = [readBundle(), readBundle(join(dirname(root), previous))];
  const names = bundles.flatMap((bundle) => (bundle === undefined ? [] : platformImages(imagesOf(bundle))));
  const etcd = bundles[0]?.images.etcd;
  await withStore(place, async (store) => {
    await store.transact({ then: [platformImagesPut([...new Set(names)])] });
    if (etcd !== undefined) await tellEtcdImage(store, etcd);
  });
}

/** The commands that people type are this version's from now on. */
function useThis(): Promise<void> {
  return replaceLink(join(dirname(root), 'current'), basename(root));
}

/** This host as one of this version: what the agent of the version before has done when the cluster is moved. */
export async function refreshHost(env: Env): Promise<void> {
  const options = readOptions(env);
  const stored = await readCluster(options.FLYNN_STATE_DIR);
  if (stored === undefined) throw new FlynnError('not_found', 'this machine is no host of a cluster');
  const cluster = settle(options, stored, await thisMachine(stored));
  await runSteps([...hostStepsOf({ options, cluster }), { title: 'Version in use', run: useThis }]);
}
