/** The source as the engine gets it: without what .dockerignore leaves out, its Dockerfile as it is to be read. */
import { posix } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { text } from 'node:stream/consumers';
import { FlynnError } from '@flynn/kit/errors';
import { extract, pack } from 'tar-stream';
import { createDockerignore } from './dockerignore.ts';

export type SourceTexts = {
  dockerfile?: string;
  dockerignore?: string;
  procfile?: string;
  appJson?: string;
  hasSubmodules: boolean;
};

const dockerfileName = 'Dockerfile';
/** Of the receiver's, in the archive of a repository that has submodules. */
const submodulesFile = '.flynn-submodules.json';
const maxTextBytes = 1024 ** 2;
const names = new Map<string, 'dockerfile' | 'dockerignore' | 'procfile' | 'appJson'>([
  [dockerfileName, 'dockerfile'],
  ['.dockerignore', 'dockerignore'],
  ['Procfile', 'procfile'],
  ['app.json', 'appJson'],
]);

/** Of files at the source's root. */
export async function readTexts(source: Readable): Promise<SourceTexts> {
  const texts: SourceTexts = { hasSubmodules: false };
  const archive = extract();
  const read = async (): Promise<void> => {
    for await (const entry of archive) {
      const name = posix.normalize(entry.header.name);
      const key = names.get(name);
      if (name === submodulesFile) texts.hasSubmodules = true;
      if (key !== undefined && entry.header.type === 'file') {
        if (entry.header.size > maxTextBytes) throw new FlynnError('invalid', `${name} is larger than a megabyte.`);
        texts[key] = await text(entry);
      }
      entry.resume();
    }
  };
  await Promise.all([read(), pipeline(source, archive)]);
  return texts;
}

/** A failure of the source fails what is read here. */
export function packContext(source: Readable, { dockerfile, dockerignore = '' }: SourceTexts): Readable {
  const isIgnored = createDockerignore(dockerignore);
  const archive = extract();
  const packed = pack();
  const fill = async (): Promise<void> => {
    for await (const entry of archive) {
      const name = posix.normalize(entry.header.name).replace(/\/$/, '');
      if (name === dockerfileName)
        packed.entry({ ...entry.header, size: Buffer.byteLength(dockerfile ?? '') }, dockerfile ?? '');
      else if (name !== submodulesFile && !isIgnored(name)) {
        if (entry.header.type === 'file') await pipeline(Readable.from(entry), packed.entry(entry.header));
        else packed.entry(entry.header);
      }
      entry.resume();
    }
    packed.finalize();
  };
  const filling = Promise.all([fill(), pipeline(source, archive)]);
  filling.catch((error: unknown) => packed.destroy(error instanceof Error ? error : new Error(String(error))));
  return Readable.from(packed);
}
