/** `npm run up`: this machine as a cluster, with a sample app on it. Run again: brings the platform up to date. */
import { hostname } from 'node:os';
import { parseArgs, styleText } from 'node:util';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { fingerprintOf } from '@flynn/kit/certificate';
import { silentLogger } from '@flynn/kit/log';
import { newSecret } from '@flynn/kit/secrets';
import { createAuthority } from '@flynn/kit/tls';
import { Listr, PRESET_TIMER } from 'listr2';
import { checkToken, joinCluster, makeToken } from './admission.ts';
import { findPerson } from './cli-config.ts';
import { withStore } from './controller.ts';
import { primaryAddress, readFacts } from './facts.ts';
import { checkRestore, openBackup, restoredText, takeKeys, withBackup } from './from-backup.ts';
import { type Scope, judge } from './preflight.ts';
import { untilBooted } from './readiness.ts';
import { sampleName } from './sample-app.ts';
import {
  type Cluster,
  type Machine,
  type Options,
  appUrlOf,
  keptText,
  secureControllerUrlOf,
  readOptions,
  refuseContradictions,
  settle,
  withKept,
} from './settings.ts';
import { readCluster } from './state.ts';
import { type Step, joinStepsOf, stepsOf } from './steps.ts';
import { isInsideHost, readHostsCluster, stepsOfHosts } from './test-hosts/cluster.ts';

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      join: { type: 'string' },
      token: { type: 'boolean', default: false },
      hosts: { type: 'string' },
      'from-backup': { type: 'string' },
      'passphrase-file': { type: 'string' },
    },
  });
  const ways = [values.join, values.hosts, values['from-backup'], values.token || undefined];
  if (ways.filter((value) => value !== undefined).length > 1) {
    const names = '--join, --token, --hosts and --from-backup';
    throw new FlynnError('invalid', `${names} are different things: give one of them`);
  }
  const given = readOptions(process.env);
  const path = values['from-backup'];
  const backup =
    path === undefined
      ? undefined
      : await openBackup(path, { env: process.env, passphraseFile: values['passphrase-file'] });
  const options = backup === undefined ? given : withBackup(given, backup.inspection);
  // Before anything is settled: an address that this machine does not have yet would be missing in it for good.
  await untilBooted(options, (line) => process.stderr.write(`${line}\n`));
  if (values.hosts !== undefined) return await upHosts(options, values.hosts);
  const stored = await readCluster(options.FLYNN_STATE_DIR);
  if (values.token) return await printToken(options, stored);
  if (values.join !== undefined) checkToken(values.join, stored);
  await checkRestore(options.FLYNN_STATE_DIR, stored, backup);
  let cluster = settle(options, stored, await thisMachine(stored));
  const isJoining = values.join !== undefined && stored === undefined;
  if (!(await isReady(options, cluster, isJoining ? 'joining' : 'host'))) return;
  if (isJoining) {
    const { hostId } = cluster;
    const address = options.FLYNN_ADDRESS === undefined ? {} : { address: options.FLYNN_ADDRESS };
    cluster = withKept(await joinCluster(values.join ?? '', { hostId, ...address }), options);
    refuseContradictions(options, cluster);
    // Where its containers are to be, and which ports are the router's, it knows only now.
    if (!(await isReady(options, cluster, 'host'))) return;
  }
  if (backup !== undefined) cluster = await takeKeys(options.FLYNN_STATE_DIR, cluster, backup);
  const person = await findPerson(options.FLYNN_CONFIG_DIR, process.env);
  const context = { options, cluster, person, env: process.env, ...(backup === undefined ? {} : { backup }) };
  for (const line of keptText(cluster, options)) process.stdout.write(`${line}\n`);
  await runSteps(cluster.hasPlatform ? stepsOf(context) : joinStepsOf(context));
  if (backup !== undefined) {
    process.stdout.write(restoredText(cluster, backup));
    return;
  }
  const isNew = stored === undefined;
  process.stdout.write(cluster.hasPlatform ? farewell(cluster, { isNew }) : joinedFarewell(cluster));
}

async function thisMachine(stored: Cluster | undefined): Promise<Machine> {
  return {
    hostname: hostname(),
    address: await primaryAddress(),
    now: new Date(),
    newSecret: () => newSecret(),
    authority: stored?.authority ?? (await createAuthority('flynn')),
  };
}

/** Several hosts on this machine, each in a network of its own. */
async function upHosts(options: Options, count: string): Promise<void> {
  if (await isInsideHost())
    throw new FlynnError('conflict', '--hosts makes hosts on a machine, not in one of its hosts');
  const steps = stepsOfHosts({ count: Number(count), options, env: process.env });
  const cluster = settle(options, undefined, await thisMachine(undefined));
  if (!(await isReady(options, cluster, 'machine'))) return;
  await runSteps(steps);
  const made = await readHostsCluster();
  if (made !== undefined) process.stdout.write(farewell(made, { isNew: true }));
}

async function isReady(options: Options, cluster: Cluster, scope: Scope): Promise<boolean> {
  const problems = judge(await readFacts(options, cluster), cluster, scope);
  if (problems.length === 0) return true;
  const lines = problems.map(({ what, remedy }) => `  ${styleText('red', '✖')} ${what}\n    → ${remedy}`);
  process.stderr.write(`This machine is not ready to be a host. Nothing was changed.\n\n${lines.join('\n')}\n`);
  process.exitCode = 1;
  return false;
}

/** Alone on standard output, so that it can be handed on. */
async function printToken(options: Options, cluster: Cluster | undefined): Promise<void> {
  if (cluster === undefined) {
    throw new FlynnError('not_found', 'this machine is no host of a cluster: npm run up makes it one');
  }
  const host = { stateDir: options.FLYNN_STATE_DIR, cluster, log: silentLogger() };
  process.stdout.write(`${await withStore(host, (store) => makeToken(store, cluster))}\n`);
}

async function runSteps(steps: readonly Step[]): Promise<void> {
  let failure: unknown;
  const list = new Listr(
    steps.map((step) => ({
      title: step.title,
      task: async (_context: unknown, task: { title: string; output: string }) => {
        let word: string | void;
        try {
          word = await step.run((line) => {
            task.output = line;
          });
        } catch (error) {
          // Told in full once the list is done, not squeezed into a line of it.
          failure = error;
          throw new Error('see below', { cause: error });
        }
        if (typeof word === 'string') task.title = `${step.title}: ${word}`;
      },
    })),
    {
      concurrent: false,
      exitOnError: true,
      renderer: 'default',
      fallbackRenderer: 'simple',
      rendererOptions: { timer: PRESET_TIMER, collapseErrors: false, showErrorMessage: false },
      fallbackRendererOptions: { timer: PRESET_TIMER },
    },
  );
  try {
    await list.run();
  } catch (error) {
    throw failure ?? error;
  }
}

/** The root key is shown when the cluster is made, and not again. */
function farewell(cluster: Cluster, { isNew }: { isNew: boolean }): string {
  const url = appUrlOf(sampleName, cluster);
  const command = (text: string): string => `  ${styleText('bold', text)}\n`;
  return [
    `\nThe cluster is up, and the sample app is live at ${styleText('cyan', url)}\n\n`,
    command(`curl ${url}`),
    '\nNext, in the folder of an app of yours (a git repository; docs/builds.md tells which languages build):\n\n',
    command('flynn create my-app'),
    command('git push flynn main'),
    command('flynn scale web=3'),
    command('flynn log -f'),
    ...(isNew
      ? [
          '\nFrom another computer you reach the cluster with its root key, which is shown this once: keep it as you keep a password.\n\n',
          command(addText(cluster)),
        ]
      : []),
    '\nFor everybody else there is a user, with a role on the cluster or on single apps, and a line of their own:\n\n',
    command('flynn user add NAME --role developer'),
    '\nAnother machine becomes a host of this cluster with the token that the first of these prints, here:\n\n',
    command('npm run up -- --token'),
    command('npm run up -- --join TOKEN'),
    `\nflynn is ${styleText('bold', 'bin/flynn')} in this repository: link it into your PATH. npm run down takes everything away again.\n`,
  ].join('');
}

/** Shown when the cluster is made: nobody has brought another certificate for the controller yet. */
function addText({ name, controllerKey, authority, ...cluster }: Cluster): string {
  const pin = fingerprintOf(authority.certificate);
  return `flynn cluster add ${name} ${secureControllerUrlOf(cluster)} ${controllerKey} --pin ${pin}`;
}

function joinedFarewell(cluster: Cluster): string {
  return `\nThis machine is host ${styleText('bold', cluster.hostId)} of the cluster ${cluster.name}: work is placed here from now on.\n\n  ${styleText('bold', 'flynn host list')}\n\nnpm run down takes it out again.\n`;
}

try {
  await main();
} catch (error) {
  process.stderr.write(
    `\n${styleText('red', '✖')} ${messageOf(error)}\n\nWhat is done so far stays; run the same command again to go on, or npm run down to take it away.\n`,
  );
  process.exitCode = 1;
}
