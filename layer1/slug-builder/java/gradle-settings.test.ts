import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { bench } from '../compile-fixture.ts';
import { gradleFlags, initScript, proxyFlags } from './gradle-settings.ts';

test('proxies are told to Gradle as Java reads them', () => {
  assert.deepEqual(proxyFlags({}, ''), []);
  const env = { https_proxy: 'http://p.example:3128', HTTP_PROXY: 'http://q.example', no_proxy: '.local, 10.0.0.1' };
  assert.deepEqual(proxyFlags(env, ''), [
    '-Dhttp.proxyHost=q.example',
    '-Dhttp.proxyPort=80',
    '-Dhttps.proxyHost=p.example',
    '-Dhttps.proxyPort=3128',
    '-Dhttp.nonProxyHosts=*.local|10.0.0.1',
  ]);
  assert.deepEqual(proxyFlags(env, 'systemProp.http.proxyHost=mine\nsystemProp.https.proxyHost=mine\n'), []);
});

test("a proxy's login is decoded, and given to it for https too", () => {
  assert.deepEqual(proxyFlags({ https_proxy: 'http://me:p%40ss@p.example:3128' }, '').slice(2), [
    '-Dhttps.proxyUser=me',
    '-Dhttps.proxyPassword=p@ss',
    '-Djdk.http.auth.tunneling.disabledSchemes=',
  ]);
});

test('the mirror is named by a script that is in neither the app nor its cache', async () => {
  await using b = await bench({ gradlew: '' });
  const context = b.context();
  const withMirror = (url: string) =>
    gradleFlags({ ...context, baseEnv: { ...context.baseEnv, MAVEN_MIRROR_URL: url } });
  assert.deepEqual(await gradleFlags(context), []);
  const file = join(b.layout.scratchDir, 'mirror.init.gradle');
  assert.deepEqual(await withMirror('https://m.example/maven'), ['--init-script', file]);
  assert.match(await readFile(file, 'utf8'), /repo\.url = new URI\('https:\/\/m\.example\/maven'\)/);
  assert.deepEqual(await withMirror('no address'), []);
});

test("the mirror's login and an address without encryption are said as Gradle wants them", () => {
  const script = initScript(new URL('http://reader:it%27s%5C@m.example/maven'));
  assert.match(script, /new URI\('http:\/\/m\.example\/maven'\)/);
  assert.match(script, /allowInsecureProtocol = true/);
  assert.match(script, /login\.username = 'reader'\n\s+login\.password = 'it\\'s\\\\'/);
  assert.doesNotMatch(initScript(new URL('https://m.example/maven')), /credentials|allowInsecureProtocol/);
});
