/** The import table of ARCHITECTURE.md, asserted: who may import whom, and only through its exports. Comments are wrapped, too. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { test } from 'node:test';

const root = resolve(import.meta.dirname, '..');

/** Folder of each package → packages it may import, itself always included. */
const mayImport: Record<string, readonly string[]> = {
  'layer0/kit': [],
  'layer0/store': ['kit'],
  'layer0/resource': ['kit', 'store'],
  'layer0/discovery': ['kit', 'store'],
  'layer0/scheduler': ['kit', 'store'],
  'layer0/host-agent': ['kit', 'store', 'discovery', 'scheduler'],
  'layer1/appliances': ['kit'],
  'layer1/blobstore': ['kit', 'discovery'],
  'layer1/log-aggregator': ['kit', 'discovery'],
  'layer1/controller': [
    'kit',
    'store',
    'resource',
    'discovery',
    'scheduler',
    'host-agent',
    'log-aggregator',
    'blobstore',
    'appliances',
  ],
  'layer1/runner': ['kit', 'discovery', 'blobstore', 'controller', 'git-receiver'],
  'layer1/git-receiver': ['kit', 'discovery', 'blobstore', 'controller'],
  'layer1/slug-builder': ['kit', 'discovery', 'blobstore', 'controller', 'host-agent', 'scheduler'],
  'layer1/router': ['kit', 'discovery', 'controller'],
  'layer1/dashboard': ['kit', 'discovery', 'controller', 'log-aggregator'],
  cli: ['kit', 'controller', 'log-aggregator'],
  bootstrap: ['kit', 'store', 'scheduler', 'host-agent', 'discovery', 'controller', 'dashboard', 'cli'],
  test: ['kit', 'store', 'discovery', 'bootstrap', 'scheduler', 'controller', 'log-aggregator', 'router'],
};

const packageOf = (file: string): string | undefined =>
  Object.keys(mayImport).find((folder) => relative(root, file).startsWith(`${folder}/`));

function importsOf(file: string): string[] {
  const source = readFileSync(file, 'utf8');
  return [
    ...source.matchAll(/^\s*(?:import|export)\s[^'"]*?from\s+'([^']+)'|^\s*import\s+'([^']+)'|import\('([^']+)'\)/gm),
  ].map((match) => match[1] ?? match[2] ?? match[3] ?? '');
}

const files = globSync('{layer0,layer1,bootstrap,cli,test}/**/*.{ts,tsx}', { cwd: root })
  .filter((file) => !file.includes('node_modules') && !file.startsWith('test/apps/'))
  .map((file) => join(root, file));

test('every source file belongs to a package of the table', () => {
  assert.ok(files.length > 100, `only ${files.length} files found`);
  assert.deepEqual(
    files.filter((file) => packageOf(file) === undefined).map((file) => relative(root, file)),
    [],
  );
});

test('imports go one way: only what the table allows', () => {
  const violations = files.flatMap((file) => {
    const folder = packageOf(file) ?? '';
    const allowed = new Set([...(mayImport[folder] ?? []), folder.split('/').at(-1)]);
    return importsOf(file).flatMap((specifier) => {
      const name = /^@flynn\/([a-z-]+)\//.exec(specifier)?.[1];
      return name === undefined || allowed.has(name) ? [] : [`${relative(root, file)} imports ${specifier}`];
    });
  });
  assert.deepEqual(violations, []);
});

test('another package is reached only through its exports, never by a relative path', () => {
  const violations = files.flatMap((file) =>
    importsOf(file)
      .filter((specifier) => specifier.startsWith('.'))
      .filter((specifier) => packageOf(resolve(dirname(file), specifier)) !== packageOf(file))
      .map((specifier) => `${relative(root, file)} imports ${specifier}`),
  );
  assert.deepEqual(violations, []);
});

test('what a package imports stands in its package.json', () => {
  const violations = files.flatMap((file) => {
    const folder = packageOf(file) ?? '';
    const manifest = JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8')) as {
      name: string;
      dependencies?: Record<string, string>;
      devDependencies?: Record<string, string>;
    };
    const declared = new Set([
      manifest.name,
      ...Object.keys(manifest.dependencies ?? {}),
      ...Object.keys(manifest.devDependencies ?? {}),
      // What every package's tests and types stand on, declared once at the root.
      'fast-check',
    ]);
    return importsOf(file)
      .filter((specifier) => !specifier.startsWith('.') && !specifier.startsWith('node:'))
      .map((specifier) =>
        specifier.startsWith('@') ? specifier.split('/').slice(0, 2).join('/') : (specifier.split('/')[0] ?? ''),
      )
      .filter((name) => !declared.has(name))
      .map((name) => `${relative(root, file)} imports ${name}`);
  });
  assert.deepEqual([...new Set(violations)], []);
});

test('comments are wrapped: the formatter leaves them as they are', () => {
  const isLong = (line: string): boolean => line.length > 132 && /^\s*(?:\/\*\*|\*|\/\/)\s/.test(line);
  const long = files.flatMap((file) =>
    readFileSync(file, 'utf8')
      .split('\n')
      .flatMap((line, index) => (isLong(line) ? [`${relative(root, file)}:${index + 1}`] : [])),
  );
  assert.deepEqual(long, []);
});

test('what people type on a host differs by how it was installed, and is named in one file for both', () => {
  const table = 'layer0/kit/operator-commands.ts';
  const isCommand = /npm run (?:up|down)\b|flynn-host (?:bootstrap|join|token|uninstall)\b/;
  const named = files
    .map((file) => relative(root, file))
    .filter((file) => !file.startsWith('test/') && !file.endsWith('.test.ts') && file !== table)
    .flatMap((file) =>
      readFileSync(join(root, file), 'utf8')
        .split('\n')
        .flatMap((line, index) =>
          isCommand.test(line) && !/^\s*(?:\/\*\*|\*|\/\/)/.test(line) ? [`${file}:${index + 1}`] : [],
        ),
    );
  assert.deepEqual(named, [], `${table} has them`);
});
