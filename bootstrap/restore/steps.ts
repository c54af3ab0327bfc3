/**
 * The steps of `up` that bring back what a backup has: its records before there is a controller, the rest once all services
 * run.
 */
import { createDiscoveryClient } from '@flynn/discovery/client';
import { partOf } from '@flynn/discovery/parts';
import { readHostIdentity } from '@flynn/host-agent/trust/host-trust';
import { listHosts } from '@flynn/host-agent/hosts/settings';
import { restoreEncryption } from '@flynn/host-agent/network/encryption';
import { restoreApps, restoreBlobs, restoreRecords } from '@flynn/controller/backup/restore';
import type { Images } from '@flynn/controller/backup/restore';
import { restoreDatastores, unrestoredIn } from '@flynn/controller/backup/restore-datastores';
import { kindNames } from '@flynn/controller/datastores/kinds';
import { FlynnError } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { waitFor, withDeadline } from '@flynn/kit/retry';
import { hostSpecOf } from '@flynn/scheduler/feasible';
import type { Store } from '@flynn/store/store';
import { withStore } from '../platform/controller.ts';
import { type Backup, isRestored, writeRestore } from './from-backup.ts';
import { withController } from '../platform/controller-client.ts';
import type { ImageName } from '../images/recipes.ts';
import { Platform } from '../platform/platform.ts';
import { type Unwell, untilHealthy } from './apps.ts';
import type { Cluster } from '../settings.ts';
import type { Step } from '../steps/step.ts';
import type { Place } from './unmet-limits.ts';

/** Known once the steps before have run. */
export type RestoreContext = Readonly<{
  host: { stateDir: string; cluster: Cluster; log: Logger };
  gateway: string;
  images: ReadonlyMap<ImageName, string>;
}>;

const recordsMs = 30 * 60_000;
const blobsMs = 6 * 60 * 60_000;
const askMs = 60_000;
const databasesMs = 24 * 60 * 60_000;
/** For the whole of it, with what is asked of those that are not healthy. */
const healthMs = 30 * 60_000;
const thereAlready = 'there already';

export function restoreRecordsStep(backup: Backup, context: () => RestoreContext): Step {
  return {
    title: 'Records of the backup',
    run: async () => {
      const { host, images } = context();
      const options = { ...stepOptions(recordsMs), ...imagesOf(images) };
      const { isEncrypted = false } = backup.inspection.platform;
      const count = await withStore(host, (store) => {
        // Hosts that join from here on take part by themselves.
        const beforeAny = async () => void (isEncrypted && (await restoreEncryption(store, options.signal)));
        return restoreRecords(store, backup.source, { ...options, beforeAny });
      });
      return count === undefined ? thereAlready : `${count} restored`;
    },
  };
}

export function restoreSteps(backup: Backup, context: () => RestoreContext): Step[] {
  return [
    {
      title: 'Blobs of the backup',
      run: async (report) => {
        const { host, gateway } = context();
        await using discovery = createDiscoveryClient({ url: `http://${gateway}:1111` });
        const place = partOf(discovery, 'blobstore', await readHostIdentity(host.stateDir));
        const target = { ...place, key: host.cluster.key };
        const options = { ...stepOptions(blobsMs), report };
        const count = await withStore(host, (store) => restoreBlobs(store, target, backup.source, options));
        return count === undefined ? thereAlready : `${count} of ${backup.inspection.blobs} sent`;
      },
    },
    {
      title: 'Databases of the backup',
      run: async (report) => {
        const { host, images } = context();
        const options = { ...stepOptions(databasesMs), ...imagesOf(images), report };
        const found = await withStore(host, (store) => restoreDatastores(store, backup.source, options));
        if (found === undefined) return thereAlready;
        const { count, failed } = found;
        // Their members are told with the other apps; what is missing in them is told by the cluster until it is there.
        if (failed.length === 0) return `${count} put back`;
        return `${count} put back, and not ${failed.map(({ datastore, error }) => `${datastore} (${error})`).join(', ')}`;
      },
    },
    {
      title: 'Apps of the backup',
      run: async (report) => {
        const { host, images } = context();
        if (!(await isRestored(host.stateDir, backup))) {
          const { platform } = backup.inspection;
          await withController(host, (client) => new Platform(client).restoreCounts(platform));
        }
        const options = { ...stepOptions(recordsMs), ...imagesOf(images), report };
        const count = await withStore(host, (store) => restoreApps(store, backup.source, options));
        await writeRestore(host.stateDir, backup, { isComplete: true });
        return count === undefined ? thereAlready : `${count} starting`;
      },
    },
  ];
}

/** Once they are started nothing is to be restored any more: what does not come up is told, and fails nothing. */
export function restoredAppsStep(
  host: { stateDir: string; cluster: Cluster },
  onUnwell: (unwell: readonly Unwell[]) => void,
): Step {
  return {
    title: 'Health of the apps',
    run: async (report) => {
      const options = { report, signal: withDeadline(healthMs) };
      const { count, unwell } = await withController(host, (client) => untilHealthy(client, options));
      onUnwell(unwell);
      return `${count - unwell.length} of ${count} healthy`;
    },
  };
}

/** The hosts that there are; this one for certain, whose agent may have begun a moment ago. */
export async function placesOf(store: Pick<Store, 'list'>, ownId: string): Promise<Place[]> {
  return await waitFor(
    async () => {
      const hosts = await listHosts(store, { signal: AbortSignal.timeout(askMs) });
      const places = hosts.flatMap(({ record, settings }) =>
        record === undefined ? [] : [hostSpecOf(record, settings)],
      );
      return places.some(({ id }) => id === ownId) && places;
    },
    { what: `host ${ownId} to take jobs`, deadlineMs: askMs, intervalMs: 200 },
  );
}

/** Databases that are empty, or have only what was written since; nothing when all is well. */
export async function unrestoredText(host: RestoreContext['host']): Promise<string> {
  const left = await withStore(host, (store) => unrestoredIn(store, stepOptions(askMs)));
  if (left.length === 0) return '';
  const each = left.map(
    ({ datastore, command, error }) =>
      `  ✗ ${datastore}: ${error}\n    more: flynn ${command} backup -a ${datastore}\n`,
  );
  return `\nWhat was in these databases could not be put back; flynn status says so until it is:\n\n${each.join('')}`;
}

function stepOptions(deadlineMs: number): { nowMs: number; signal: AbortSignal } {
  return { nowMs: Date.now(), signal: withDeadline(deadlineMs) };
}

function imagesOf(images: ReadonlyMap<ImageName, string>): Images {
  const of = (name: ImageName): string => {
    const image = images.get(name);
    if (image === undefined) throw new FlynnError('internal', `no image was made for ${name}`);
    return image;
  };
  return { slugRunnerImage: of('slug-runner'), applianceImages: kindNames.map(of) };
}
