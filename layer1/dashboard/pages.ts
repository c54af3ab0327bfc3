/** The pages as they were built: one document for every path, and files whose names change with what is in them. */
import { createReadStream } from 'node:fs';
import { readFile, readdir, stat } from 'node:fs/promises';
import type { IncomingHttpHeaders, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { extname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { FlynnError } from '@flynn/kit/errors';
import { guarded, pagePolicy } from './answer.ts';
import type { Asking } from './asking.ts';

export const assetsPath = '/assets/';

const types: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
};

/** Smallest first. Each file lies beside the one it was made of. */
const encodings = [
  { name: 'br', suffix: '.br' },
  { name: 'gzip', suffix: '.gz' },
] as const;

type Variant = Readonly<{ file: string; bytes: number; encoding: 'br' | 'gzip' | undefined }>;
type Asset = Readonly<{ type: string; variants: readonly Variant[] }>;

export class Pages {
  readonly #document: Buffer;
  readonly #assets: ReadonlyMap<string, Asset>;

  private constructor(document: Buffer, assets: ReadonlyMap<string, Asset>) {
    this.#document = document;
    this.#assets = assets;
  }

  /** `not_found` where no pages are. Files are read when they are asked for, and listed once. */
  static async open(folder: string): Promise<Pages> {
    try {
      const assets = join(folder, assetsPath);
      const names = new Set(await readdir(assets));
      const own = [...names].filter((name) => types[extname(name)] !== undefined);
      const entries = own.map(async (name) => [name, await assetAt(assets, name, names)] as const);
      return new Pages(await readFile(join(folder, 'index.html')), new Map(await Promise.all(entries)));
    } catch (error) {
      throw new FlynnError('not_found', `there are no pages in ${folder}: FLYNN_WEB_DIR says where they are`, {
        cause: error,
      });
    }
  }

  sendDocument(response: ServerResponse, asking: Asking): void {
    response.writeHead(200, {
      ...guarded,
      'content-security-policy': pagePolicy(asking),
      'content-type': 'text/html; charset=utf-8',
      // Names of what it refers to change with each version.
      'cache-control': 'no-cache',
      'content-length': this.#document.length,
    });
    response.end(response.req.method === 'HEAD' ? undefined : this.#document);
  }

  /** `not_found` for what there is not: never the document, which would be taken for a script. */
  async sendAsset(response: ServerResponse, name: string): Promise<void> {
    const asset = this.#assets.get(name);
    if (asset === undefined) {
      throw new FlynnError('not_found', 'there is no such file: the page is of another version, load it again');
    }
    const { file, bytes, encoding } = variantFor(asset.variants, response.req.headers);
    const encoded: OutgoingHttpHeaders = encoding === undefined ? {} : { 'content-encoding': encoding };
    response.writeHead(200, {
      ...guarded,
      ...encoded,
      'content-type': asset.type,
      'content-length': bytes,
      'cache-control': 'public, max-age=31536000, immutable',
      vary: 'accept-encoding',
    });
    if (response.req.method === 'HEAD') return void response.end();
    await pipeline(createReadStream(file), response).catch(() => response.destroy());
  }
}

async function assetAt(folder: string, name: string, names: ReadonlySet<string>): Promise<Asset> {
  const made = encodings.filter(({ suffix }) => names.has(`${name}${suffix}`));
  const variants = made.map(({ name: encoding, suffix }) => variantAt(join(folder, `${name}${suffix}`), encoding));
  const plain = variantAt(join(folder, name), undefined);
  return { type: types[extname(name)] ?? '', variants: await Promise.all([...variants, plain]) };
}

async function variantAt(file: string, encoding: Variant['encoding']): Promise<Variant> {
  return { file, bytes: (await stat(file)).size, encoding };
}

/** The first that the browser takes; the plain one stands last. */
function variantFor(variants: readonly Variant[], headers: IncomingHttpHeaders): Variant {
  const asked = (headers['accept-encoding'] ?? '').toLowerCase().split(',');
  const taken = asked.filter((one) => !/;\s*q=0(\.0*)?\s*$/.test(one)).map((one) => one.split(';', 1)[0]?.trim());
  const isTaken = new Set<string | undefined>([...taken, undefined]);
  const found = variants.find(({ encoding }) => isTaken.has(encoding));
  if (found === undefined) throw new FlynnError('internal', 'a file of the pages has no plain form');
  return found;
}
