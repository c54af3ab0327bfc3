/**
 * Which root keys and tokens the controllers of the cluster take, and where they are, as the store says: hosts that joined have
 * it from nowhere else.
 */
import { ifFound } from '@flynn/kit/errors';
import { newId } from '@flynn/kit/ids';
import { silentLogger } from '@flynn/kit/log';
import { withDeadline } from '@flynn/kit/retry';
import { ResourceService } from '@flynn/resource/service';
import type { Store } from '@flynn/store/store';
import { configSchema } from '../config.ts';
import { appType, releaseType } from '../resources.ts';

const readMs = 30_000;

const keysSchema = configSchema.pick({ FLYNN_CONTROLLER_KEY: true, FLYNN_TOKEN_ROUNDS: true, FLYNN_DOMAIN: true });

export type LiveKeys = Readonly<{
  domain: string;
  rootKeys: readonly [string, ...string[]];
  rounds: readonly number[];
}>;

/** Of the live release of the app that the controller is, the newest key first; undefined before there is one. */
export async function readLiveKeys(store: Store, app: string): Promise<LiveKeys | undefined> {
  const env = await readLiveEnv(store, app);
  if (env === undefined) return undefined;
  const { FLYNN_CONTROLLER_KEY: keys, FLYNN_TOKEN_ROUNDS: rounds, FLYNN_DOMAIN: domain } = keysSchema.parse(env);
  const [newest, ...others] = keys;
  return newest === undefined ? undefined : { domain, rootKeys: [newest, ...others], rounds };
}

/** The variables of an app's live release; undefined before there is one. */
export async function readLiveEnv(store: Store, app: string): Promise<Readonly<Record<string, string>> | undefined> {
  const limits = { signal: withDeadline(readMs) };
  const resources = new ResourceService({ store, now: Date.now, newId, log: silentLogger() });
  let gone: string | undefined;
  for (;;) {
    const { releaseId } = (await ifFound(resources.lookup(appType, app, limits)))?.status ?? {};
    if (releaseId === undefined || releaseId === gone) return undefined;
    const release = await resources.find(releaseType, releaseId, limits);
    if (release !== undefined) return release.spec.env;
    // Another took its place at this moment: that is the one.
    gone = releaseId;
  }
}
