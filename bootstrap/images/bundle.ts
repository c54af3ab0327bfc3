/** One file from a program and everything it imports. */
import { FlynnError, messageOf } from '@flynn/kit/errors';
import type { Plugin } from 'esbuild';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { root } from '../origin.ts';

export const repository = root;

/**
 * What cannot be bundled: ssh2's native parts are optional, and it does without; esbuild itself is a program, which nothing that
 * was bundled asks for.
 */
const external = ['esbuild', 'cpu-features', '*.node'];

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

/** Of 2,500 types of content, those that servers of this repository name, as the whole list has them. */
const contentTypes = {
  'application/json': { source: 'iana', charset: 'UTF-8', compressible: true, extensions: ['json', 'map'] },
  'application/octet-stream': { source: 'iana', compressible: true, extensions: ['bin'] },
  'text/html': { source: 'iana', compressible: true, extensions: ['html', 'htm', 'shtml'] },
  'text/plain': {
    source: 'iana',
    compressible: true,
    extensions: ['txt', 'text', 'conf', 'def', 'list', 'log', 'in', 'ini'],
  },
};

/**
 * What packages bring along, keep in memory, and nobody here asks them for: of the engine's client SSH and gRPC, other ways to
 * an engine (16 MB for one of their ciphers alone); of the schemas every language but English; of the server nearly all types of
 * content (3 MB), and who calls what is deprecated or makes a logger, for which stacks are taken apart and the places of all
 * code with them (up to 2 MB); of the client for certificates a second way to make keys.
 */
const unusedParts: readonly Unused[] = [
  {
    path: /^(ssh2|\.\/(session|buildkit)|@grpc\/grpc-js|@grpc\/proto-loader)$/,
    importer: /\/(dockerode|docker-modem)\/lib\//,
  },
  { path: /\/locales\/index\.js$/, importer: /\/zod\// },
  {
    path: /^mime-db$/,
    importer: /\/mime-types\/index\.js$/,
    contents: `module.exports = ${JSON.stringify(contentTypes)};`,
  },
  {
    path: /^depd$/,
    importer: /\/node_modules\//,
    contents: 'const none = () => {}; none.function = (one) => one; none.property = none; module.exports = () => none;',
  },
  { path: /^\.\/crypto\/forge$/, importer: /\/acme-client\/src\/index\.js$/ },
  { path: /^\.\/(lib\/)?(caller|transport)$/, importer: /\/pino\//, contents: 'module.exports = () => [];' },
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

/**
 * An import of these evaluates all they export: of node:http this loads the whole of the browsers' HTTP that Node has built in,
 * of node:tls every authority's certificate. 1.5 MB stay in each program. A require does none of it. What it answers is exported
 * name by name, as fast to use as what is imported, but for what is only made once it is asked for.
 */
const byRequire: Plugin = {
  name: 'by require',
  setup(building) {
    building.onResolve({ filter: /^(node:)?(http|tls)$/ }, ({ path, kind }) =>
      kind === 'require-call' ? undefined : { path, namespace: 'required' },
    );
    building.onResolve({ filter: /./, namespace: 'required' }, ({ path }) => ({ path, external: true }));
    building.onLoad({ filter: /./, namespace: 'required' }, ({ path }) => ({
      contents: `const all = require(${JSON.stringify(path)});
        export default all;
        export const { ${namesOf(path).join(', ')} } = all;`,
    }));
  },
};

function namesOf(path: string): string[] {
  const all: unknown = createRequire(import.meta.url)(path);
  const properties = Object.entries(Object.getOwnPropertyDescriptors(Object(all)));
  return properties.filter(([, property]) => 'value' in property).map(([name]) => name);
}

/**
 * etcd's client reads its protocol from files beside itself, with a parser that stays in memory. It is given what that makes of
 * them. Bundled, it takes 2 MB less of a program than as files of its own.
 */
const withProtocol: Plugin = {
  name: 'with protocol',
  setup(building) {
    building.onLoad({ filter: /\/etcd3\/lib\/connection-pool\.js$/ }, async ({ path }) => {
      const { default: protobuf } = await import('protobufjs');
      const protocol = new protobuf.Root().loadSync(join(dirname(path), '../proto/rpc.proto'), { keepCase: true });
      const text = JSON.stringify(JSON.stringify(protocol.toJSON()));
      const [before, after] = (await readFile(path, 'utf8')).split('loadSync)(`${__dirname}/../proto/rpc.proto`');
      if (before === undefined || after === undefined) throw new Error('etcd3 reads its protocol in another way now');
      return { contents: `${before}fromJSON)(JSON.parse(${text})${after}` };
    });
  },
};

/** The packages of the repository say `version`, whatever their files do. */
function withVersion(version: string): Plugin {
  return {
    name: 'with version',
    setup(building) {
      building.onLoad({ filter: /\/package\.json$/ }, async ({ path }) => {
        if (relative(repository, path).startsWith('node_modules')) return undefined;
        const packageFile: unknown = JSON.parse(await readFile(path, 'utf8'));
        return { contents: JSON.stringify(Object.assign(Object(packageFile), { version })), loader: 'json' };
      });
    },
  };
}

/** What a program says it is, if not what the repository says. */
export type Stamp = Readonly<{
  version?: string;
  /** What a program begins with, by its entry: to try updates to programs that differ, or that do not work. */
  prologue?: (entry: string) => string;
}>;

/**
 * The same bytes for the same sources, whatever folder the repository is in, and whatever version they are of unless they say
 * it.
 */
export async function bundle(entry: string, { version, prologue = () => '' }: Stamp = {}): Promise<Uint8Array> {
  try {
    const { build } = await import('esbuild');
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
      plugins: [byRequire, withoutUnused, withProtocol, ...(version === undefined ? [] : [withVersion(version)])],
      banner: { js: `${prologue(entry)}${banner}` },
      // The source stays in memory as long as the program runs. Names stay too, and lines for stack traces to point at. They are
      // not kept in properties (keepNames): each function would have a shape of its own, up to 2.5 MB of them.
      minifyWhitespace: true,
      minifySyntax: true,
      lineLimit: 160,
      legalComments: 'none',
      logLevel: 'silent',
    });
    return result.outputFiles[0]?.contents ?? new Uint8Array();
  } catch (error) {
    throw new FlynnError('internal', `could not bundle ${entry}: ${messageOf(error)}`, { cause: error });
  }
}
