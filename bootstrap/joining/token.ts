/** The token that lets other machines join, as `--token` prints it. */
import { FlynnError } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { commands } from '../origin.ts';
import { withStore } from '../platform/controller.ts';
import { readOptions } from '../settings.ts';
import { readCluster } from '../state.ts';
import { makeToken } from './admission.ts';

/** Alone on standard output, so that it can be handed on. */
export async function printToken(env: Record<string, string | undefined>): Promise<void> {
  const options = readOptions(env);
  const cluster = await readCluster(options.FLYNN_STATE_DIR);
  if (cluster === undefined) {
    throw new FlynnError('not_found', `this machine is no host of a cluster: ${commands.up} makes it one`);
  }
  const host = { stateDir: options.FLYNN_STATE_DIR, cluster, log: silentLogger() };
  process.stdout.write(`${await withStore(host, (store) => makeToken(store, cluster))}\n`);
}
