/** The source as the engine gets it: without what .dockerignore leaves out, its Dockerfile as it is to be read. */
import { posix } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { text } from 'node:stream/consumers';
import { FlynnError } from '@flynn/kit/errors';
import { type Extract, extract, pack } from 'tar-stream';
import { createDockerignore } from './dockerignore.ts';
import { isPointer, mostPointerBytes } from './lfs-pointers.ts';
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

export const usualDockerfile = 'Dockerfile';
const maxTextBytes = 1024 ** 2;

/** Where each may be: the first that is there counts. What belongs to a Dockerfile is beside it, or at the source's top. */
function placesOf(dockerfile: string): [keyof SourceTexts, readonly string[]][] {
  const beside = (name: string): string => posix.join(posix.dirname(dockerfile), name);
  return [
    ['dockerfile', [dockerfile]],
    ['dockerignore', [`${dockerfile}.dockerignore`, '.dockerignore']],
    ['procfile', [beside('Procfile'), 'Procfile']],
    ['appJson', [beside('app.json'), 'app.json']],
    ['told', [toldFile]],
    ['modules', [modulesFile]],
  ];
}

/** Of a source whose Dockerfile is at that path; and which of all files that the engine gets are pointers of Git LFS. */
export async function readTexts(source: Readable, dockerfile: string): Promise<SourceTexts & { pointers: string[] }> {
  const places = placesOf(dockerfile);
  const wanted = new Set(places.flatMap(([, paths]) => paths));
  const found = new Map<string, string>();
  const pointers: string[] = [];
  const archive = extract();
  const read = async (): Promise<void> => {
    for await (const entry of archive) {
      const name = posix.normalize(entry.header.name);
      if (wanted.has(name) && entry.header.type === 'file') {
        if (entry.header.size > maxTextBytes) throw new FlynnError('invalid', `${name} is larger than a megabyte.`);
        found.set(name, await text(entry));
      } else if (entry.header.type === 'file' && (entry.header.size ?? Infinity) <= mostPointerBytes) {
        if (isPointer(await text(entry))) pointers.push(name);
      }
      entry.resume();
    }
  };
  await Promise.all([read(), pipeline(source, archive)]);
  const texts: SourceTexts = {};
  for (const [key, paths] of places) {
    const content = paths.map((path) => found.get(path)).find((one) => one !== undefined);
    if (content !== undefined) texts[key] = content;
  }
  const isIgnored = createDockerignore(texts.dockerignore ?? '');
  return { ...texts, pointers: pointers.filter((name) => !isIgnored(name)) };
}

/** Of one archive after the other. A failure of one of them fails what is read here; who leaves it leaves them. */
export function packContext(
  sources: readonly Readable[],
  { dockerfile, dockerignore = '', path }: Pick<SourceTexts, 'dockerfile' | 'dockerignore'> & { path: string },
): Readable {
  const isIgnored = createDockerignore(dockerignore);
  const packed = pack();
  const add = async (archive: Extract): Promise<void> => {
    for await (const entry of archive) {
      const name = posix.normalize(entry.header.name).replace(/\/$/, '');
      if (name === path) {
        // Whatever it is in the source: the engine reads this text, and no link instead.
        const { mode, mtime } = entry.header;
        packed.entry(
          { name, ...(mode === undefined ? {} : { mode }), ...(mtime === undefined ? {} : { mtime }) },
          dockerfile ?? '',
        );
      } else if (name !== toldFile && !isIgnored(name)) {
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
  packed.once('close', () => {
    for (const source of sources) source.destroy();
  });
  fill().catch((error: unknown) => packed.destroy(error instanceof Error ? error : new Error(String(error))));
  return Readable.from(packed);
}
