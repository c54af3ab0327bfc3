import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import packageFile from '../package.json' with { type: 'json' };
import { loadClusters } from '../clusters/clusters.ts';
import { Desk, openDeskWithController } from '../testing.ts';

test('`cluster add` asks the controller, and the first one is the default', async () => {
  await using env = await openDeskWithController({ domain: 'example.com', gitUrl: 'ssh://git@example.com:2222' });
  await using desk = await Desk.open();
  const added = await desk.run(['cluster', 'add', 'home', env.controller.url, env.controller.userKey]);
  assert.equal(added.code, 0, added.stderr);
  assert.equal(added.stdout, 'cluster home (example.com) added\n');
  const listed = await desk.run(['cluster']);
  assert.equal(
    listed.stdout.split('\n')[1]?.replaceAll(/ +/g, ' '),
    `home * ${env.controller.url} ssh://git@example.com:2222 example.com`,
  );
  assert.equal((await desk.run(['apps'])).code, 0);
});

test('a cluster that does not answer, or does not know the key, is not added', async () => {
  await using env = await openDeskWithController();
  await using desk = await Desk.open();
  const denied = await desk.run(['cluster', 'add', 'home', env.controller.url, 'wrong']);
  assert.equal(denied.code, 1);
  assert.match(denied.stderr, /does not know this key/);
  const dead = await desk.run(['cluster', 'add', 'home', 'http://127.0.0.1:1', 'key']);
  assert.equal(dead.code, 1);
  assert.match(dead.stderr, /cannot reach the controller at http:\/\/127\.0\.0\.1:1/);
  assert.equal((await desk.run(['cluster', '--json'])).stdout, '[]\n');
});

test('the key is read where - stands in its place', async () => {
  await using env = await openDeskWithController();
  await using desk = await Desk.open();
  const line = ['cluster', 'add', 'home', env.controller.url, '-'];
  assert.equal((await desk.run(line, { input: `${env.controller.userKey}\n` })).code, 0);
  assert.equal((await loadClusters(desk.configDirectory)).clusters[0]?.key, env.controller.userKey);
  const none = await desk.run(line);
  assert.equal(none.code, 2);
  assert.match(none.stderr, /there is no key/);
});

test('a name that is another cluster here is not taken from it, and its key is kept', async () => {
  await using one = await openDeskWithController();
  await using other = await openDeskWithController();
  const told = (await other.desk.run(['user', 'add', 'ann'])).stdout;
  const line = (/flynn (cluster add \S+ \S+ \S+)/.exec(told)?.[1] ?? '').split(' ');
  const refused = await one.desk.run(line);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, new RegExp(`test is another cluster here, ${one.controller.url}, and its key would be`));
  assert.equal((await loadClusters(one.desk.configDirectory)).clusters[0]?.key, one.controller.userKey);
  const again = await one.desk.run(['cluster', 'add', 'test', one.controller.url, one.controller.userKey]);
  assert.equal(again.stdout, 'cluster test (flynn.localhost) changed: what was known of it is replaced\n');
  assert.equal((await one.desk.run([...line, '--replace'])).code, 0);
  assert.equal((await loadClusters(one.desk.configDirectory)).clusters[0]?.key, line.at(-1));
});

test('a controller that is reached over https says so before it hears the key', async () => {
  const heard: unknown[] = [];
  const server = createServer(({ headers }, response) => {
    heard.push(headers.authorization);
    response.writeHead(308, { location: 'https://controller.example.com/cluster' }).end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  await using desk = await Desk.open();
  const refused = await desk.run(['cluster', 'add', 'home', `http://127.0.0.1:${address.port}`, 'secret']);
  server.close();
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /is to be asked elsewhere .*https:\/\/controller\.example\.com/);
  assert.deepEqual(heard, [undefined]);
  assert.equal((await desk.run(['cluster', '--json'])).stdout, '[]\n');
});

test('the default is told, changed and follows a removal; keys are never shown', async () => {
  await using env = await openDeskWithController();
  const { desk, controller } = env;
  await desk.run(['cluster', 'add', 'second', controller.url, controller.userKey]);
  assert.equal((await desk.run(['cluster', 'default'])).stdout, 'test\n');
  assert.equal((await desk.run(['cluster', 'default', 'second'])).stdout, 'second\n');
  const unknown = await desk.run(['cluster', 'default', 'third']);
  assert.equal(unknown.code, 1);
  assert.match(unknown.stderr, /"third"[^]*known: test, second/);
  assert.equal((await desk.run(['cluster', 'remove', 'second'])).stdout, 'cluster second forgotten\n');
  assert.equal((await desk.run(['cluster', 'default'])).stdout, 'test\n');
  const listed = await desk.run(['cluster', '--json']);
  assert.equal(listed.stdout.includes(controller.userKey), false);
  assert.ok((await readFile(join(desk.configDirectory, 'clusters.json'), 'utf8')).includes(controller.userKey));
});

test('`cluster add -d` makes it the default', async () => {
  await using env = await openDeskWithController();
  await env.desk.run(['cluster', 'add', '-d', 'second', env.controller.url, env.controller.userKey]);
  assert.equal((await env.desk.run(['cluster', 'default'])).stdout, 'second\n');
});

test('`version` tells both versions, and its own without a cluster', async () => {
  await using env = await openDeskWithController();
  assert.equal((await env.desk.run(['version'])).stdout, `flynn ${packageFile.version}\ncluster 0.0.0-test\n`);
  await using desk = await Desk.open();
  const alone = await desk.run(['version', '--json']);
  assert.equal(alone.code, 0);
  assert.deepEqual(JSON.parse(alone.stdout), { client: packageFile.version, cluster: null });
});
