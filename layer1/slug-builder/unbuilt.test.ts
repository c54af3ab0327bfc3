import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bench } from './compile-fixture.ts';
import { unbuiltIn } from './unbuilt.ts';

const repositories: [string[], RegExp | undefined][] = [
  [['Procfile', 'build.sbt'], /build\.sbt.*builds sbt.*BUILDPACK_URL/],
  [['Shop.csproj'], /Shop\.csproj.*\.NET/],
  [['Package.resolved', 'Package.swift'], /Package\.swift.*Swift/],
  [['Pipfile'], /pipenv lock/],
  [['Procfile', 'run', 'Makefile', 'README.md'], undefined],
];
for (const [names, expected] of repositories) {
  test(`${names.join(', ')}: ${expected === undefined ? 'nothing has to be built' : 'it is said what nobody builds'}`, () => {
    if (expected === undefined) assert.equal(unbuiltIn(names), undefined);
    else assert.match(unbuiltIn(names) ?? '', expected);
  });
}

test('a Procfile does not make an app of what nobody built, unless somebody says that it does', async () => {
  await using b = await bench({ 'build.sbt': '', Procfile: 'web: java -jar target/app.jar\n' });
  await assert.rejects(b.compile(), { code: 'invalid', message: /no buildpack here builds sbt[^]*procfile/ });
  assert.equal((await b.compile({ BUILDPACK_URL: 'procfile' })).buildpack, 'procfile');
});

test('what was found instead is part of what was looked for', async () => {
  await using b = await bench({ 'Package.swift': '' });
  await assert.rejects(b.compile(), {
    code: 'invalid',
    message: /Looked for[^]*Package\.swift, and no buildpack here builds Swift/,
  });
});
