/** The pages, built from their sources: scripts and styles under names that change with them, and compressed beside. */
import { readFile } from 'node:fs/promises';
import { basename, extname, join } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { FlynnError, messageOf } from '@flynn/kit/errors';

/** `path` is relative to the folder that the server is given. */
export type WebFile = Readonly<{ path: string; content: Uint8Array }>;

const repository = join(import.meta.dirname, '../..');
const sources = 'layer1/dashboard/web';
const compressed: ReadonlySet<string> = new Set(['.css', '.js', '.json', '.svg']);

/** The same bytes for the same sources, whatever folder the repository is in. */
export async function buildWeb(root: string = repository): Promise<WebFile[]> {
  try {
    const { build } = await import('esbuild');
    const { outputFiles, metafile } = await build({
      absWorkingDir: root,
      entryPoints: ['tsx', 'css'].map((extension) => ({ in: `${sources}/main.${extension}`, out: 'main' })),
      outdir: '.',
      entryNames: 'assets/[name]-[hash]',
      chunkNames: 'assets/[name]-[hash]',
      assetNames: 'assets/[name]-[hash]',
      publicPath: '/',
      bundle: true,
      splitting: true,
      write: false,
      metafile: true,
      minify: true,
      format: 'esm',
      platform: 'browser',
      target: ['es2022'],
      jsx: 'automatic',
      jsxImportSource: 'preact',
      loader: { '.svg': 'file', '.png': 'file', '.woff2': 'file' },
      define: { 'process.env.NODE_ENV': '"production"' },
      legalComments: 'none',
      logLevel: 'silent',
    });
    const entries = Object.entries(metafile.outputs).flatMap(([path, { entryPoint }]) =>
      entryPoint === undefined ? [] : [{ path, entryPoint }],
    );
    const assets = outputFiles.map(({ path, contents }) => ({ path: `assets/${basename(path)}`, content: contents }));
    const page = await readFile(join(root, sources, 'index.html'), 'utf8');
    const document = { path: 'index.html', content: Buffer.from(withNames(page, entries)) };
    const more = await Promise.all(assets.filter(({ path }) => compressed.has(extname(path))).map(compress));
    return [document, ...assets, ...more.flat()].toSorted((a, b) => (a.path < b.path ? -1 : 1));
  } catch (error) {
    if (error instanceof FlynnError) throw error;
    throw new FlynnError('internal', `could not build the pages: ${messageOf(error)}`, { cause: error });
  }
}

/** `/assets/main.js` and `/assets/main.css` as what was made of main.tsx and main.css is called. */
function withNames(page: string, entries: readonly Readonly<{ path: string; entryPoint: string }>[]): string {
  return ['js', 'css'].reduce((text, extension) => {
    const source = `${sources}/main.${extension === 'js' ? 'tsx' : 'css'}`;
    const made = entries.find(({ entryPoint, path }) => entryPoint === source && extname(path) === `.${extension}`);
    const place = `"/assets/main.${extension}"`;
    if (made === undefined || !text.includes(place)) {
      throw new FlynnError('internal', `${sources}/index.html has to refer to ${place}, made of ${source}`);
    }
    return text.replace(place, `"/${made.path}"`);
  }, page);
}

async function compress({ path, content }: WebFile): Promise<WebFile[]> {
  const params = { [constants.BROTLI_PARAM_SIZE_HINT]: content.length };
  const [br, gz] = await Promise.all([
    promisify(brotliCompress)(content, { params }),
    promisify(gzip)(content, { level: 9 }),
  ]);
  return [
    { path: `${path}.br`, content: br },
    { path: `${path}.gz`, content: gz },
  ];
}
