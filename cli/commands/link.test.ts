import assert from 'node:assert/strict';
import { test } from 'node:test';
import { releases } from '@flynn/controller/api';
import { openDeskWithController } from '../testing.ts';

type Env = Awaited<ReturnType<typeof openDeskWithController>>;

async function linksOf({ controller }: Env, release: string): Promise<Record<string, string[]>> {
  const { processes } = await controller.client.call(releases.get, { params: { app: 'hello', release } });
  return Object.fromEntries(Object.entries(processes).map(([type, { links }]) => [type, links]));
}

test('`link add` makes a release that is live when the command ends, whose jobs may reach the services', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('hello', { web: {}, worker: {} });
  assert.equal((await env.desk.run(['-a', 'hello', 'link'])).stdout, 'TYPE  SERVICE\n');
  const told: (readonly string[])[] = [];
  env.controller.setBehaviour(({ template }) => {
    told.push(template.links);
    return { is: 'run' };
  });
  const all = await env.desk.run(['-a', 'hello', 'link', 'add', 'shop-web', 'db']);
  assert.equal(all.code, 0, all.stderr);
  assert.match(all.stdout, /^release v2 deployed in \d+\.\ds\n$/);
  assert.deepEqual(await linksOf(env, 'v2'), { web: ['db', 'shop-web'], worker: ['db', 'shop-web'] });
  assert.deepEqual(told, [['db', 'shop-web']], 'its host is told');

  const one = await env.desk.run(['-a', 'hello', 'link', 'add', '-t', 'worker', 'cache']);
  assert.equal(one.code, 0, one.stderr);
  assert.deepEqual(await linksOf(env, 'v3'), { web: ['db', 'shop-web'], worker: ['cache', 'db', 'shop-web'] });
  assert.equal((await env.desk.run(['-a', 'hello', 'link', 'remove', 'db'])).code, 0);
  assert.deepEqual(await linksOf(env, 'v4'), { web: ['shop-web'], worker: ['cache', 'shop-web'] });

  const listed = await env.desk.run(['-a', 'hello', 'link']);
  assert.equal(listed.stdout, 'TYPE    SERVICE\nweb     shop-web\nworker  cache\nworker  shop-web\n');
  const json = await env.desk.run(['-a', 'hello', 'link', '--json']);
  assert.deepEqual(JSON.parse(json.stdout), { web: ['shop-web'], worker: ['cache', 'shop-web'] });
  // What else changes a release leaves them alone.
  assert.equal((await env.desk.run(['-a', 'hello', 'env', 'set', 'A=1'])).code, 0);
  assert.deepEqual(await linksOf(env, 'v5'), { web: ['shop-web'], worker: ['cache', 'shop-web'] });
});

test('linking what is linked makes no release', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('hello', { web: { links: ['db'] } });
  const { code, stdout } = await env.desk.run(['-a', 'hello', 'link', 'add', 'db']);
  assert.equal(code, 0);
  assert.match(stdout, /nothing changes/);
  assert.equal((await env.controller.client.call(releases.list, { params: { app: 'hello' } })).length, 1);
});

test('links that cannot be are refused with what to do instead', async () => {
  await using env = await openDeskWithController();
  await env.desk.run(['create', 'hello']);
  const early = await env.desk.run(['-a', 'hello', 'link', 'add', 'db']);
  assert.equal(early.code, 1);
  assert.match(early.stderr, /no process types to link yet\n {2}git push/);
  const { id } = await env.controller.makeRelease('hello', { web: { links: ['db'] }, worker: {} });
  await env.controller.deploy('hello', id);
  const refusals: [args: string[], code: number, message: RegExp][] = [
    [['add', 'Not_A_Service'], 2, /"Not_A_Service" is no service: a service name is/],
    [['add', '-t', 'wbe', 'db'], 1, /no process type "wbe": it has web, worker/],
    [['remove', 'cache'], 1, /not linked: cache/],
    [['remove', '-t', 'worker', 'db'], 1, /not linked: db/],
  ];
  for (const [args, code, message] of refusals) {
    const ran = await env.desk.run(['-a', 'hello', 'link', ...args]);
    assert.equal(ran.code, code, args.join(' '));
    assert.match(ran.stderr, message);
  }
});
