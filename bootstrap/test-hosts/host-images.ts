/** The platform's images from this machine's engine into a test host's. */
import { readProgress } from '@flynn/host-agent/docker/images';
import { defaultSocket, engineAt } from '../machine/engine.ts';
import { savedImages } from '../images/saved.ts';

/** Those that are missing there; this machine has them all. */
export async function copyImages(socket: string, tags: readonly string[]): Promise<void> {
  const docker = engineAt(socket);
  const present = new Set((await docker.listImages()).flatMap((image) => image.RepoTags ?? []));
  const missing = tags.filter((tag) => !present.has(tag));
  if (missing.length === 0) return;
  await readProgress(await docker.loadImage(await savedImages(defaultSocket, missing)));
}

/** Those that are not named, with what nobody else needs of them. */
export async function dropImages(socket: string, kept: readonly string[]): Promise<void> {
  const docker = engineAt(socket);
  const tags = (await docker.listImages()).flatMap((image) => image.RepoTags ?? []);
  // One that others were made on only loses its name by this.
  for (const tag of tags.filter((one) => !kept.includes(one))) await docker.getImage(tag).remove();
  await docker.pruneImages();
}
