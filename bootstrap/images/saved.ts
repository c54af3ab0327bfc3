/** Images as the archive that engines load. */
import { request } from 'node:http';
import type { Readable } from 'node:stream';
import { FlynnError } from '@flynn/kit/errors';

/** The engine's client library saves one image at a time, each with all layers that several share. */
export function savedImages(socket: string, tags: readonly string[]): Promise<Readable> {
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
