/** One file from a program and everything it imports. */
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { build, type Plugin } from 'esbuild';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const repository = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '');

/** What cannot be bundled: etcd3 reads files beside itself; ssh2's native parts are optional, and it does without. */
const external = ['etcd3', 'cpu-features', '*.node'];

/** CommonJS packages in a module expect these to exist. */
const banner = [
  "import { createRequire as flynnCreateRequire } from 'node:module';",
  "import { fileURLToPath as flynnFileURLToPath } from 'node:url';",
  'const require = flynnCreateRequire(import.meta.url);',
  'const __filename = flynnFileURLToPath(import.meta.url);',
  "const __dirname = flynnFileURLToPath(new URL('.', import.meta.url));",
].join('\n');

/** `contents`: what its importer makes something of as soon as it is loaded. */
type Unused = { path: RegExp; importer: RegExp; contents?: string };

/**
 * What packages bring along, keep in memory, and nobody here asks them for: of the engine's client SSH and gRPC, other ways to
 * an engine (16 MB for one of their ciphers alone); of the schemas every language but English; of the HTTP client browsers'
 * ways to call, caches and mocks (half of it).
 */
const unusedParts: readonly Unused[] = [
  { path: /^(ssh2|\.\/session|@grpc\/grpc-js|@grpc\/proto-loader)$/, importer: /\/(dockerode|docker-modem)\/lib\// },
  { path: /\/locales\/index\.js$/, importer: /\/zod\// },
  {
    path: /^\.\/lib\/(web|mock|interceptor|cache)\//,
    importer: /\/undici\/index\.js$/,
    contents: 'exports.CacheStorage = class {};',
  },
];

const withoutUnused: Plugin = {
  name: 'without unused parts',
  setup(building) {
    for (const unused of unusedParts) {
      building.onResolve({ filter: unused.path }, ({ path, importer }) =>
        unused.importer.test(importer) ? { path, namespace: 'unused', pluginData: unused.contents } : undefined,
      );
    }
    building.onLoad({ filter: /./, namespace: 'unused' }, ({ pluginData }) => ({ contents: String(pluginData ?? '') }));
  },
};

/** The same bytes for the same sources, whatever folder the repository is in. */
export async function bundle(entry: string): Promise<Uint8Array> {
  try {
    const result = await build({
      absWorkingDir: repository,
      entryPoints: [join(repository, entry)],
      outfile: 'main.mjs',
      bundle: true,
      write: false,
      platform: 'node',
      target: 'node24',
      format: 'esm',
      external,
      plugins: [withoutUnused],
      banner: { js: banner },
      // The source stays in memory as long as the program runs. Names stay too, and lines for stack traces to point at.
      minifyWhitespace: true,
      minifySyntax: true,
      lineLimit: 160,
      legalComments: 'none',
      keepNames: true,
      logLevel: 'silent',
    });
    return result.outputFiles[0]?.contents ?? new Uint8Array();
  } catch (error) {
    throw new FlynnError('internal', `could not bundle ${entry}: ${messageOf(error)}`, { cause: error });
  }
}
