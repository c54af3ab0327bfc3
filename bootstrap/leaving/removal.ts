/** What a cluster left in the container engine, known by its labels; nothing else is touched. */
import { systemClock } from '@flynn/kit/clock';
import { raceAbort } from '@flynn/kit/retry';
import type Docker from 'dockerode';
import { buildContainerPrefix } from '../images/build.ts';
import { statusOf } from '../images/debian.ts';
import { type Patience, RemovalProgress } from './removal-progress.ts';

type Limits = { signal: AbortSignal; patience?: Patience };
type Filters = { label: string[] } | { name: string[] };

const againMs = 200;
const atOnce = 4;

const clusterLabel = 'flynn.cluster';
const ofCluster = (cluster: string): Filters => ({ label: [`${clusterLabel}=${cluster}`] });
/** A build that was interrupted leaves its container behind. */
const ofBuilds: Filters = { name: [`^/${buildContainerPrefix}`] };

/**
 * Killed, not stopped: nothing of them is kept. How many there were. These functions may be repeated; when the signal aborts
 * they throw `conflict` with what the engine refused last, or `unavailable` where it hangs.
 */
export async function removeContainers(docker: Docker, cluster: string, limits: Limits): Promise<number> {
  const { signal } = limits;
  const options = { force: true, v: true, abortSignal: signal };
  const removeAll = (filters: Filters): Promise<number> =>
    untilNone(
      docker,
      'containers',
      async () => (await docker.listContainers({ all: true, filters, abortSignal: signal })).map(({ Id: id }) => id),
      (id) => docker.getContainer(id).remove(options),
      limits,
    );
  return (await removeAll(ofCluster(cluster))) + (await removeAll(ofBuilds));
}

/** Those of the cluster, whether they run or not, by their ids. */
export async function listContainers(docker: Docker, cluster: string, { signal }: Limits): Promise<string[]> {
  const containers = await docker.listContainers({ all: true, filters: ofCluster(cluster), abortSignal: signal });
  return containers.map(({ Id: id }) => id);
}

/** The names of all clusters that the engine has containers or volumes of; of containers alone that run, if so asked. */
export async function clustersIn(
  docker: Docker,
  { signal, isRunning }: Limits & { isRunning: boolean },
): Promise<string[]> {
  const filters = { label: [clusterLabel] };
  const containers = await docker.listContainers({ all: !isRunning, filters, abortSignal: signal });
  const volumes = isRunning ? [] : noneIfNull((await docker.listVolumes({ filters, abortSignal: signal })).Volumes);
  const names = [...containers, ...volumes].map(({ Labels: labels }) => noneIfUnlabelled(labels)[clusterLabel]);
  return [...new Set(names.filter((name) => name !== undefined))];
}

export type EngineVolume = Readonly<{ name: string; labels: Readonly<Record<string, string>> }>;

/** As the engine has them. */
export async function labelledVolumes(docker: Docker, cluster: string, { signal }: Limits): Promise<EngineVolume[]> {
  const { Volumes: volumes } = await docker.listVolumes({ filters: ofCluster(cluster), abortSignal: signal });
  // Some engines say null for none here, too.
  return noneIfNull(volumes).map(({ Name: name, Labels: labels }) => ({ name, labels: labels ?? {} }));
}

/** Their names, as the engine has them. */
export async function listVolumes(docker: Docker, cluster: string, limits: Limits): Promise<string[]> {
  return (await labelledVolumes(docker, cluster, limits)).map(({ name }) => name);
}

export function removeVolumes(docker: Docker, cluster: string, limits: Limits): Promise<number> {
  const { signal } = limits;
  return untilNone(
    docker,
    'volumes',
    () => listVolumes(docker, cluster, { signal }),
    (name) => docker.getVolume(name).remove({ abortSignal: signal }),
    limits,
  );
}

export function removeNetworks(docker: Docker, cluster: string, limits: Limits): Promise<number> {
  const { signal } = limits;
  return untilNone(
    docker,
    'networks',
    async () => {
      const networks = await docker.listNetworks({ filters: ofCluster(cluster), abortSignal: signal });
      return networks.map(({ Id: id }) => id);
    },
    (id) => docker.getNetwork(id).remove({ abortSignal: signal }),
    limits,
  );
}

/** Slugs' own, and unless they are kept the platform's. `kept`: names of those that other containers use. */
export async function removeImages(
  docker: Docker,
  cluster: string,
  { signal, keepOwn }: Limits & { keepOwn: boolean },
): Promise<{ count: number; kept: readonly string[] }> {
  const all = [ofCluster(cluster), ...(keepOwn ? [] : [{ label: ['flynn.image=1'] }])];
  let count = 0;
  const kept: string[] = [];
  for (const filters of all) {
    const removed = await removeImagesOf(docker, filters, signal);
    count += removed.count;
    kept.push(...removed.kept);
  }
  return { count, kept };
}

/**
 * Again until none is listed: the engine refuses what is in use, or is being removed by somebody else just now. A few at a time:
 * with all at once an engine may hang.
 */
async function untilNone(
  docker: Docker,
  what: string,
  list: () => Promise<readonly string[]>,
  remove: (id: string) => Promise<unknown>,
  { signal, patience }: Limits,
): Promise<number> {
  const seen = new Set<string>();
  const progress = new RemovalProgress(patience);
  const ending = new AbortController();
  const watching = progress.watch(
    (abortSignal) => docker.listNetworks({ abortSignal }),
    AbortSignal.any([signal, ending.signal]),
  );
  try {
    for (;;) {
      const ids = await raceAbort(list(), signal);
      if (ids.length === 0) return seen.size;
      for (const id of ids) seen.add(id);
      progress.begin();
      await raceAbort(
        fewAtATime(ids, (id) => progress.removes(remove(id), signal)),
        signal,
      );
      if (progress.isRefused) await systemClock.sleep(againMs, { signal });
    }
  } catch (error) {
    if (!signal.aborted) throw error;
    throw progress.explained(what) ?? error;
  } finally {
    ending.abort();
    await watching;
  }
}

async function fewAtATime(ids: readonly string[], task: (id: string) => Promise<void>): Promise<void> {
  const remaining = ids.values();
  const lane = async (): Promise<void> => {
    for (const id of remaining) await task(id);
  };
  await Promise.all(Array.from({ length: atOnce }, lane));
}

/** Some engines say null for none, whatever the types say. */
function noneIfNull<T>(list: readonly T[] | null): readonly T[] {
  return list ?? [];
}

function noneIfUnlabelled(
  labels: Readonly<Record<string, string>> | null,
): Readonly<Record<string, string | undefined>> {
  return labels ?? {};
}

/**
 * Children before parents, whatever order they are listed in; those that other containers use stay. One after the other: at
 * once they take the engine three times as long, and it trips over itself.
 */
async function removeImagesOf(
  docker: Docker,
  filters: Filters,
  signal: AbortSignal,
): Promise<{ count: number; kept: string[] }> {
  let count = 0;
  for (;;) {
    const images = await docker.listImages({ filters, abortSignal: signal });
    let progress = 0;
    for (const name of images.flatMap(({ Id: id, RepoTags: tags }) => namesOf(id, tags))) {
      const removal = docker.getImage(name).remove({ abortSignal: signal });
      if (await unlessInUse(raceAbort(removal, signal))) progress += 1;
    }
    count += progress;
    if (progress === 0) return { count, kept: images.flatMap(({ RepoTags: tags }) => tags ?? []) };
  }
}

/** Without a tag an image has its id only, which engines say in three ways. */
function namesOf(id: string, tags: readonly string[] | null | undefined): readonly string[] {
  const named = (tags ?? []).filter((tag) => tag !== '<none>:<none>');
  return named.length === 0 ? [id] : named;
}

/** Whether it was removed by this call. */
async function unlessInUse(removal: Promise<unknown>): Promise<boolean> {
  try {
    await removal;
    return true;
  } catch (error) {
    if (statusOf(error) === 409 || statusOf(error) === 404) return false;
    throw error;
  }
}
