/** `flynn pg backup`, with a database whose members are simulated, and with the cluster's own backup. */
import assert from 'node:assert/strict';
import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { TestDatabase, addDatastore } from '@flynn/controller/datastore-backups/datastore-fixture';
import { startTestBlobs } from '@flynn/controller/testing/blobs';
import { waitFor } from '@flynn/kit/retry';
import { openDeskWithController } from '../testing.ts';

async function open() {
  const blobs = await startTestBlobs();
  const env = await openDeskWithController({
    blobStoreUrl: blobs.url,
    backsUp: true,
    applianceImages: { postgres: 'flynn/postgres:1' },
  });
  const database = new TestDatabase();
  database.attach(env.controller);
  await env.controller.deployApp('shop', { web: {} });
  await addDatastore(env.controller, 'shop');
  return {
    ...env,
    database,
    run: (...words: string[]) => env.desk.run(['pg', 'backup', ...words, '-a', 'shop']),
    async [Symbol.asyncDispose]() {
      await env[Symbol.asyncDispose]();
      await blobs[Symbol.asyncDispose]();
    },
  };
}

test('a backup is made, listed, fetched, put back and deleted', async () => {
  await using it = await open();
  const { database, desk, run } = it;
  assert.match(
    (await run()).stdout,
    /^shop-postgres: "\d+ \d \* \* \*" \(UTC\), the newest 7 are kept, next: [^]*none yet/,
  );
  const made = await run('run');
  const [, id = ''] = /^(\S+): shop-postgres, 195\.3 KiB\n$/.exec(made.stdout) ?? [];
  assert.deepEqual([id === '', made.code], [false, 0]);
  for (const words of [[], ['list']]) {
    const { stdout, code } = await run(...words);
    assert.match(
      stdout,
      new RegExp(`\nID +STATE +ENDED +SIZE +BY +ERROR\n${id} +complete +\\S+ +195.3 KiB +root +-\n$`),
    );
    assert.equal(code, 0);
  }

  const file = join(desk.home, 'a.dump');
  const fetched = await run('download', id, '-o', file);
  assert.equal(fetched.stdout, `${file}: shop-postgres as of ${id}, 195.3 KiB\n`, fetched.stderr);
  const content = await readFile(file);
  assert.ok(content.equals(database.content));
  assert.deepEqual(
    (await readdir(desk.home)).filter((name) => name.includes('part')),
    [],
  );

  database.content = Buffer.from('spoilt');
  const asked = await run('restore', id);
  assert.match(asked.stderr, /replacing all that is in shop-postgres by \S+ cannot be undone\n +say so with -y/);
  assert.equal(database.content.toString(), 'spoilt');
  assert.match(
    (await run('restore', id, '-y')).stdout,
    new RegExp(`^Restored shop-postgres to ${id} at \\S+, by root\\.\n$`),
  );
  assert.ok(content.equals(database.content));

  database.misbehaviours.push({ is: 'fails', code: 1, says: 'no room' });
  const failed = await run('restore', id, '-y');
  assert.match(failed.stdout, /could not be put back into shop-postgres, by root: restore ended with 1: no room/);
  assert.equal(failed.code, 1);

  assert.equal((await run('delete', id, '-y')).stdout, `Deleted ${id} of shop-postgres.\n`);
  const gone = await run('download', id, '-o', join(desk.home, 'b.dump'));
  assert.match(gone.stderr, /shop-postgres has no backup/);
  assert.deepEqual(
    (await readdir(desk.home)).filter((name) => name.startsWith('b.dump')),
    [],
  );
});

test('a backup that is under way is cancelled, and a restore that has not begun is withdrawn', async () => {
  await using it = await open();
  const { database, run } = it;
  const [id = ''] = (await run('run')).stdout.split(':');
  const blocked = Promise.withResolvers<void>();
  database.onRun = () => blocked.promise;
  const making = run('run');
  const under = { deadlineMs: 30_000, intervalMs: 20 };
  const other = await waitFor(async () => /\n(\S+) +running /.exec((await run()).stdout)?.[1], {
    what: 'the second to run',
    ...under,
  });
  const { content } = database;
  for (const words of [[], [id]]) {
    const restoring = run('restore', id, '-y');
    const isWaiting = async () => (await run()).stdout.includes(`waits for its backup ${other}`);
    await waitFor(isWaiting, { what: 'the restore to wait', ...under });
    assert.equal((await run('cancel', ...words)).stdout, 'Withdrawn: nothing is put back into shop-postgres.\n');
    const { code, stderr } = await restoring;
    assert.equal(code, 1);
    assert.match(stderr, /the restore of shop-postgres was withdrawn before it began: nothing was replaced/);
  }
  const hint = `nothing waits to be put back into shop-postgres; a backup is under way: "flynn pg backup cancel ${other} -a`;
  assert.ok((await run('cancel')).stderr.includes(hint));
  assert.match((await run('delete', other, '-y')).stderr, /"flynn pg backup cancel \S+ -a shop-postgres" ends it/);
  assert.equal((await run('cancel', other)).stdout, `Cancelled ${other} of shop-postgres: nothing of it is kept.\n`);
  const { code, stderr } = await making;
  assert.equal(code, 1);
  assert.match(stderr, /was cancelled, or deleted, meanwhile/);
  blocked.resolve();
  assert.match((await run('cancel', id)).stderr, /has ended, it is complete/);
  assert.match((await run('cancel')).stderr, /nothing waits to be put back into shop-postgres$/m);
  const left = await run();
  assert.ok(!left.stdout.includes(other), left.stdout);
  assert.equal(left.code, 0);
  assert.equal(database.content, content);
});

test('while backups fail the command says so with its exit code; the schedule is set and taken away', async () => {
  await using it = await open();
  it.database.misbehaviours.push({ is: 'fails', code: 1, says: 'no such role' });
  const failed = await it.run('run');
  assert.match(failed.stdout, /could not be backed up, and is tried again: dump ended with 1: no such role/);
  assert.equal(failed.code, 1);
  const listed = await it.run();
  assert.match(listed.stdout, /\nfailing since \S+ \(1 backup\): dump ended with 1: no such role\n/);
  assert.equal(listed.code, 1);
  assert.equal((await it.run('run')).code, 0, 'it is tried now');
  assert.equal((await it.run()).code, 0);

  const set = await it.run('schedule', '0 3 * * *', '--timezone', 'Europe/Berlin', '--keep', '14');
  assert.match(set.stdout, /^shop-postgres: "0 3 \* \* \*" \(Europe\/Berlin\), the newest 14 are kept, next: \S+\n$/);
  assert.equal((await it.run('schedule', '0 3 * * *', '--keep', 'many')).code, 2);
  assert.match((await it.run('schedule', 'often')).stderr, /write five/);
  assert.match((await it.run('unschedule')).stdout, /backed up by hand from now on/);
  assert.match((await it.run()).stdout, /^shop-postgres: no schedule/);
});

test('the cluster is backed up with a fresh dump of each database, or says which could not be dumped', async () => {
  await using it = await open();
  const { desk, database } = it;
  const file = join(desk.home, 'all.backup');
  database.misbehaviours.push({ is: 'fails', code: 1, says: 'no such role' });
  const failed = await desk.run(['cluster', 'backup', '-o', file]);
  assert.match(
    failed.stderr,
    /could not be dumped: shop-postgres \(dump ended with 1: no such role\)\n +mend that, or/,
  );
  assert.equal(failed.code, 1);
  const whole = await desk.run(['cluster', 'backup', '-o', file]);
  assert.match(whole.stdout, /: whole\n/, whole.stderr);
  const [newest] = (await it.run()).stdout.split('\n').slice(-2);
  assert.match(newest ?? '', /complete .* cluster backup/);

  database.misbehaviours.push({ is: 'fails', code: 1, says: 'no such role' });
  const partly = await desk.run(['cluster', 'backup', '--skip-missing', '-o', file]);
  assert.match(partly.stderr, /could not be dumped: shop-postgres .*their last backups are taken/);
  assert.match(partly.stdout, /: whole\n/);
});

test('an app without a database of the platform’s own is told how to get one', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('blog', { web: {} });
  const { stderr, code } = await env.desk.run(['pg', 'backup', '-a', 'blog']);
  assert.match(stderr, /flynn resource add postgres -a blog gives it one/);
  assert.equal(code, 1);
});
