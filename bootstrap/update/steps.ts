/** The steps of an update: each host in its turn, then the platform's apps, each once the one before is well. */
import { dirname, join } from 'node:path';
import { platformImagesPut } from '@flynn/host-agent/cluster/platform-images';
import { forgetRefresh } from '@flynn/host-agent/update/refresh-record';
import { FlynnError } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { thisMachine } from '../machine/this-machine.ts';
import { findPerson } from '../cli/config.ts';
import { withStore } from '../platform/controller.ts';
import { tellEtcdImage } from '../platform/etcd.ts';
import { type BundleCopy, type Place, hostsOf, moveHost, ownHost, sickMembers } from './host-move.ts';
import { imagesStep, platformImages } from '../steps/host.ts';
import { readBundle, root } from '../origin.ts';
import { useThis } from './refresh.ts';
import { type Options, settle } from '../settings.ts';
import type { Step } from '../steps/step.ts';
import { stepsOf } from '../steps/steps.ts';
import type { Report } from '../steps/timed.ts';

/** A member that was away for a moment catches up. */
const storeMs = 120_000;

type UpdateContext = {
  options: Options;
  place: Place;
  env: Readonly<Record<string, string | undefined>>;
  version: string;
  /** What its hosts and parts are of until they have moved: the images of that stay as well. */
  other: string | undefined;
  bundle: BundleCopy | undefined;
  /** Hosts that cannot become so, and stay what they are. */
  staying: readonly string[];
};

export async function stepsOfUpdate(context: UpdateContext): Promise<Step[]> {
  const { options, place, env, version, other, bundle, staying } = context;
  const cluster = settle(options, place.cluster, await thisMachine(place.cluster));
  const person = await findPerson(options.FLYNN_CONFIG_DIR, env);
  const { base, platform } = stepsOf({ options, cluster, person, env, isUpdate: true });
  const hosts = (await withStore(place, hostsOf)).filter(({ id }) => id !== cluster.hostId);
  return [
    imagesStep(options, () => {}),
    { title: 'Image of the store told to the hosts', run: () => tellStoreImage(place) },
    ...hosts
      .filter(({ id }) => !staying.includes(id))
      .map((host) => ({
        title: `Host ${host.id}`,
        run: async (report: Report) => {
          await untilStoreServes(place, host.id, report);
          return await moveHost(place, host, { version, bundle, report });
        },
      })),
    { title: 'The store on the other hosts', run: (report) => untilStoreServes(place, cluster.hostId, report) },
    // This one by the steps that made it; what its agent is asked then is whether all is well.
    ...base,
    {
      title: `Host ${cluster.hostId}`,
      run: async (report) => {
        // What was begun here when another host moved the cluster is of before; it would be begun again, beside this command.
        await forgetRefresh(place.stateDir);
        return await moveHost(place, await ownHost(place), { version, bundle, report });
      },
    },
    { title: 'Images told to the hosts', run: () => tellImages(place, other) },
    ...platform,
    { title: `Version ${version} in use`, run: useThis },
  ];
}

/** All members but that of the host whose turn it is: without it they are still a majority, or `checkVoters` has refused. */
async function untilStoreServes(place: Place, without: string, report: Report): Promise<void> {
  report('looking at the store');
  await waitFor(
    async () => {
      const others = (await withStore(place, hostsOf)).filter(({ id }) => id !== without);
      const sick = await sickMembers(place, others);
      if (sick.length > 0) throw new FlynnError('unavailable', `it does not on ${sick.join(', ')}`);
      return true;
    },
    { what: 'the store to answer on all other hosts', deadlineMs: storeMs, intervalMs: 1_000 },
  );
}

/** What hosts become members with, or are brought up to date to. */
async function tellStoreImage(place: Place): Promise<void> {
  const image = readBundle()?.images['etcd'];
  if (image !== undefined) await withStore(place, (store) => tellEtcdImage(store, image));
}

/**
 * Which images hosts keep: those of both versions until the end. Told once they have them, so that none fetches them from
 * another.
 */
async function tellImages(place: Place, other: string | undefined): Promise<void> {
  const bundles = [readBundle(), other === undefined ? undefined : readBundle(join(dirname(root), other))];
  const names = bundles.flatMap((bundle) =>
    bundle === undefined ? [] : platformImages(Object.entries(bundle.images)),
  );
  await withStore(place, (store) => store.transact({ then: [platformImagesPut([...new Set(names)])] }));
}
