/** Several hosts on this machine, each in a network of its own. */
import { FlynnError } from '@flynn/kit/errors';
import { untilBooted } from '../machine/readiness.ts';
import { thisMachine } from '../machine/this-machine.ts';
import { commands } from '../origin.ts';
import { type Options, readOptions, settle } from '../settings.ts';
import { runSteps } from '../steps/list.ts';
import { isInsideHost, readHostsCluster, stepsOfHosts } from '../test-hosts/cluster.ts';
import { farewell } from './farewell.ts';
import { lockedIfRoot } from './locked.ts';
import { isReady } from './ready.ts';

type Env = Record<string, string | undefined>;

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
