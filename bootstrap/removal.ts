/** What a cluster left in the container engine, known by its labels; nothing else is touched. */
import type Docker from 'dockerode';
import { buildContainerPrefix } from './images/build.ts';
import { statusOf } from './images/debian.ts';

export type Removed = Readonly<{
  containers: number;
  volumes: number;
  networks: number;
  images: number;
  kept: readonly string[];
}>;

export async function removeFromEngine(
  docker: Docker,
  cluster: string,
  options: { keepImages: boolean },
): Promise<Removed> {
  const ofCluster = { label: [`flynn.cluster=${cluster}`] };
  const containers = await docker.listContainers({ all: true, filters: ofCluster });
  await Promise.all(
    containers.map(({ Id: id }) => unlessGone(() => docker.getContainer(id).remove({ force: true, v: true }))),
  );

  const { Volumes: volumes } = await docker.listVolumes({ filters: ofCluster });
  for (const { Name: name } of volumes) await unlessGone(() => docker.getVolume(name).remove());

  const networks = await docker.listNetworks({ filters: ofCluster });
  for (const { Id: id } of networks) await unlessGone(() => docker.getNetwork(id).remove());

  const stacks = await removeImages(docker, ofCluster);
  // A build that was interrupted leaves its container behind.
  const builds = await docker.listContainers({ all: true, filters: { name: [`^/${buildContainerPrefix}`] } });
  for (const { Id: id } of builds) await unlessGone(() => docker.getContainer(id).remove({ force: true, v: true }));
  const own = options.keepImages ? { removed: 0, kept: [] } : await removeImages(docker, { label: ['flynn.image=1'] });
  return {
    containers: containers.length,
    volumes: volumes.length,
    networks: networks.length,
    images: stacks.removed + own.removed,
    kept: [...stacks.kept, ...own.kept],
  };
}

/** Children before parents, whatever order they are listed in; those that other containers use stay. */
async function removeImages(
  docker: Docker,
  filters: { label: string[] },
): Promise<{ removed: number; kept: string[] }> {
  let removed = 0;
  for (;;) {
    const images = await docker.listImages({ filters });
    let progress = 0;
    for (const { Id: id, RepoTags: tags } of images) {
      const names =
        tags === null || tags === undefined || tags.length === 0 ? [id] : tags.filter((tag) => tag !== '<none>:<none>');
      for (const name of names.length === 0 ? [id] : names) {
        if (await unlessInUse(() => docker.getImage(name).remove())) progress += 1;
      }
    }
    removed += progress;
    if (progress === 0) return { removed, kept: images.flatMap(({ RepoTags: tags }) => tags ?? []) };
  }
}

/** Whether it was removed by this call. */
async function unlessInUse(remove: () => Promise<unknown>): Promise<boolean> {
  try {
    await remove();
    return true;
  } catch (error) {
    if (statusOf(error) === 409 || statusOf(error) === 404) return false;
    throw error;
  }
}

async function unlessGone(remove: () => Promise<unknown>): Promise<void> {
  try {
    await remove();
  } catch (error) {
    // 409: being removed by an earlier call.
    if (statusOf(error) !== 404 && statusOf(error) !== 409) throw error;
  }
}
