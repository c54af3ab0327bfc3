/** Which blobs does an image consist of? */
import type { Blob } from '@flynn/blobstore/api';
import type { Image } from '@flynn/scheduler/job-template';

/** In an artifact's meta: the blob that says what it was made of. By its digest the image is deployed again. */
export const resultMeta = 'result';

/** Digests of the layers, and of the configuration of a whole image. */
export function blobsOf(image: Image): string[] {
  return storedBlobs(image).map(({ digest }) => digest);
}

export function storedBlobs(image: Image): Blob[] {
  if ('name' in image) return [];
  return 'config' in image ? [image.config, ...image.layers] : image.layers;
}
