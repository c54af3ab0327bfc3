import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { bench, write } from '../compile-fixture.ts';
import { exists } from '../nodejs/toolchain.ts';
import { startOfGradle, tidyGradle } from './gradle-start.ts';

const app = { modules: [], isOfMicronaut: false };

async function writeJar(appDir: string, path: string, manifest: string): Promise<void> {
  const folder = join(appDir, 'of-jar');
  await write(folder, { 'META-INF/MANIFEST.MF': manifest });
  await write(appDir, { [path]: '' });
  execFileSync('sh', ['-c', `rm "../${path}"; zip -q -r "../${path}" META-INF; rm -r ../of-jar`], { cwd: folder });
}

test('the jar of Spring Boot is started, and not the plain one', async () => {
  await using b = await bench({ 'build/libs/shop-plain.jar': '' });
  await writeJar(b.layout.appDir, 'build/libs/shop.jar', 'Main-Class: x.JarLauncher\nSpring-Boot-Version: 3.4.1\n');
  assert.equal(await startOfGradle(app, b.context()), 'java -Dserver.port=$PORT $JAVA_OPTS -jar build/libs/shop.jar');
});

test('of Quarkus, of installDist and of Micronaut it is what they make', async () => {
  await using quarkus = await bench({ 'build/quarkus-app/quarkus-run.jar': '' });
  assert.match(
    (await startOfGradle(app, quarkus.context())) ?? '',
    /quarkus\.http\.port=\$PORT .*-jar build\/quarkus-app\//,
  );
  const script = { 'build/install/shop/bin/shop': '', 'build/install/shop/bin/shop.bat': '' };
  await using installed = await bench(script);
  assert.equal(await startOfGradle(app, installed.context()), 'build/install/shop/bin/shop');
  assert.equal(
    await startOfGradle({ ...app, isOfMicronaut: true }, installed.context()),
    'JAVA_OPTS="-Dmicronaut.server.port=$PORT $JAVA_OPTS" build/install/shop/bin/shop',
  );
});

test('a name with spaces or signs of a shell is one word of the command', async () => {
  await using installed = await bench({ 'build/install/my shop/bin/my shop': '' });
  assert.equal(await startOfGradle(app, installed.context()), "'build/install/my shop/bin/my shop'");
  await using b = await bench({});
  await writeJar(b.layout.appDir, 'build/libs/shop-all(1).jar', 'Main-Class: x.Main\n');
  assert.equal(await startOfGradle(app, b.context()), "java $JAVA_OPTS -jar 'build/libs/shop-all(1).jar'");
});

test('of the only module that can be started no Procfile is needed, and of two it is said', async () => {
  const modules = { modules: ['lib', 'api', 'jobs'], isOfMicronaut: false };
  await using b = await bench({ 'api/build/install/api/bin/api': '' });
  await writeJar(b.layout.appDir, 'lib/build/libs/lib.jar', 'Manifest-Version: 1.0\n');
  assert.equal(await startOfGradle(modules, b.context()), 'api/build/install/api/bin/api');
  assert.equal(b.output(), '');
  await write(b.layout.appDir, { 'jobs/build/install/jobs/bin/jobs': '' });
  assert.equal(await startOfGradle(modules, b.context()), undefined);
  assert.match(b.output(), /Only a Procfile can say which of these is started: api\/build.*, jobs\/build/);
  assert.match(b.output(), /cannot start lib\.jar/);
});

test('what the app does not need to run is left out, and of what a Procfile may start nothing', async () => {
  const files = {
    '.gradle/x': '',
    'build/tmp/x': '',
    'build/classes/x': '',
    'build/libs/x.jar': '',
    'lib/build/distributions/x.tar': '',
  };
  const modules = { modules: ['lib'], isOfMicronaut: false };
  for (const hasProcfile of [false, true]) {
    await using b = await bench(hasProcfile ? { ...files, Procfile: 'web: java -cp build/classes Main\n' } : files);
    await tidyGradle(modules, b.context());
    const left: string[] = [];
    for (const file of Object.keys(files)) if (await exists(join(b.layout.appDir, file))) left.push(file);
    const started = ['build/classes/x', 'build/libs/x.jar', 'lib/build/distributions/x.tar'];
    assert.deepEqual(left, hasProcfile ? started : ['build/libs/x.jar']);
  }
});
