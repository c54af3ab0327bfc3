import assert from 'node:assert/strict';
import { test } from 'node:test';
import { buildScript, needsPackages, parsePackageJson, startCommand } from './package-json.ts';

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
