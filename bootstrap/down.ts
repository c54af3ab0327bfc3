/** `npm run down [-- --keep-images] [--force]`: takes away all that `up` made on this machine, and only that. */
import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { styleText } from 'node:util';
import { removeNetwork } from '@flynn/host-agent/network/removal';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { removeAgent, setupOf } from './agent.ts';
import { leaveCluster } from './leaving.ts';
import { findPerson, removeCluster } from './cli-config.ts';
import { engineAt, isEngineUp, stopStartedEngine } from './engine.ts';
import { removeFromEngine } from './removal.ts';
import { type Options, readOptions } from './settings.ts';
import { readCluster } from './state.ts';
import { downHosts, isInsideHost } from './test-hosts/cluster.ts';

const say = (line: string): void => void process.stdout.write(`${line}\n`);
const removedLine = (what: string): void => say(`${styleText('green', '✔')} removed ${what}`);

async function main(): Promise<void> {
  const flags = process.argv.slice(2);
  const unknown = flags.filter((flag) => flag !== '--keep-images' && flag !== '--force');
  if (unknown.length > 0) {
    throw new FlynnError('invalid', `unknown option ${unknown.join(' ')}; there are --keep-images and --force`);
  }
  if (process.getuid?.() !== 0) throw new FlynnError('denied', 'this needs root: run it again with sudo');

  const options = readOptions(process.env);
  const stateDir = options.FLYNN_STATE_DIR;
  const cluster = await readCluster(stateDir);
  const name = cluster?.name ?? options.FLYNN_CLUSTER ?? 'flynn';
  let isAnythingRemoved = false;
  const tell = (what: string): void => {
    isAnythingRemoved = true;
    removedLine(what);
  };

  // A host of its own knows nothing of the others on the same machine.
  if (!(await isInsideHost())) {
    const person = await findPerson(options.FLYNN_CONFIG_DIR, process.env);
    for (const what of await downHosts(person)) tell(what);
  }
  if (cluster !== undefined) {
    for (const line of await leaveCluster({ stateDir, cluster, isForced: flags.includes('--force') })) say(line);
  }
  if (cluster !== undefined) for (const what of await removeAgent(setupOf(options, cluster))) tell(what);
  const range = cluster === undefined ? {} : { range: cluster.range };
  for (const what of await removeNetwork({ cluster: name, ...range })) tell(what);
  await emptyEngine(options, name, flags.includes('--keep-images'), tell);
  if (cluster !== undefined) {
    const person = await findPerson(options.FLYNN_CONFIG_DIR, process.env);
    if (await removeCluster(person, { name, key: cluster.controllerKey })) tell(`the cluster from ${person.configDir}`);
  }
  const engine = await stopStartedEngine(stateDir);
  if (engine === 'stopped')
    say(`${styleText('green', '✔')} stopped the container engine, which was started for the cluster`);
  if (engine === 'in use')
    say('The container engine was started for the cluster and stays: others have containers in it.');
  if (existsSync(stateDir)) {
    await rm(stateDir, { recursive: true });
    tell(`${stateDir} with the cluster's keys`);
  }
  say(
    isAnythingRemoved
      ? `\n${cluster?.hasPlatform === false ? `This machine is no host of the cluster ${name} any more.` : `The cluster ${name} is gone.`}`
      : `There is no cluster ${name} on this machine: nothing to remove.`,
  );
}

async function emptyEngine(
  options: Options,
  name: string,
  keepImages: boolean,
  tell: (what: string) => void,
): Promise<void> {
  if (!(await isEngineUp(options.FLYNN_DOCKER_SOCKET))) {
    if (existsSync(options.FLYNN_STATE_DIR)) {
      throw new FlynnError(
        'unavailable',
        `the container engine at ${options.FLYNN_DOCKER_SOCKET} does not answer, and the cluster's containers are in it: start it and run npm run down again`,
      );
    }
    return;
  }
  const removed = await removeFromEngine(engineAt(options.FLYNN_DOCKER_SOCKET), name, { keepImages });
  for (const kind of ['containers', 'volumes', 'networks', 'images'] as const) {
    const count = removed[kind];
    if (count > 0) tell(`${count} ${count === 1 ? kind.slice(0, -1) : kind}`);
  }
  if (removed.kept.length > 0) say(`Images that other containers use stay: ${removed.kept.join(' ')}`);
}

try {
  await main();
} catch (error) {
  process.stderr.write(`\n${styleText('red', '✖')} ${messageOf(error)}\n`);
  process.exitCode = 1;
}
