import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { bench, write } from '../compile-fixture.ts';
import { mavenSettings, settingsFlags } from './maven-settings.ts';

test("Maven's settings name the mirror and the proxy", () => {
  assert.equal(mavenSettings({}), '<settings></settings>\n');
  const text = mavenSettings({
    MAVEN_MIRROR_URL: 'https://m.example/a&b',
    https_proxy: 'http://p.example:3128',
    no_proxy: '.local',
  });
  assert.match(text, /<url>https:\/\/m\.example\/a&amp;b<\/url>/);
  assert.match(text, /<host>p\.example<\/host><port>3128<\/port><nonProxyHosts>\*\.local</);
  assert.doesNotMatch(text, /server|password/);
});

test('passwords of the mirror and the proxy are where Maven looks for them', () => {
  const text = mavenSettings({
    MAVEN_MIRROR_URL: 'https://reader:p%40ss%3C@m.example/maven',
    https_proxy: 'http://user:100%@p.example:3128',
  });
  assert.match(text, /<server><id>mirror<\/id><username>reader<\/username><password>p@ss&lt;<\/password><\/server>/);
  assert.match(text, /<url>https:\/\/m\.example\/maven<\/url>/);
  assert.match(text, /<port>3128<\/port><username>user<\/username><password>100%<\/password><nonProxyHosts>/);
});

test("the app's own settings count before those of the cluster", async () => {
  await using b = await bench({ 'pom.xml': '' });
  const context = b.context();
  const global = join(b.layout.scratchDir, 'maven-settings.xml');
  assert.deepEqual(await settingsFlags(context), ['-gs', global]);
  await write(b.layout.appDir, { 'settings.xml': '<settings/>' });
  assert.deepEqual(await settingsFlags(context), ['-gs', global, '-s', 'settings.xml']);
  const appEnv = { MAVEN_SETTINGS_PATH: 'ci/maven.xml' };
  assert.deepEqual(await settingsFlags({ ...context, appEnv }), ['-gs', global, '-s', 'ci/maven.xml']);
});
