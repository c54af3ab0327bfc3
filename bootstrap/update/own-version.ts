/** Of which version the host is that keeps the platform, and who may make it another one. */
import { existsSync } from 'node:fs';
import { basename, join } from 'node:path';
import { FlynnError } from '@flynn/kit/errors';
import { installationOf } from '../host-options.ts';
import { isInstalled, root } from '../origin.ts';
import type { Cluster } from '../settings.ts';

/**
 * `conflict` for an `up` on that host with programs of another version than its agent's, while those of its own are there: it would
 * deploy the platform beside hosts of the version before, with nothing looked at and no way back. `own`: where these programs are.
 */
export async function checkOwnVersion(
  stateDir: string,
  stored: Cluster | undefined,
  own = isInstalled ? root : undefined,
): Promise<void> {
  if (own === undefined || stored?.hasPlatform !== true) return;
  const installation = await installationOf(stateDir);
  if (installation === undefined || basename(installation) === basename(own)) return;
  if (!existsSync(join(installation, 'bin/flynn-host'))) return;
  const version = basename(own);
  throw new FlynnError(
    'conflict',
    `this host is of version ${basename(installation)}, and these are programs of version ${version}: ${join(own, 'bin/flynn-host')} update --to ${version} (with --bundle FILE where hosts lack it) moves the whole cluster to it, and back where that fails. Nothing was changed`,
  );
}
