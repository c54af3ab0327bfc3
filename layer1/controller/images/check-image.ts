/** May an artifact be of this image, as far as it says itself? Whose its blobs are is asked elsewhere. */
import { isLocalName, localNameRefusal, nameNotId } from '@flynn/host-agent/images/names';
import { FlynnError } from '@flynn/kit/errors';
import { type Image, maxImageConfigBytes } from '@flynn/scheduler/job-template';

/** `invalid` for one that hosts refuse: whoever asks for it is told at once. */
export function checkImage(image: Image, cluster: string): void {
  if ('config' in image) {
    const { digest, sizeBytes } = image.config;
    if (sizeBytes <= maxImageConfigBytes) return;
    const limit = `${maxImageConfigBytes / 1024 ** 2} MiB`;
    throw new FlynnError('invalid', `the image's configuration ${digest} has more than ${limit}: it is none`);
  }
  const name = 'name' in image ? image.name : image.base;
  if (isLocalName(nameNotId(name), cluster)) throw localNameRefusal(name);
}
