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
