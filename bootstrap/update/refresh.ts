/**
 * This host as one of this version: what the agent of the version before has done when the cluster is moved. What does not
 * become well is undone by the programs of the version before, so that nobody has to come to the host.
 */
import { readlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { writeRefresh } from '@flynn/host-agent/update/refresh-record';
import { FlynnError, hasErrno, messageOf } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { type AgentSetup, setupOf } from '../agent/agent.ts';
import { agentProgram, isGivenUp, replaceLink } from '../agent/program.ts';
import { thisMachine } from '../machine/this-machine.ts';
import { type Place, ownHost, versionOfHost } from './host-move.ts';
import { type HostLock, withHostLock } from '../host-lock.ts';
import { readHostOptions } from '../host-options.ts';
import { givenUp, hostStepsOf } from '../steps/host.ts';
import { root, versionOfThis } from '../origin.ts';
import { runProgram } from '../machine/program.ts';
import { type Cluster, type Options, settle, forUpdate } from '../settings.ts';
import { readCluster } from '../state.ts';
import { runSteps } from '../steps/list.ts';

type Env = Record<string, string | undefined>;

const currentLink = join(dirname(root), 'current');
/** After discovery, which serves first, an agent takes seconds until it takes orders. */
const servesMs = 60_000;
/** The engine, the images and the agent of the version before are there already. */
const backMs = 5 * 60_000;

/** Which version the commands on this host are of; nothing where none was put in use yet. */
export async function versionInUse(): Promise<string | undefined> {
  try {
    return basename(await readlink(currentLink));
  } catch (error) {
    if (hasErrno(error, 'ENOENT')) return undefined;
    throw error;
  }
}

/** The commands that people type are this version's from now on. */
export function useThis(): Promise<void> {
  return replaceLink(currentLink, basename(root));
}

export async function refreshHost(env: Env): Promise<void> {
  const options = forUpdate(await readHostOptions(env));
  const { FLYNN_STATE_DIR: stateDir } = options;
  const stored = await readCluster(stateDir);
  if (stored === undefined) throw new FlynnError('not_found', 'this machine is no host of a cluster');
  const record = { version: versionOfThis(), pid: process.pid };
  const doing = `an update of this host to version ${record.version}`;
  await withHostLock(stateDir, doing, (lock) => refreshLocked({ env, options, stored, record, lock }));
}

type Refresh = {
  env: Env;
  options: Options;
  stored: Cluster;
  record: { version: string; pid: number };
  lock: HostLock;
};

async function refreshLocked({ env, options, stored, record, lock }: Refresh): Promise<void> {
  const { FLYNN_STATE_DIR: stateDir } = options;
  await writeRefresh(stateDir, { ...record, hasEnded: false });
  try {
    const cluster = settle(options, stored, await thisMachine(stored));
    const setup = setupOf(options, cluster);
    await runSteps([
      ...hostStepsOf({ options, cluster }),
      {
        title: `Host agent of version ${record.version}`,
        run: () => untilServes({ stateDir, cluster, log: silentLogger() }, setup),
      },
      { title: 'Version in use', run: useThis },
    ]);
  } catch (error) {
    const undone = await goBack(env, lock);
    await writeRefresh(stateDir, { ...record, hasEnded: true, error: `${messageOf(error)}\n${undone}` });
    throw error;
  }
  await writeRefresh(stateDir, { ...record, hasEnded: true });
}

/** Its agent is there for all it is asked, not for discovery alone. */
async function untilServes(place: Place, setup: AgentSetup): Promise<void> {
  const { name } = await agentProgram();
  const serving = await waitFor(
    async () => {
      if (await isGivenUp(place.stateDir, name)) return 'given up';
      return (await versionOfHost(place, await ownHost(place))) === versionOfThis() && 'yes';
    },
    { what: `the host agent of version ${versionOfThis()} to serve`, deadlineMs: servesMs, intervalMs: 200 },
  );
  if (serving === 'given up') throw await givenUp(setup);
}

/** What came of it, as the end of the story. */
async function goBack(env: Env, lock: HostLock): Promise<string> {
  const before = await versionInUse();
  if (before === undefined || before === versionOfThis()) return 'There is no version before it to go back to.';
  process.stdout.write(`\nThis host goes back to version ${before}.\n`);
  try {
    await runProgram(join(dirname(root), before, 'bin/flynn-host'), ['refresh'], {
      timeoutMs: backMs,
      env,
      lock,
      onLine: (line) => process.stdout.write(`${line}\n`),
    });
    return `The host is of version ${before} again.`;
  } catch (error) {
    return `It could not go back to version ${before}: ${messageOf(error)}`;
  }
}
