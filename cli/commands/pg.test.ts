import assert from 'node:assert/strict';
import { readFile, readdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { makeTestDatastore, withAppliances } from '@flynn/controller/datastores/datastore-fixture';
import type { Program } from '@flynn/controller/testing/simulated-host';
import { openDeskWithController } from '../testing.ts';

async function openDeskWithDatastore() {
  const env = await openDeskWithController(withAppliances);
  await env.controller.deployApp('shop', { web: {} });
  const datastore = await makeTestDatastore(env.controller, { app: 'shop' });
  return {
    ...env,
    datastore,
    answerWith(programs: (command: readonly string[], input: Buffer) => Program | undefined): void {
      for (const host of env.controller.hosts) host.programs = programs;
    },
    [Symbol.asyncDispose]: () => env[Symbol.asyncDispose](),
  };
}

const saying = (value: unknown): Program => ({ stdout: JSON.stringify(value), code: 0 });

test('`pg` shows the datastore of an app, its members and what is in it', async () => {
  await using env = await openDeskWithDatastore();
  const { desk, datastore } = env;
  const member = (host: number, isPrimary: boolean) => ({
    name: `m${host}`,
    address: `10.0.0.${host}`,
    isPrimary,
    isSynchronous: !isPrimary,
    state: isPrimary ? 'running' : 'streaming',
    lagBytes: isPrimary ? null : 1024 ** 2,
  });
  const database = { version: '17.6', sizeBytes: 3 * 1024 ** 2, connections: 2, maxConnections: 100 };
  env.answerWith(() => saying({ members: [member(1, false), member(2, true)], database, problem: null }));
  const { stdout, code } = await desk.run(['pg', '-a', 'shop']);
  assert.equal(code, 0);
  assert.match(
    stdout,
    new RegExp(
      [
        `^Name:      shop-postgres \\(resource ${datastore.resourceId}\\)`,
        'Version:   postgres 17.6',
        'Database:  3.0 MiB, 2 of 100 connections',
        'Memory:    512MB for each member',
        '',
        'HOST +ROLE +STATE +LAG +VOLUME +JOB',
        'host2 +primary +running +- +4.0 KiB +\\S+',
        'host1 +replica,sync +streaming +1.0 MiB +4.0 KiB +\\S+\n$',
      ].join('\n'),
    ),
  );
  for (const words of [
    ['info', '-a', 'shop-postgres'],
    ['--resource', datastore.resourceId],
    ['--resource', 'shop-postgres'],
  ]) {
    assert.equal((await desk.run(['pg', ...words])).stdout, stdout, words.join(' '));
  }
  const { stdout: json } = await desk.run(['pg', '-a', 'shop', '--json']);
  assert.deepEqual((JSON.parse(json) as { database: unknown }[])[0]?.database, database);
});

test('`pg` says when no member tells how it is, and fails', async () => {
  await using env = await openDeskWithDatastore();
  env.answerWith(() => ({ stderr: 'Patroni is away', code: 1 }));
  const { stdout, stderr, code } = await env.desk.run(['pg', '-a', 'shop']);
  assert.equal(code, 1);
  assert.match(stdout, /Database:  not known/);
  assert.match(stdout, /host1 +unknown +running/);
  assert.match(
    stderr,
    /^flynn: shop-postgres: no member tells how it is \(.*Patroni is away.*flynn ps -a shop-postgres/,
  );
});

test('an app without one is told how it gets one, an app with several which there are', async () => {
  await using env = await openDeskWithDatastore();
  const { desk, controller } = env;
  await controller.deployApp('blog', { web: {} });
  assert.match(
    (await desk.run(['pg', '-a', 'blog'])).stderr,
    /blog has no PostgreSQL.*\n {2}flynn resource add postgres -a blog/,
  );
  assert.match((await desk.run(['pg', '--resource', 'x'])).stderr, /no datastore "x"\n {2}"flynn resource"/);
  const other = await makeTestDatastore(controller, { app: 'blog', members: 1 });
  const attached = await desk.run(['resource', 'attach', other.resourceId, '--replace', '-a', 'shop']);
  assert.equal(attached.code, 0, attached.stderr);
  const { stderr, code } = await desk.run(['pg', 'dump', '-a', 'shop']);
  assert.equal(code, 1);
  assert.match(stderr, /shop has several: blog-postgres, shop-postgres\n {2}say which with --resource NAME/);
});

test('`pg psql` feeds a console through a pipe, and gives it what psql takes', async () => {
  await using env = await openDeskWithDatastore();
  const { desk, controller } = env;
  controller.setBehaviour(({ template }) => ({
    is: 'run',
    lines: [[...(template.entrypoint ?? []), ...(template.command ?? [])].join('|')],
  }));
  const piped = await desk.run(['pg', 'psql', '-a', 'shop', '--sql', 'SELECT 1', '--', '--csv'], {
    input: 'SELECT 2;',
  });
  assert.deepEqual([piped.code, piped.stdout], [0, 'psql|--command|SELECT 1|--csv\nSELECT 2;'], piped.stderr);
  const wrong = await desk.run(['pg', 'psql', '-a', 'shop', '-c', 'SELECT 1']);
  assert.equal(wrong.code, 2);
  assert.match(wrong.stderr, /-c names a cluster here: write --sql/);
});

test('`pg dump` writes a file once it is whole, for its owner alone, or to standard output', async () => {
  await using env = await openDeskWithDatastore();
  const { desk } = env;
  env.answerWith((command) => (command.at(-1) === 'dump' ? { stdout: 'PGDMP all', code: 0 } : undefined));
  const file = join(desk.home, 'a.dump');
  const { stdout } = await desk.run(['pg', 'dump', '-a', 'shop', '-o', 'a.dump']);
  assert.equal(stdout, `${file}: all of shop-postgres, 9 bytes\n`);
  assert.equal(await readFile(file, 'utf8'), 'PGDMP all');
  assert.equal((await stat(file)).mode & 0o777, 0o600);
  assert.equal((await desk.run(['pg', 'dump', '-a', 'shop', '-o', '-'])).stdout, 'PGDMP all');
  const named = await desk.run(['pg', 'dump', '-a', 'shop', '--json']);
  assert.match((JSON.parse(named.stdout) as { file: string }).file, /shop-postgres-\d{8}T\d{6}Z\.dump$/);

  const before = await readdir(desk.home);
  env.answerWith(() => ({ stdout: 'half', stderr: 'pg_dump: error: connection lost', code: 1 }));
  const failed = await desk.run(['pg', 'dump', '-a', 'shop', '-o', 'b.dump']);
  assert.deepEqual([failed.code, failed.stderr], [1, 'flynn: pg_dump: error: connection lost\n']);
  assert.match((await desk.run(['pg', 'dump', '-a', 'shop', '-o', 'no/where'])).stderr, /cannot write .*no\/where/);
  assert.deepEqual(await readdir(desk.home), before, 'nothing is left of it');
});

test('`pg restore` asks first, sends a file or standard input, and says what it replaced', async () => {
  await using env = await openDeskWithDatastore();
  const { desk } = env;
  const replaced = { before: { sizeBytes: 8 * 1024 ** 2, tables: 1 }, after: { sizeBytes: 9 * 1024 ** 2, tables: 12 } };
  const heard: string[] = [];
  env.answerWith((command, input) => {
    heard.push(`${command.at(-1) ?? ''} ${input.toString()}`);
    return saying(replaced);
  });
  await writeFile(join(desk.home, 'a.dump'), 'PGDMP all');
  const unasked = await desk.run(['pg', 'restore', 'a.dump', '-a', 'shop']);
  assert.deepEqual([unasked.code, heard], [1, []]);
  assert.match(unasked.stderr, /replacing all that is in shop-postgres by a.dump cannot be undone\n {2}say so with -y/);
  const { stdout } = await desk.run(['pg', 'restore', 'a.dump', '-y', '-a', 'shop']);
  assert.equal(stdout, 'Restored shop-postgres from a.dump: 12 tables, 9.0 MiB, in the place of 1 table, 8.0 MiB.\n');
  await desk.run(['pg', 'restore', '-', '-y', '-a', 'shop'], { input: 'CREATE TABLE a();' });
  assert.deepEqual(heard, ['import 9\nPGDMP all0\n', 'import 17\nCREATE TABLE a();0\n']);
  assert.match((await desk.run(['pg', 'restore', 'none', '-y', '-a', 'shop'])).stderr, /cannot read none/);
  env.answerWith(() => ({ stderr: 'ERROR:  role "bob" does not exist', code: 3 }));
  const failed = await desk.run(['pg', 'restore', 'a.dump', '-y', '-a', 'shop']);
  assert.deepEqual(
    [failed.code, failed.stderr],
    [1, 'flynn: ERROR:  role "bob" does not exist\n  shop-postgres is as it was\n'],
  );
  env.answerWith(() => ({ stderr: 'whether all was replaced is not known', code: 75 }));
  assert.match(
    (await desk.run(['pg', 'restore', 'a.dump', '-y', '-a', 'shop'])).stderr,
    /not known\n {2}shop-postgres is as it was, unless all was through: "flynn pg -a shop-postgres" tells its size/,
  );
});

test('`pg switchover` hands over, to a host if it is named', async () => {
  await using env = await openDeskWithDatastore();
  env.answerWith((command) => saying({ from: '10.0.0.1', to: command[2] ?? '10.0.0.2' }));
  for (const words of [['switchover'], ['failover', '--to', 'host2']]) {
    const { stdout, stderr } = await env.desk.run(['pg', ...words, '-a', 'shop']);
    assert.equal(stdout, 'The primary of shop-postgres is on host2, and was on host1.\n', stderr);
  }
  const { stderr } = await env.desk.run(['pg', 'switchover', '--to', 'host7', '-a', 'shop']);
  assert.match(stderr, /shop-postgres has no member that is up on host7: there are host1, host2/);
});

test('a datastore is marked among the apps and named beside its resource, and is neither copied nor deleted as an app', async () => {
  await using env = await openDeskWithDatastore();
  const { desk, datastore } = env;
  assert.match((await desk.run(['apps'])).stdout, /\nshop .* no +-\nshop-postgres .* no +postgres\n$/);
  assert.match(
    (await desk.run(['resource'])).stdout,
    new RegExp(`${datastore.resourceId} +postgres +shop-postgres +shop `),
  );
  assert.match((await desk.run(['info', '-a', 'shop-postgres'])).stdout, /Is: +postgres, of the resource/);
  for (const words of [
    ['clone', 'copy', '-a', 'shop-postgres'],
    ['review', 'create', 'copy', '-a', 'shop-postgres'],
    ['promote', 'shop-postgres', 'shop'],
    ['export', '-a', 'shop-postgres'],
  ]) {
    const { code, stderr } = await desk.run(words);
    assert.equal(code, 1);
    assert.match(stderr, /shop-postgres is a datastore.*\n.*flynn pg dump -a shop-postgres/, words.join(' '));
  }
  const promoted = await desk.run(['promote', 'shop', 'shop-postgres']);
  assert.match(promoted.stderr, /another image is refused: shop-postgres is a datastore/);
  const deleted = await desk.run(['delete', '-y', '-a', 'shop-postgres']);
  assert.match(deleted.stderr, new RegExp(`flynn resource remove ${datastore.resourceId}`));
  const unset = await desk.run(['env', 'unset', 'POSTGRES_PASSWORD', '-a', 'shop-postgres']);
  assert.match(unset.stderr, /POSTGRES_PASSWORD is not set or unset by hand/);
});

test('what removes a database asks first, and names it: its backups go with it', async () => {
  await using env = await openDeskWithDatastore();
  const { desk, datastore } = env;
  const remove = ['resource', 'remove', datastore.resourceId];
  assert.match(
    (await desk.run(remove)).stderr,
    /removing shop-postgres, with all that is in it and its backups, cannot be undone\n {2}say so with -y/,
  );
  assert.match((await desk.run(['apps'])).stdout, /shop-postgres/);
  assert.match(
    (await desk.run(['delete', '-a', 'shop'])).stderr,
    /deleting shop with its database shop-postgres and the backups of that cannot be undone/,
  );
  assert.match((await desk.run([...remove, '-y'])).stdout, /^Removed resource /);
  assert.doesNotMatch((await desk.run(['apps'])).stdout, /shop-postgres/);
});
