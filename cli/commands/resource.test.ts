import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { deployments } from '@flynn/controller/api';
import { deploymentControls } from '@flynn/controller/deployments/api-controls';
import { TestProvider, answers } from '@flynn/controller/providers/test-provider';
import { startTestBlobs } from '@flynn/controller/testing/blobs';
import { waitFor } from '@flynn/kit/retry';
import { runCli } from '../program.ts';
import { openDeskWithController } from '../testing.ts';

test('`provider add`, `resource add`, `resource` and `resource remove`, and what an app gets of it', async () => {
  await using provider = await TestProvider.start();
  await using env = await openDeskWithController();
  const { desk, controller } = env;
  await controller.deployApp('shop', { web: {} });
  await writeFile(join(desk.home, 'token'), 'hunter3\n');
  const added = await desk.run(['provider', 'add', 'pg', provider.url, '--token-file', 'token']);
  assert.deepEqual([added.stdout, added.stderr, added.code], ['Created provider pg.\n', '', 0]);
  for (const words of [['provider'], ['provider', 'list']]) {
    assert.match((await desk.run(words)).stdout, /^NAME +ID +URL +TOKEN +CREATED\npg +\w+ +http\S+ +yes +\w+\n$/);
  }
  assert.doesNotMatch((await desk.run(['get', 'provider', 'pg', '-o', 'yaml'])).stdout, /hunter/);

  const made = await desk.run(['resource', 'add', 'pg', '-a', 'shop', '--config', 'plan=small', '--config', 'x=a=b']);
  assert.match(made.stdout, /^Created resource (\w+) and release v2\.\n$/);
  const id = /resource (\w+)/.exec(made.stdout)?.[1] ?? '';
  assert.deepEqual(provider.seen.at(-1)?.config, { plan: 'small', x: 'a=b' });
  assert.equal(provider.seen.at(-1)?.authorization, 'Bearer hunter3');
  assert.equal((await desk.run(['env', 'get', 'DATABASE_URL', '-a', 'shop'])).stdout, provider.env['DATABASE_URL']);
  for (const words of [['resource'], ['resource', 'list', '-a', 'shop']]) {
    const { stdout } = await desk.run(words);
    assert.match(stdout, new RegExp(`\n${id} +pg +- +shop +DATABASE_URL +ready +\\w+ +-\n$`));
  }
  assert.match((await desk.run(['get', 'resource'])).stdout, new RegExp(`${id} .*pg.*shop.*ready`));
  assert.match(
    (await desk.run(['provider', 'remove', 'pg'])).stderr,
    new RegExp(`pg has given ${id}: remove it first`),
  );

  await controller.deployApp('blog', { web: {} });
  const attached = await desk.run(['resource', 'attach', id, '-a', 'blog']);
  assert.equal(attached.stdout, `Added resource ${id} to blog and created release v2.\n`);
  const detached = await desk.run(['resource', 'detach', id, '-a', 'blog']);
  assert.equal(detached.stdout, `Took resource ${id} from blog and created release v3.\n`);
  assert.equal((await desk.run(['env', '-a', 'blog'])).stdout, '');

  const removed = await desk.run(['resource', 'remove', id]);
  assert.equal(removed.stdout, `Removed resource ${id} and created release v3.\n`);
  assert.equal((await desk.run(['env', '-a', 'shop'])).stdout, '');
  assert.deepEqual([...provider.made], []);

  await desk.run(['resource', 'add', 'pg', '-a', 'blog']);
  assert.match((await desk.run(['delete', '-a', 'blog', '-y'])).stdout, /^Deleted blog: .*, 1 resource\n$/);
});

test('`resource add` waits for a deployment of the app to end, says so, and can be stopped meanwhile', async () => {
  await using provider = await TestProvider.start();
  await using env = await openDeskWithController();
  const { desk, controller } = env;
  const { app } = await controller.deployApp('shop', { web: {} });
  await desk.run(['provider', 'add', 'pg', provider.url]);
  controller.setBehaviour(() => ({ is: 'hang' }));
  const release = await controller.makeRelease('shop', { web: {} });
  const body = { releaseId: release.id };
  const { id } = await controller.client.call(deployments.create, { params: { app: app.id }, body });
  const begin = async () => {
    const io = desk.io();
    const ended = runCli(['resource', 'add', 'pg', '-a', 'shop'], io);
    const isTold = () => io.stderr.text === 'waiting for another deployment of shop to end\n';
    await waitFor(isTold, { what: 'the command to say that it waits', deadlineMs: 30_000 });
    return { io, ended };
  };

  const stopped = await begin();
  stopped.io.signal('SIGINT');
  assert.equal(await stopped.ended, 1);
  assert.match(stopped.io.stderr.text, /\nflynn: stopped: /);
  assert.deepEqual([...provider.made], []);

  const waiting = await begin();
  controller.setBehaviour(() => ({ is: 'run' }));
  await controller.client.call(deploymentControls.abort, { params: { deployment: id }, body: {} });
  assert.equal(await waiting.ended, 0, waiting.io.stderr.text);
  assert.match(waiting.io.stdout.text, /^Created resource \w+ and release v3\.\n$/);
});

test('`resource remove` ends when an app does not run without it and says what to do; --force takes it all the same', async () => {
  await using provider = await TestProvider.start();
  await using env = await openDeskWithController();
  const { desk, controller } = env;
  await controller.deployApp('shop', { web: {} });
  await desk.run(['provider', 'add', 'pg', provider.url]);
  const made = await desk.run(['resource', 'add', 'pg', '-a', 'shop']);
  const id = /resource (\w+)/.exec(made.stdout)?.[1] ?? '';
  controller.setBehaviour(() => ({ is: 'crash', code: 1 }));
  const held = await desk.run(['resource', 'remove', id]);
  const told = new RegExp(
    `^resource ${id} is being removed, and .* waits for an app to run without it: .*: flynn resource remove ${id}; --force takes`,
  );
  assert.match(held.stdout, told);
  assert.equal(held.code, 0, held.stderr);
  assert.equal(provider.made.size, 1);
  const forced = await desk.run(['resource', 'remove', id, '--force']);
  assert.equal(forced.stdout, `Removed resource ${id}.\n`);
  assert.equal(provider.made.size, 0);
});

test('an app that is exported and imported says what becomes of what it has of providers', async () => {
  await using provider = await TestProvider.start();
  await using blobs = await startTestBlobs();
  await using env = await openDeskWithController({ blobStoreUrl: blobs.url });
  const { desk, controller } = env;
  await controller.deployApp('shop', { web: {} });
  await desk.run(['provider', 'add', 'pg', provider.url]);
  await desk.run(['resource', 'add', 'pg', '-a', 'shop']);
  const exported = await desk.run(['export', 'shop.tar', '-a', 'shop']);
  assert.deepEqual(
    [exported.code, exported.stderr],
    [0, 'flynn: not in the file: what it had of the provider pg, where its variables still lead: DATABASE_URL\n'],
  );
  const imported = await desk.run(['import', 'shop.tar', '-n', 'copy']);
  assert.equal(imported.code, 0, imported.stderr);
  assert.match(imported.stderr, /not made here: what it had of the provider pg, .*: DATABASE_URL; "flynn resource add/);
  assert.equal((await desk.run(['resource', '--json', '-a', 'copy'])).stdout.trim(), '[]');
  const own = await desk.run(['resource', 'add', 'pg', '--replace', '-a', 'copy']);
  assert.match(own.stdout, /^Created resource \w+/);
});

test('what goes wrong is told at once, with what to do next', async () => {
  await using provider = await TestProvider.start();
  await using env = await openDeskWithController();
  const { desk } = env;
  await desk.run(['create', 'shop']);
  assert.match(
    (await desk.run(['resource', 'add', 'pg', '-a', 'shop'])).stderr,
    /no provider "pg"; list them with: flynn provider/,
  );
  assert.match(
    (await desk.run(['provider', 'add', 'pg', 'http://db.example.com'])).stderr,
    /http:\/\/ is for names of the cluster/,
  );
  await desk.run(['provider', 'add', 'pg', provider.url]);
  assert.equal((await desk.run(['resource', 'add', 'pg', '-a', 'shop', '--config', 'plan'])).code, 2);
  provider.misbehaves = answers(422, '{"message":"no such plan"}');
  const refused = await desk.run(['resource', 'add', 'pg', '-a', 'shop', '--config', 'plan=huge']);
  assert.deepEqual([refused.code, refused.stderr], [1, 'flynn: the provider pg refuses this (422: no such plan)\n']);
  await provider.close();
  const away = await desk.run(['resource', 'add', 'pg', '-a', 'shop']);
  assert.equal(away.code, 1);
  assert.match(away.stderr, /^flynn: the provider pg cannot be reached: .*; nothing was added\n {2}"flynn status"/);
  provider.misbehaves = undefined;
  await provider.listen();
  await desk.run(['env', 'set', 'DATABASE_URL=mine', '-a', 'shop']);
  const taken = await desk.run(['resource', 'add', 'pg', '-a', 'shop']);
  assert.match(
    taken.stderr,
    /shop has DATABASE_URL already, with other values: unset them, or ask for them to be replaced/,
  );
  assert.match((await desk.run(['resource', 'add', 'pg', '-a', 'shop', '--replace'])).stdout, /and release v2\./);
  const { stdout } = await desk.run(['resource', '--json', '-a', 'shop']);
  const [resource] = JSON.parse(stdout) as { id: string }[];
  await provider.close();
  const left = await desk.run(['resource', 'remove', resource?.id ?? '']);
  assert.match(
    left.stdout,
    /is being removed, and goes on by itself; it waits for its provider to take it back: the provider pg/,
  );
});
