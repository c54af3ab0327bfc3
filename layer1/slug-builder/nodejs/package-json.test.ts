import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  bunStartCommand,
  buildScript,
  missingStart,
  needsPackages,
  parsePackageJson,
  plainFile,
  startCommand,
  startProgram,
} from './package-json.ts';

const starts: [Record<string, string>, boolean, string | undefined][] = [
  [{ start: 'node server.js' }, false, 'node server.js'],
  [
    { start: 'node --enable-source-maps dist/main.js --port=80' },
    false,
    'node --enable-source-maps dist/main.js --port=80',
  ],
  [{ start: 'NODE_ENV=production node server.js' }, false, 'NODE_ENV=production node server.js'],
  [{ start: 'next start -p $PORT' }, false, 'npm start'],
  [{ start: 'node a.js && node b.js' }, false, 'npm start'],
  [{ start: 'node $npm_package_main' }, false, 'npm start'],
  [{ start: 'node server.js', prestart: 'node migrate.js' }, false, 'npm start'],
  [{}, true, 'node server.js'],
  [{}, false, undefined],
];
for (const [scripts, hasServerFile, expected] of starts) {
  test(`${JSON.stringify(scripts)} ${hasServerFile ? 'with server.js ' : ''}starts ${expected ?? 'nothing'}`, () => {
    assert.equal(startCommand(parsePackageJson(JSON.stringify({ scripts })), 'npm', hasServerFile), expected);
  });
}

const bunStarts: [Record<string, string>, string | undefined, string | undefined][] = [
  [{ start: 'bun src/server.ts' }, 'index.ts', 'bun src/server.ts'],
  [{ start: 'NODE_ENV=production node dist/main.js' }, undefined, 'NODE_ENV=production node dist/main.js'],
  [{ start: 'next start -p $PORT' }, undefined, 'bun run start'],
  [{ start: 'bun server.ts', prestart: 'bun migrate.ts' }, undefined, 'bun run start'],
  [{}, 'index.ts', 'bun index.ts'],
  [{}, undefined, undefined],
];
for (const [scripts, file, expected] of bunStarts) {
  test(`Bun with ${JSON.stringify(scripts)} ${file === undefined ? '' : `and ${file} `}starts ${expected ?? 'nothing'}`, () => {
    assert.equal(bunStartCommand(parsePackageJson(JSON.stringify({ scripts })), file), expected);
  });
}

test('a file that package.json names is started where it needs no quotes', () => {
  assert.deepEqual(plainFile('./src/app.tsx'), ['src/app.tsx']);
  for (const other of [undefined, "a'b.js", '../x.js', '/x.js', 'styles.css']) assert.deepEqual(plainFile(other), []);
});

test('heroku-postbuild takes the place of build', () => {
  assert.equal(buildScript(parsePackageJson('{"scripts":{"build":"a","heroku-postbuild":"b"}}')), 'heroku-postbuild');
  assert.equal(buildScript(parsePackageJson('{"scripts":{"build":"a"}}')), 'build');
  assert.equal(buildScript(parsePackageJson('{}')), undefined);
});

test('a package.json that is not JSON is refused saying so', () => {
  assert.throws(() => parsePackageJson('{,}'), { code: 'invalid', message: /package\.json is not JSON/ });
});

test('an app without packages has nothing that a lockfile could pin', () => {
  const needs = (manifest: string): boolean => needsPackages(parsePackageJson(manifest));
  assert.equal(needs('{"name":"hello","scripts":{"start":"node server.js"},"dependencies":{}}'), false);
  for (const kind of ['dependencies', 'devDependencies', 'optionalDependencies', 'peerDependencies']) {
    assert.equal(needs(JSON.stringify({ [kind]: { koa: '3.x' } })), true, kind);
  }
  assert.equal(needs('{"workspaces":["packages/*"]}'), true);
});

const programs: [start: string, web: string | undefined, program: string | undefined][] = [
  ['nest start', 'npm start', 'nest'],
  ['NODE_ENV=production tsx src/server.ts', 'yarn run start', 'tsx'],
  ['vite preview', 'pnpm start --port $PORT', 'vite'],
  ['vite preview', 'bun run start', 'vite'],
  ['nest start', 'npm run start:prod', undefined],
  ['nest start', undefined, undefined],
  ['$RUNNER start', 'npm start', undefined],
  ['./bin/www', 'npm start', undefined],
];
for (const [start, web, program] of programs) {
  test(`"${start}" runs ${program ?? 'nothing known'} where web is ${web ?? 'nothing'}`, () => {
    assert.equal(startProgram(parsePackageJson(JSON.stringify({ scripts: { start } })), web), program);
  });
}

test('whose start script has lost its program is told of the script for production', () => {
  const nest = parsePackageJson('{"scripts":{"start":"nest start","start:prod":"node dist/main"}}');
  assert.match(missingStart('nest', nest, 'npm'), /runs nest, .*\n.*echo 'web: npm run start:prod' > Procfile/);
  const plain = parsePackageJson('{"scripts":{"start":"tsx a.ts"}}');
  assert.doesNotMatch(missingStart('tsx', plain, 'npm'), /Procfile/);
});
