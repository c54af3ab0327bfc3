/** The platform's images from this machine's engine into a test host's. */
import { request } from 'node:http';
import type { Readable } from 'node:stream';
import { readProgress } from '@flynn/host-agent/docker-images';
import { FlynnError } from '@flynn/kit/errors';
import { defaultSocket, engineAt } from '../engine.ts';

/** Those that are missing there; this machine has them all. */
export async function copyImages(socket: string, tags: readonly string[]): Promise<void> {
  const docker = engineAt(socket);
  const present = new Set((await docker.listImages()).flatMap((image) => image.RepoTags ?? []));
  const missing = tags.filter((tag) => !present.has(tag));
  if (missing.length === 0) return;
  await readProgress(await docker.loadImage(await savedImages(defaultSocket, missing)));
}

/** The engine's client library saves one image at a time, each with all layers that several share. */
function savedImages(socket: string, tags: readonly string[]): Promise<Readable> {
  const names = tags.map((tag) => `names=${encodeURIComponent(tag)}`).join('&');
  return new Promise((resolve, reject) => {
    request({ socketPath: socket, path: `/images/get?${names}` }, (response) => {
      if (response.statusCode === 200) resolve(response);
      else reject(new FlynnError('internal', `the engine did not save the images: ${response.statusCode}`));
    })
      .once('error', reject)
      .end();
  });
}
