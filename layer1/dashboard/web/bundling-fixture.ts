/** Pages for tests: Node runs no TSX, so a file of it comes out of a bundle. */
import { join } from 'node:path';
import { build } from 'esbuild';

/** What that file of this folder exports. */
export async function loadBundled<T>(file: string): Promise<T> {
  const { outputFiles } = await build({
    entryPoints: [join(import.meta.dirname, file)],
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'node',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    // The terminal's screen needs a browser, and is loaded by one alone.
    external: ['./screen.tsx'],
  });
  const [bundle] = outputFiles;
  return (await import(`data:text/javascript;base64,${Buffer.from(bundle?.contents ?? '').toString('base64')}`)) as T;
}
