/** The source as the engine gets it: without what .dockerignore leaves out, its Dockerfile as it is to be read. */
import { posix } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { text } from 'node:stream/consumers';
import { FlynnError } from '@flynn/kit/errors';
import { type Extract, extract, pack } from 'tar-stream';
import { createDockerignore } from './dockerignore.ts';
import { modulesFile, toldFile } from './submodules.ts';

export type SourceTexts = {
  dockerfile?: string;
  dockerignore?: string;
  procfile?: string;
  appJson?: string;
  /** What the receiver tells of submodules, in the archive of a repository that has some. */
  told?: string;
  modules?: string;
};

const dockerfileName = 'Dockerfile';
const maxTextBytes = 1024 ** 2;
const names = new Map<string, keyof SourceTexts>([
  [dockerfileName, 'dockerfile'],
  ['.dockerignore', 'dockerignore'],
  ['Procfile', 'procfile'],
  ['app.json', 'appJson'],
  [toldFile, 'told'],
  [modulesFile, 'modules'],
]);

/** Of files at the source's root. */
export async function readTexts(source: Readable): Promise<SourceTexts> {
  const texts: SourceTexts = {};
  const archive = extract();
  const read = async (): Promise<void> => {
    for await (const entry of archive) {
      const name = posix.normalize(entry.header.name);
      const key = names.get(name);
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

/** Of one archive after the other. A failure of one of them fails what is read here. */
export function packContext(
  sources: readonly Readable[],
  { dockerfile, dockerignore = '' }: Pick<SourceTexts, 'dockerfile' | 'dockerignore'>,
): Readable {
  const isIgnored = createDockerignore(dockerignore);
  const packed = pack();
  const add = async (archive: Extract): Promise<void> => {
    for await (const entry of archive) {
      const name = posix.normalize(entry.header.name).replace(/\/$/, '');
      if (name === dockerfileName)
        packed.entry({ ...entry.header, size: Buffer.byteLength(dockerfile ?? '') }, dockerfile ?? '');
      else if (name !== toldFile && !isIgnored(name)) {
        if (entry.header.type === 'file') await pipeline(Readable.from(entry), packed.entry(entry.header));
        else packed.entry(entry.header);
      }
      entry.resume();
    }
  };
  const fill = async (): Promise<void> => {
    for (const source of sources) {
      const archive = extract();
      await Promise.all([add(archive), pipeline(source, archive)]);
    }
    packed.finalize();
  };
  fill().catch((error: unknown) => packed.destroy(error instanceof Error ? error : new Error(String(error))));
  return Readable.from(packed);
}
