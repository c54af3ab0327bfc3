/** A recipe's files as they are on this machine now: enough to name the image, and to fill it. */
import { lstat, mkdtemp, readFile, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, posix } from 'node:path';
import { FlynnError } from '@flynn/kit/errors';
import { runProgram } from '../machine/program.ts';
import { type Stamp, bundle, repository } from './bundle.ts';
import type { Machine } from './machine.ts';
import type { FileSource } from './recipes.ts';
import { type Ingredient, digestOf } from './tag.ts';

export type TarEntry =
  | { type: 'file'; path: string; mode: number; content: Uint8Array }
  | { type: 'large'; path: string; mode: number; file: string; sizeBytes: number }
  | { type: 'link'; path: string; target: string };

/** `entries` may reach out to the network: called only when the image is really built. */
export type Prepared = Readonly<{ ingredients: readonly Ingredient[]; entries: () => Promise<TarEntry[]> }>;

export async function prepareFile(source: FileSource, machine: Machine, stamp: Stamp = {}): Promise<Prepared> {
  switch (source.type) {
    case 'text':
      return ofFiles([{ type: 'file', path: source.path, mode: source.mode, content: Buffer.from(source.text) }]);
    case 'bundle':
      return ofFiles([{ type: 'file', path: source.path, mode: 0o644, content: await bundle(source.entry, stamp) }]);
    case 'web': {
      const { buildWeb } = await import('@flynn/dashboard/web-build');
      return ofFiles(
        (await buildWeb()).map(({ path, content }) => {
          return { type: 'file', path: posix.join(source.path, path), mode: 0o644, content };
        }),
      );
    }
    case 'repository':
      return ofFiles(await readTree(join(repository, source.source), source.path, source.mode));
    case 'node':
      return nodeBinary(source.path);
    case 'node-headers':
      return nodeHeaders(source.path);
    case 'npm':
      return {
        ingredients: [{ path: source.path, digest: `npm:${source.name}@${source.version}`, mode: 0 }],
        entries: () => fetchPackage(source),
      };
    case 'certificates':
      return machine.certificatesFile === undefined
        ? { ingredients: [], entries: async () => [] }
        : ofFiles([
            { type: 'file', path: source.path, mode: 0o644, content: await readFile(machine.certificatesFile) },
          ]);
    case 'link':
      return {
        ingredients: [{ path: source.path, digest: `link:${source.target}`, mode: 0 }],
        entries: async () => [{ type: 'link', path: source.path, target: source.target }],
      };
    default:
      return source satisfies never;
  }
}

function ofFiles(files: readonly Extract<TarEntry, { type: 'file' }>[]): Prepared {
  return {
    ingredients: files.map(({ path, mode, content }) => ({ path, mode, digest: digestOf(content) })),
    entries: async () => [...files],
  };
}

async function readTree(source: string, path: string, mode: number): Promise<Extract<TarEntry, { type: 'file' }>[]> {
  const stat = await lstat(source).catch((error: unknown) => {
    throw new FlynnError('not_found', `${source}, which an image is made of, is not there`, { cause: error });
  });
  if (stat.isFile()) return [{ type: 'file', path, mode, content: await readFile(source) }];
  if (!stat.isDirectory()) return [];
  const names = (await readdir(source)).sort();
  const inner = names.map((name) => readTree(join(source, name), posix.join(path, name), mode));
  return (await Promise.all(inner)).flat();
}

/** Which Node the platform's programs run on: agents compare it with their own. */
export async function nodeId(): Promise<string> {
  const { folder, id } = await nodePackage();
  const { size } = await lstat(join(folder, 'bin/node'));
  return `${id}:${size}`;
}

/** A hundred megabytes that one version number stands for. */
async function nodePackage(): Promise<{ folder: string; id: string }> {
  const arch = process.arch === 'arm64' ? 'arm64' : 'x64';
  const folder = join(repository, 'node_modules', `node-linux-${arch}`);
  const manifest: unknown = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'));
  const version =
    typeof manifest === 'object' && manifest !== null && 'version' in manifest ? String(manifest.version) : '';
  return { folder, id: `${arch}:${version}` };
}

async function nodeBinary(path: string): Promise<Prepared> {
  const { folder, id } = await nodePackage();
  const file = join(folder, 'bin/node');
  const { size } = await lstat(file);
  return {
    ingredients: [{ path, mode: 0o755, digest: `node:${id}:${size}` }],
    entries: async () => [{ type: 'large', path, mode: 0o755, file, sizeBytes: size }],
  };
}

async function nodeHeaders(path: string): Promise<Prepared> {
  const { folder, id } = await nodePackage();
  return {
    ingredients: [{ path, mode: 0o644, digest: `node-headers:${id}` }],
    entries: () => readTree(join(folder, 'include/node'), path, 0o644),
  };
}

async function fetchPackage(source: { name: string; version: string; path: string }): Promise<TarEntry[]> {
  const folder = await mkdtemp(join(tmpdir(), 'flynn-npm-'));
  try {
    await runProgram(
      'npm',
      [
        'install',
        '--prefix',
        folder,
        '--no-save',
        '--no-audit',
        '--no-fund',
        '--ignore-scripts',
        `${source.name}@${source.version}`,
      ],
      {
        timeoutMs: 180_000,
        cwd: folder,
        env: { npm_config_prefix: undefined, npm_config_local_prefix: undefined, INIT_CWD: undefined },
      },
    );
    return await readTree(join(folder, 'node_modules', source.name), source.path, 0o755);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
