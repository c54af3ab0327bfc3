import assert from 'node:assert/strict';
import { test } from 'node:test';
import { users } from '@flynn/controller/access/api';
import { apps, formations, releases } from '@flynn/controller/api';
import { routing } from '@flynn/controller/routes/api';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { runCli } from '../program.ts';
import { Desk, openDeskWithController } from '../testing.ts';

test('promote rolls the live release of one app out in another, which keeps its env', async () => {
  await using env = await openDeskWithController();
  const { client } = env.controller;
  await env.controller.deployApp('staging', { web: {} });
  await env.controller.deployApp('shop', { web: { memoryBytes: 2 ** 27 } });
  await env.desk.run(['-a', 'staging', 'env', 'set', 'WHO=staging']);
  await env.desk.run(['-a', 'shop', 'env', 'set', 'WHO=shop']);
  const { code, stdout, stderr } = await env.desk.run(['promote', 'staging', 'shop']);
  assert.equal(code, 0, stderr);
  assert.match(stdout, /^shop: release v3 deployed in/);
  const live = async (app: string) => {
    const { releaseId = '' } = await client.call(apps.get, { params: { app } });
    return client.call(releases.get, { params: { app, release: releaseId } });
  };
  const [from, to] = [await live('staging'), await live('shop')];
  assert.equal(to.artifactId, from.artifactId);
  assert.deepEqual(to.env, { WHO: 'shop' });
  assert.equal(to.processes['web']?.memoryBytes, 2 ** 27);
  assert.equal(to.meta['promoted.from'], 'staging v2');
  assert.match((await env.desk.run(['promote', 'shop', 'shop'])).stderr, /is the app itself/);
});

test('a clone has the release, the env and, asked for, the counts; the artifact outlives the app it came from', async () => {
  await using env = await openDeskWithController();
  const { client } = env.controller;
  const { release } = await env.controller.deployApp('shop', { web: {}, worker: {} });
  const body = { processes: { worker: 2 } };
  await client.call(formations.put, { params: { app: 'shop', release: release.id }, body });
  await env.controller.jobsOf('shop', 3);
  const made = await env.desk.run(['-a', 'shop', 'clone', '--counts', 'copy']);
  assert.equal(made.code, 0, made.stderr);
  await env.controller.jobsOf('copy', 3);
  await env.desk.run(['-a', 'shop', 'delete', '-y']);
  const params = { artifact: release.artifactId ?? '' };
  assert.equal((await client.call(releases.getArtifact, { params })).id, release.artifactId);
});

test('a clone lets in whom its app does', async () => {
  await using env = await openDeskWithController();
  const { client } = env.controller;
  await env.controller.deployApp('shop', { web: {} });
  const [route] = await client.call(routing.list, { params: { app: 'shop' } });
  const body = { http: { access: { allow: ['10.0.0.0/8'] } } };
  await client.call(routing.update, { params: { app: 'shop', route: route?.id ?? '' }, body });
  const made = await env.desk.run(['-a', 'shop', 'clone', 'copy']);
  assert.equal(made.code, 0, made.stderr);
  const [copied] = await client.call(routing.list, { params: { app: 'copy' } });
  assert.deepEqual(copied?.http.access, { users: {}, allow: ['10.0.0.0/8'], needs: 'all' });
});

test('a copy that does not come up is there, and that is said', async () => {
  await using env = await openDeskWithController();
  const { client } = env.controller;
  await env.controller.deployApp('shop', { web: {} });
  env.controller.setBehaviour(() => ({ is: 'exit', code: 1 }));
  const failed = await env.desk.run(['-a', 'shop', 'clone', 'copy']);
  assert.equal(failed.code, 1);
  assert.match(
    failed.stderr,
    /copy is there: "flynn rollback v1 -a copy" tries it again, "flynn delete -a copy" deletes it/,
  );
  assert.match(failed.stderr, /"flynn log -a copy" has all it said/);
  const { processes } = await client.call(releases.get, { params: { app: 'copy', release: 'v1' } });
  assert.deepEqual(Object.keys(processes), ['web']);
});

test('of a copy whose release cannot be made nothing stays: the name is free for the next try', async () => {
  await using env = await openDeskWithController();
  const { store } = env.controller;
  await env.controller.deployApp('shop', { web: {} });
  const transact = store.transact.bind(store);
  store.transact = async (transaction, options) => {
    if (!JSON.stringify(transaction.then).includes('"put":"/flynn/resource/release/'))
      return transact(transaction, options);
    store.transact = transact;
    throw new FlynnError('exhausted', 'the store has no room');
  };
  const failed = await env.desk.run(['-a', 'shop', 'clone', 'copy']);
  assert.equal(failed.code, 1);
  assert.match(
    failed.stderr,
    /the store has no room\n {2}copy, which was not whole yet, is deleted again: try it once more/,
  );
  const again = await env.desk.run(['-a', 'shop', 'clone', 'copy']);
  assert.equal(again.code, 0, again.stderr);
});

test('nor does anything where Ctrl-C comes before it has its release', async () => {
  await using env = await openDeskWithController();
  const { store, client } = env.controller;
  await env.controller.deployApp('shop', { web: {} });
  const io = env.desk.io();
  const transact = store.transact.bind(store);
  store.transact = async (transaction, options) => {
    const isRelease = JSON.stringify(transaction.then).includes('"put":"/flynn/resource/release/');
    // As long as it is not done the command waits for it.
    if (!isRelease) return transact(transaction, options);
    store.transact = transact;
    assert.equal(io.signal('SIGINT'), 1);
    throw new FlynnError('unavailable', 'the store elects');
  };
  assert.equal(await runCli(['-a', 'shop', 'review', 'create', 'copy'], io), 1);
  assert.match(io.stderr.text, /flynn: stopped\n {2}copy, which was not whole yet, is deleted again: try it once more/);
  assert.deepEqual(
    (await client.call(apps.list, {})).map(({ name }) => name),
    ['shop'],
  );
});

test('a copy goes without what an admin linked the app to alone, and that is told', async () => {
  await using env = await openDeskWithController();
  const { client: root } = env.controller;
  const named = (name: string, links: string[] = []) => ({
    web: { ports: [{ port: 80, service: { name } }], links },
  });
  await env.controller.deployApp('controller', named('controller'), { isSystem: true });
  await env.controller.deployApp('shop', named('shop-web', ['controller', 'shop-db']));
  await using ann = await Desk.open();
  const { stdout } = await env.desk.run(['user', 'add', 'ann']);
  const line = /flynn (cluster add \S+ \S+ \S+)/.exec(stdout)?.[1] ?? '';
  assert.equal((await ann.run(line.split(' '))).code, 0);
  await root.call(users.update, { params: { user: 'ann' }, body: { role: 'developer' } });
  const made = await ann.run(['-a', 'shop', 'review', 'create', 'pr-one']);
  assert.equal(made.code, 0, made.stderr);
  assert.match(made.stderr, /^flynn: left out the link to controller: pr-one may not be linked to controller: /m);
  const live = async (app: string) => {
    const { releaseId = '' } = await root.call(apps.get, { params: { app } });
    return root.call(releases.get, { params: { app, release: releaseId } });
  };
  assert.deepEqual((await live('pr-one')).processes['web']?.links, ['shop-db']);
  assert.deepEqual((await live('shop')).processes['web']?.links, ['controller', 'shop-db']);
});

test('review apps are listed, capped, extended, and go when their time is over', async () => {
  await using env = await openDeskWithController();
  const { client } = env.controller;
  await env.controller.deployApp('shop', { web: {} });
  await env.desk.run(['-a', 'shop', 'meta', 'set', 'review.max=2']);
  const create = (name: string, ttl: string) => env.desk.run(['-a', 'shop', 'review', 'create', '--ttl', ttl, name]);
  assert.equal((await create('pr-one', '1h')).code, 0);
  assert.equal((await create('pr-two', '1h')).code, 0);
  const third = await create('pr-three', '1h');
  assert.match(third.stderr, /shop has 2 review apps, and may have 2: delete one, or raise review\.max/);
  assert.match((await env.desk.run(['-a', 'shop', 'review'])).stdout, /^pr-one .*\npr-two /m);
  // The cluster's clock says when, which is ahead of this machine's.
  const [{ now }, aheadMs, beganMs] = [env.controller.deps, 30 * 60_000, Date.now()];
  env.controller.deps.now = () => now() + aheadMs;
  const extended = await env.desk.run(['review', 'extend', 'pr-one', '2d']);
  env.controller.deps.now = now;
  const goesAt = /^pr-one goes at (.*)$/m.exec(extended.stdout)?.[1] ?? '';
  assert.ok(Date.parse(goesAt) >= beganMs + aheadMs + 2 * 24 * 3_600_000, extended.stdout);
  assert.match((await env.desk.run(['review', 'extend', 'shop', '2d'])).stderr, /shop is no review app/);
  assert.match((await env.desk.run(['review', 'extend', 'pr-two', '1ms'])).stdout, /pr-two goes at /);
  await waitFor(
    () =>
      client.call(apps.get, { params: { app: 'pr-two' } }).then(
        () => undefined,
        (error: unknown) => hasCode(error, 'not_found'),
      ),
    { what: 'the end of pr-two', deadlineMs: 60_000 },
  );
  await client.call(apps.get, { params: { app: 'pr-one' } });
});

test('of review apps made at once there are never more than allowed', async () => {
  await using env = await openDeskWithController();
  const { client } = env.controller;
  const { app } = await env.controller.deployApp('shop', { web: {} });
  const meta = { 'review.of': app.id, 'review.expires_at': '2999-01-01T00:00:00Z' };
  await client.call(apps.update, { params: { app: 'shop' }, body: { meta: { 'review.max': '3' } } });
  const made = await Promise.allSettled(
    Array.from({ length: 6 }, (_, number) => client.call(apps.create, { body: { name: `pr-${number}`, meta } })),
  );
  assert.equal(made.filter(({ status }) => status === 'fulfilled').length, 3);
  for (const one of made) {
    if (one.status === 'rejected') assert.ok(hasCode(one.reason, 'exhausted'), String(one.reason));
  }
});

test('metadata is set, told and removed', async () => {
  await using env = await openDeskWithController();
  await env.desk.run(['create', 'shop', '-r', '']);
  const run = (...argv: string[]) => env.desk.run(['-a', 'shop', 'meta', ...argv]);
  assert.equal((await run('set', 'a=1=2', 'b=')).code, 0);
  assert.deepEqual(JSON.parse((await run('--json')).stdout), { a: '1=2', b: '' });
  assert.equal((await run('unset', 'b')).code, 0);
  assert.match((await run('unset', 'b')).stderr, /not set: b/);
  assert.equal((await run('set', '=x')).code, 2);
});
