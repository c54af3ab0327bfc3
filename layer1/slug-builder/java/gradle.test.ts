import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { bench, write } from '../compile-fixture.ts';
import { selectBuildpacks } from '../selection.ts';
import { checkWrapper, forgetScripts, gradleHomeOf, readGradle } from './gradle.ts';
import { java } from './java.ts';

const starting = 'exec "$JAVACMD" -classpath gradle/wrapper/gradle-wrapper.jar';

test('any file of Gradle at the top makes the app one of it, and a pom.xml counts before', async () => {
  for (const file of ['build.gradle', 'build.gradle.kts', 'settings.gradle', 'settings.gradle.kts', 'gradlew']) {
    await using b = await bench({ [file]: '' });
    assert.equal(await java.detect(b.context()), 'Gradle', file);
  }
  await using both = await bench({ 'pom.xml': '', 'build.gradle': '' });
  assert.equal(await java.detect(both.context()), 'Java');
  await using none = await bench({ 'lib/build.gradle': '' });
  assert.equal(await java.detect(none.context()), undefined);
});

test('it may be named as Heroku names it', async () => {
  await using b = await bench({ 'build.gradle': '', '.buildpacks': 'heroku/gradle\n' });
  assert.deepEqual(
    (await selectBuildpacks(b.context())).map(({ buildpack }) => buildpack.name),
    ['java'],
  );
});

test('build files of modules are read too', async () => {
  await using b = await bench({
    'settings.gradle.kts': 'include("app")',
    'app/build.gradle.kts': 'plugins {}',
    'other/build.gradle': '',
  });
  assert.deepEqual(await readGradle(b.layout.appDir), {
    builds: [{ file: 'app/build.gradle.kts', text: 'plugins {}' }],
    modules: ['app'],
  });
});

test('an app without its wrapper is refused, and told how to make one', async () => {
  await using without = await bench({ 'build.gradle': '' });
  await assert.rejects(checkWrapper(without.layout.appDir, '21'), {
    code: 'invalid',
    message: /no gradlew[^]*"gradle wrapper".*commit/,
  });
  await using half = await bench({ gradlew: starting });
  await assert.rejects(checkWrapper(half.layout.appDir, '21'), {
    code: 'invalid',
    message: /\.gitignore[^]*git add -f gradle\/wrapper/,
  });
  await using old = await bench({
    gradlew: starting,
    'gradle/wrapper/gradle-wrapper.jar': '',
    'gradle/wrapper/gradle-wrapper.properties': 'distributionUrl=https\\://x.example/gradle-7.6-bin.zip\n',
  });
  await assert.rejects(checkWrapper(old.layout.appDir, '21'), { code: 'invalid', message: /Gradle 7\.6/ });
  await checkWrapper(old.layout.appDir, '17');
});

test('what a build before wrote into its kept home, to be run by every build, is in no other build', async () => {
  await using b = await bench({ 'build.gradle': '' });
  const home = gradleHomeOf(b.context());
  await forgetScripts(home);
  const scripts = ['init.d/mirror.gradle', 'init.gradle', 'init.gradle.kts', 'gradle.properties'];
  const kept = ['caches/modules-2/a.jar', 'wrapper/dists/gradle-9/bin/gradle'];
  await write(home, Object.fromEntries([...scripts, ...kept].map((path) => [path, 'x'])));
  await forgetScripts(home);
  const files = await readdir(home, { recursive: true, withFileTypes: true });
  const left = files.filter((file) => file.isFile()).map(({ parentPath, name }) => join(parentPath, name));
  assert.deepEqual(left.sort(), kept.map((path) => join(home, path)).sort());
});
