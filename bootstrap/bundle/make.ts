/** One file from which hosts are installed: made here, from this repository and the images this machine builds. */
import { createWriteStream } from 'node:fs';
import { copyFile, mkdir, mkdtemp, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { toZstd } from '@flynn/kit/compression';
import { FlynnError } from '@flynn/kit/errors';
import { commandOf } from '@flynn/kit/processes';
import { defaultSocket, ensureEngine } from '../machine/engine.ts';
import { features } from '../update/features.ts';
import { archiveOf } from '../images/archive.ts';
import type { Stamp } from '../images/bundle.ts';
import { ensureImages } from '../images/build.ts';
import { type TarEntry, prepareFile } from '../images/ingredients.ts';
import { readMachine } from '../images/machine.ts';
import { debianSuite, imageNames } from '../images/recipes.ts';
import { savedImages } from '../images/saved.ts';
import { digestOf } from '../images/tag.ts';
import { type Bundle, bundleSchema, digestsFile, imagesFile, isInstalled, root, versionOfThis } from '../origin.ts';
import { digestOfFile } from './digest.ts';
import { platformOf, sourcesOf, topFolder, versionIn } from './contents.ts';

export type MakeOptions = {
  /** Where the bundle, its digest and the installer go. */
  folder: string;
  /** What it says it is, if not the version of the repository. */
  version?: string;
  prologue?: Stamp['prologue'];
  now: Date;
  report: (line: string) => void;
};

/** The file, complete or not there; one of the same version is replaced. */
export async function makeBundle({ folder, version: given, prologue, now, report }: MakeOptions): Promise<string> {
  if (isInstalled) throw new FlynnError('invalid', 'a bundle is made in the repository, and this is one already');
  const version = versionIn(given ?? versionOfThis());
  if (version === undefined) {
    throw new FlynnError('invalid', `"${given}" is no version: expected one like 1.2.3 or 1.2.3-rc.1`);
  }
  const stamp = { ...(given === undefined ? {} : { version }), ...(prologue === undefined ? {} : { prologue }) };
  await mkdir(folder, { recursive: true });
  const scratch = await makeScratch(folder);
  try {
    const { docker } = await ensureEngine();
    const images = await ensureImages({ docker, report, stamp });
    const made: Bundle = bundleSchema.parse({
      version,
      platform: platformOf(process.arch),
      madeAt: now.toISOString(),
      features,
      images: Object.fromEntries(imageNames.map((name) => [name, images.get(name)])),
    });
    report('saving images');
    const saved = join(scratch, imagesFile);
    let imagesBytes = 0;
    const counting = new Transform({
      transform(chunk: Buffer, _encoding, done) {
        imagesBytes += chunk.length;
        done(undefined, chunk);
      },
    });
    await pipeline(
      await savedImages(defaultSocket, Object.values(made.images)),
      counting,
      toZstd(3),
      createWriteStream(saved),
    );
    const bundle = { ...made, imagesBytes };
    const machine = await readMachine(debianSuite, process.env);
    const prepared = await Promise.all(sourcesOf(bundle).map((source) => prepareFile(source, machine, stamp)));
    const entries = (await Promise.all(prepared.map((one) => one.entries()))).flat();
    const { size: sizeBytes } = await stat(saved);
    entries.push({ type: 'large', path: `${topFolder}/${imagesFile}`, mode: 0o644, file: saved, sizeBytes });
    report('packing');
    const name = `flynn-${version}-${bundle.platform}.tar.gz`;
    const packed = join(scratch, name);
    const digest = await pack([...(await firstEntries(version, entries)), ...entries], packed);
    await writeFile(join(folder, `${name}.sha256`), `${digest}  ${name}\n`);
    await copyFile(join(root, 'bootstrap/install'), join(folder, 'install'));
    await rename(packed, join(folder, name));
    return join(folder, name);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

/** Those of programs that were broken off go first: each may be as large as a bundle. */
export async function makeScratch(folder: string): Promise<string> {
  for (const name of await readdir(folder)) {
    const pid = /^\.making-(\d+)-/.exec(name)?.[1];
    if (pid === undefined || (await commandOf(Number(pid))).length > 0) continue;
    await rm(join(folder, name), { recursive: true, force: true });
  }
  return await mkdtemp(join(folder, `.making-${process.pid}-`));
}

/** What the installer reads before it unpacks the rest. */
async function firstEntries(version: string, entries: readonly TarEntry[]): Promise<TarEntry[]> {
  const lines: string[] = [];
  for (const entry of entries) lines.push(`${await digestOfEntry(entry)}  ${entry.path.slice(topFolder.length + 1)}\n`);
  const text = (name: string, content: string): TarEntry => ({
    type: 'file',
    path: `${topFolder}/${name}`,
    mode: 0o644,
    content: Buffer.from(content),
  });
  return [text('VERSION', `${version}\n`), text(digestsFile, lines.sort().join(''))];
}

async function digestOfEntry(entry: TarEntry): Promise<string> {
  switch (entry.type) {
    case 'file':
      return digestOf(entry.content);
    case 'large':
      return await digestOfFile(entry.file);
    case 'link':
      throw new FlynnError('internal', `${entry.path}: sha256sum tells nothing of links`);
    default:
      return entry satisfies never;
  }
}

/** Its digest. Most of it is compressed already. */
async function pack(entries: readonly TarEntry[], file: string): Promise<string> {
  await pipeline(archiveOf(entries), createGzip({ level: 1 }), createWriteStream(file));
  return await digestOfFile(file);
}

export function nextText(file: string): string {
  const name = basename(file);
  return `${file}\n\nWith install beside it, on a bare Debian or Ubuntu machine, as root:\n\n  sh install --bundle ${name}\n`;
}
