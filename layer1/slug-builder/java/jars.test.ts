import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { bench, write } from '../compile-fixture.ts';
import { chooseJar, commandOf, jarToStart, possibleJars } from './jars.ts';

test('the app is no jar of sources, of documentation or an original', () => {
  assert.deepEqual(possibleJars(['a-1.jar', 'a-1-sources.jar', 'original-a-1.jar', 'classes']), ['a-1.jar']);
});

test('of several jars that can be started it is the one that has all it needs', () => {
  assert.equal(jarToStart(['a.jar']), 'a.jar');
  assert.equal(jarToStart(['a-jar-with-dependencies.jar', 'a.jar']), 'a-jar-with-dependencies.jar');
  assert.equal(jarToStart(['a.jar', 'b.jar']), undefined);
  assert.equal(jarToStart([]), undefined);
});

test('only a jar whose manifest names a main class is started, and a framework is told the port', async () => {
  await using b = await bench({ 'target/not.jar': 'no archive' });
  const { appDir } = b.layout;
  const jar = async (name: string, manifest: string): Promise<void> => {
    await write(join(b.dir, name), { 'META-INF/MANIFEST.MF': manifest });
    execFileSync('zip', ['-q', '-r', join(appDir, 'target', name), 'META-INF'], { cwd: join(b.dir, name) });
  };
  const chosen = async (): Promise<string | undefined> => {
    const { jar: found, why } = await chooseJar({ quarkus: 'target', jars: 'target' }, b.context());
    return found === undefined ? why : commandOf(found);
  };
  await jar('shop.jar', 'Manifest-Version: 1.0\r\nBuilt-By: Main-Class\r\n');
  assert.match((await chosen()) ?? '', /cannot start not\.jar, shop\.jar: its manifest names no Main-Class/);
  await jar('shop-all.jar', 'Manifest-Version: 1.0\r\nMain-Class: shop.Main\r\n');
  assert.equal(await chosen(), 'java $JAVA_OPTS -jar target/shop-all.jar');
  await jar(
    'shop-all.jar',
    'Main-Class: org.springframework.boot.loader.launch.JarLauncher\r\nSpring-Boot-Version: 3.4.1\r\n',
  );
  assert.equal(await chosen(), 'java -Dserver.port=$PORT $JAVA_OPTS -jar target/shop-all.jar');
  await write(appDir, { 'target/quarkus-app/quarkus-run.jar': '' });
  assert.equal(await chosen(), 'java -Dquarkus.http.port=$PORT $JAVA_OPTS -jar target/quarkus-app/quarkus-run.jar');
});
