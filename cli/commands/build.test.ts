import assert from 'node:assert/strict';
import { test } from 'node:test';
import { apps } from '@flynn/controller/api';
import { platform } from '@flynn/controller/platform/api';
import { appSchema } from '@flynn/controller/model';
import { handle, startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { defineRoute } from '@flynn/kit/routes';
import { saveClusters } from '../clusters/clusters.ts';
import { Desk, openDeskWithController } from '../testing.ts';

test('`build`, `build set` and `build unset`', async () => {
  await using env = await openDeskWithController();
  const { desk, controller: world } = env;
  await world.deployApp('hello', { web: {} });
  const params = { app: 'hello' };
  await world.client.call(apps.update, { params, body: { meta: { note: 'mine' } } });
  const build = (...words: string[]) => desk.run(['build', ...words, '-a', 'hello']);
  const metaNow = async () => (await world.client.call(apps.get, { params })).meta;
  assert.equal(
    (await build()).stdout,
    'folder      the top of the repository\ndockerfile  Dockerfile, if there is one\n',
  );
  const set = await build('set', '--folder', './apps/web/', '--dockerfile', 'deploy/web.Dockerfile');
  assert.match(set.stdout, /^folder {6}apps\/web\ndockerfile {2}deploy\/web\.Dockerfile\nThe next push is built so/);
  assert.deepEqual(await metaNow(), {
    note: 'mine',
    'build.folder': 'apps/web',
    'build.dockerfile': 'deploy/web.Dockerfile',
  });
  const shown = await build('--json');
  assert.deepEqual(JSON.parse(shown.stdout), { folder: 'apps/web', dockerfile: 'deploy/web.Dockerfile' });
  assert.equal((await build('unset', 'folder')).code, 0);
  assert.deepEqual(await metaNow(), { note: 'mine', 'build.dockerfile': 'deploy/web.Dockerfile' });
  for (const [words, why] of [
    [['set'], /nothing is set: say --folder PATH, --dockerfile PATH or both/],
    [['set', '--folder', '/apps/web'], /"\/apps\/web" begins with a slash/],
    [['set', '--folder', '../x'], /leads upwards/],
    [['unset', 'folder'], /not set: folder/],
    [['unset', 'context'], /builds have no "context" to unset: there are folder and dockerfile/],
  ] as const) {
    const { code, stderr } = await build(...words);
    assert.notEqual(code, 0);
    assert.match(stderr, why);
  }
});

test('a copy of an app, and a review app, are built from what it is built from', async () => {
  await using env = await openDeskWithController();
  const { desk, controller: world } = env;
  await world.deployApp('hello', { web: {} });
  const meta = { 'build.folder': 'apps/web', 'git.branch': 'production' };
  await world.client.call(apps.update, { params: { app: 'hello' }, body: { meta } });
  for (const words of [['clone'], ['review', 'create']]) {
    const name = `of-${words.at(-1)}`;
    const made = desk.run([...words, name, '-a', 'hello']);
    const copy = async () => (await world.client.call(apps.list, {})).find((one) => one.name === name);
    assert.equal((await made).code, 0);
    const { 'build.folder': folder, 'git.branch': branch } = (await copy())?.meta ?? {};
    assert.deepEqual([folder, branch], ['apps/web', undefined]);
  }
});

test('a cluster of a version before, which builds the whole repository whatever is set, has nothing set, and what is set there is told', async () => {
  let app = appSchema.parse({
    id: 'a',
    name: 'shop',
    meta: {},
    isSystem: false,
    deployTimeoutMs: 1,
    createdAt: '2026-01-01T00:00:00Z',
    updatedAt: '2026-01-01T00:00:00Z',
  });
  const own = { name: 'test', gitUrl: 'ssh://git@flynn.localhost:2222', domain: 'flynn.localhost', httpPort: 80 };
  const { method, path, summary, response } = platform.cluster;
  const former = defineRoute({ method, path, summary, response: response.omit({ heedsBuildPlace: true }) });
  let changes = 0;
  await using server = await startServer({
    name: 'controller',
    handlers: [
      handle(apps.get, async () => app),
      handle(former, async () => ({ ...own, formerDomains: [], version: '0', keepsRegistryLogins: true })),
      handle(apps.update, async () => {
        changes += 1;
        return app;
      }),
    ],
    host: '127.0.0.1',
    port: 0,
    log: silentLogger(),
  });
  await using desk = await Desk.open();
  const cluster = { ...own, controllerUrl: server.url, key: 'k' };
  await saveClusters(desk.configDirectory, { default: 'test', clusters: [cluster] });
  const build = (...words: string[]) => desk.run(['build', ...words, '-a', 'shop']);
  const set = await build('set', '--folder', 'apps/web');
  assert.deepEqual([set.code, changes], [1, 0]);
  assert.match(set.stderr, /nothing was set: this cluster has a version that builds the top of the repository/);
  assert.deepEqual(await build(), {
    code: 0,
    stdout: 'folder      the top of the repository\ndockerfile  Dockerfile, if there is one\n',
    stderr: '',
  });
  app = { ...app, meta: { 'build.folder': 'apps/web' } };
  assert.match((await build()).stderr, /what is set has no effect: .*\n.*flynn-host update/);
  // Of a cluster that went back.
  assert.equal((await build('unset', 'folder')).code, 0);
  assert.equal(changes, 1);
});
