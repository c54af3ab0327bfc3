/** Volumes over HTTP: who sees which, and removing one. */
import { FlynnError } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { principalOf } from '../access/principal.ts';
import { findApp, noApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { appType } from '../resources.ts';
import { volumes } from './api.ts';
import { findVolumes, viewOf } from './volumes.ts';
import type { FoundVolume } from './volumes.ts';

export function volumeHandlers(deps: Deps): Handler[] {
  return [
    handle(volumes.list, async (call) => {
      const { query, signal } = call;
      const principal = principalOf(call);
      const app = query.app === undefined ? undefined : await findApp(deps, query.app, signal);
      if (app !== undefined && !principal.canSee({ id: app.id, isSystem: app.spec.isSystem })) {
        throw noApp(query.app ?? '');
      }
      const found = await findVolumes(deps, { appId: app?.id, sizes: query.sizes, signal });
      const apps = new Map((await deps.resources.list(appType, { signal })).map((one) => [one.id, one.spec]));
      const isShown = ({ appId }: FoundVolume): boolean => {
        const spec = apps.get(appId);
        return spec === undefined ? principal.isAdmin : principal.canSee({ id: appId, isSystem: spec.isSystem });
      };
      return { volumes: found.volumes.filter(isShown).map(viewOf), unasked: found.unasked };
    }),
    handle(volumes.removeOfApp, async ({ params, signal }) => {
      const { id: appId } = await findApp(deps, params.app, signal);
      return removeVolume(deps, params.volume, { appId, signal });
    }),
    handle(volumes.remove, async ({ params, signal }) => removeVolume(deps, params.volume, { signal })),
  ];
}

/** A member without its volume copies from another; without any there is nothing to copy, and none begins anew by itself. */
async function checkLastCopy(deps: Deps, { id, appId }: FoundVolume, signal: AbortSignal): Promise<void> {
  const app = await deps.resources.find(appType, appId, { signal });
  if (app?.spec.datastore === undefined) return;
  const { volumes: all, unasked } = await findVolumes(deps, { appId, signal });
  if (all.some((one) => one.id !== id)) return;
  const others =
    unasked.length === 0 ? '' : `, as far as hosts tell (${unasked.map(({ hostId }) => hostId).join(', ')} did not)`;
  throw new FlynnError(
    'conflict',
    `this is all of the data of ${app.spec.name}${others}: no other member has a copy; flynn resource remove ${app.spec.datastore.resourceId} deletes the datastore`,
  );
}

async function removeVolume(deps: Deps, id: string, options: { appId?: string; signal: AbortSignal }): Promise<void> {
  const { volumes: found, unasked } = await findVolumes(deps, options);
  const volume = found.find((one) => one.id === id);
  if (volume === undefined) {
    const where = unasked.map(({ hostId, reason }) => `${hostId} did not tell what it has (${reason})`);
    const hint = where.length === 0 ? 'list them with: flynn volume list' : where.join('; ');
    throw new FlynnError('not_found', `there is no volume "${id}"; ${hint}`);
  }
  await checkLastCopy(deps, volume, options.signal);
  await deps.hosts.removeVolume(volume.hostId, volume.hostName, options.signal);
  deps.log.info({ volume: volume.hostName, hostId: volume.hostId }, 'volume removed');
}
