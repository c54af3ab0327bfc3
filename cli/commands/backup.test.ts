import assert from 'node:assert/strict';
import { readFile, readdir, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { apps } from '@flynn/controller/api';
import { backupScheduleType, scheduleId } from '@flynn/controller/backup/resources';
import { runCli } from '../program.ts';
import { openDeskWithController } from '../testing.ts';

test('`cluster backup` writes one file for its owner alone, and `verify` reads it without a cluster', async () => {
  await using env = await openDeskWithController();
  const { desk, controller } = env;
  await controller.client.call(apps.create, { body: { name: 'shop' } });
  const made = await desk.run(['cluster', 'backup', '-o', 'today.backup']);
  assert.equal(made.code, 0, made.stderr);
  assert.match(
    made.stdout,
    /today\.backup: whole\n {2}1 app, 0 releases, 0 users, 0 blobs, .* of test \(flynn\.localhost\)/,
  );
  assert.match(made.stderr, /secrets and keys/);
  const file = join(desk.home, 'today.backup');
  assert.equal((await stat(file)).mode & 0o777, 0o600);
  assert.deepEqual(
    (await readdir(desk.home)).filter((name) => name.includes('backup')),
    ['today.backup'],
    'nothing is left beside it',
  );
  const verified = await desk.run(['cluster', 'backup', 'verify', 'today.backup', '--json']);
  assert.equal(verified.code, 0, verified.stderr);
  assert.deepEqual(JSON.parse(verified.stdout).missing, []);

  const bytes = await readFile(file);
  const at = bytes.indexOf('"shop"');
  bytes[at + 1] = (bytes[at + 1] ?? 0) ^ 1;
  await writeFile(file, bytes);
  const damaged = await desk.run(['cluster', 'backup', 'verify', 'today.backup']);
  assert.equal(damaged.code, 1);
  assert.match(damaged.stderr, /records\/app\.ndjson is not what the manifest says/);
  await writeFile(file, bytes.subarray(0, 3_000));
  const cut = await desk.run(['cluster', 'backup', 'verify', 'today.backup']);
  assert.equal(cut.code, 1);
  assert.match(cut.stderr, /cut/);
});

test('`cluster restore` reads the file and says what brings the cluster back, and changes nothing', async () => {
  await using env = await openDeskWithController();
  const { desk } = env;
  assert.equal((await desk.run(['cluster', 'backup', '-o', 'today.backup'])).code, 0);
  const file = join(desk.home, 'today.backup');
  const told = await desk.run(['cluster', 'restore', 'today.backup']);
  assert.equal(told.code, 0, told.stderr);
  assert.match(told.stdout, /today\.backup: whole\n[^]*Nothing was changed/);
  assert.ok(told.stdout.includes(`  flynn-host bootstrap --from-backup ${file}\n`), told.stdout);
  const general = await desk.run(['cluster', 'restore', '--json']);
  assert.deepEqual(JSON.parse(general.stdout), {
    command: 'flynn-host bootstrap --from-backup FILE',
    inRepository: 'npm run up -- --from-backup FILE',
  });
  await writeFile(file, (await readFile(file)).subarray(0, 3_000));
  const cut = await desk.run(['cluster', 'restore', 'today.backup']);
  assert.deepEqual([cut.code, cut.stdout], [1, '']);
  assert.match(cut.stderr, /cut/);
  assert.match((await desk.run(['cluster', 'backup', '--help'])).stdout, /flynn cluster restore today\.backup/);
});

test('two at once to the same file are in nobody’s way, and what a killed one left goes in time', async () => {
  await using env = await openDeskWithController();
  const { desk } = env;
  const ofNow = '.today.backup.k3v9x2m1q8ab.part';
  const others = ['.today.backup.k3v9x2m1q8aa.part', '.other.backup.k3v9x2m1q8aa.part'];
  for (const name of [ofNow, ...others]) {
    await writeFile(join(desk.home, name), 'half');
    if (name !== ofNow) await utimes(join(desk.home, name), 0, 0);
  }
  const write = () => desk.run(['cluster', 'backup', '-o', 'today.backup']);
  for (const { code, stderr } of await Promise.all([write(), write(), write()])) assert.equal(code, 0, stderr);
  assert.equal((await desk.run(['cluster', 'backup', 'verify', 'today.backup'])).code, 0);
  const left = (await readdir(desk.home)).filter((name) => name.includes('backup')).toSorted();
  assert.deepEqual(left, [others[1], ofNow, 'today.backup']);
});

test('one that is interrupted leaves nothing of itself', async () => {
  await using env = await openDeskWithController();
  const { desk, controller } = env;
  const { store } = controller.deps;
  const io = desk.io();
  const list = store.list.bind(store);
  let heard = 0;
  store.list = async (...args) => {
    heard = Math.max(heard, io.signal('SIGINT'));
    return list(...args);
  };
  assert.equal(await runCli(['cluster', 'backup', '-o', 'today.backup'], io), 1);
  assert.equal(heard, 1);
  assert.match(io.stderr.text, /stopped: no file was written/);
  assert.deepEqual(
    (await readdir(desk.home)).filter((name) => name.includes('backup')),
    [],
  );
});

test('a backup that cannot be made or written leaves no file and fails', async () => {
  await using env = await openDeskWithController();
  const { desk } = env;
  const nowhere = await desk.run(['cluster', 'backup', '-o', 'missing/folder/today.backup']);
  assert.equal(nowhere.code, 1);
  assert.match(nowhere.stderr, /cannot write .*today\.backup/);
  const folder = await desk.run(['cluster', 'backup', '-o', desk.home]);
  assert.deepEqual([folder.code, /cannot write \S+: what is there is no file/.test(folder.stderr)], [1, true]);
  const absent = await desk.run(['cluster', 'backup', 'verify', 'none.backup']);
  assert.equal(absent.code, 1);
  assert.match(absent.stderr, /none\.backup/);
  const whole = await desk.run(['cluster', 'backup']);
  assert.equal(whole.code, 0, whole.stderr);
  assert.match(whole.stdout, /test-\d{8}T\d{6}Z\.backup: whole/);
});

test('with a passphrase the file tells nothing without it', { timeout: 120_000 }, async () => {
  await using env = await openDeskWithController();
  const { desk } = env;
  const file = join(desk.home, 'secret.backup');
  const made = await desk.run(['cluster', 'backup', '-o', file, '--passphrase-file', '-'], {
    input: 'correct horse\n',
  });
  assert.equal(made.code, 0, made.stderr);
  assert.doesNotMatch(made.stderr, /in clear/);
  assert.equal((await readFile(file)).includes('manifest'), false);
  const without = await desk.run(['cluster', 'backup', 'verify', file]);
  assert.equal(without.code, 1);
  assert.match(without.stderr, /encrypted: give its passphrase/);
  const given = { env: { FLYNN_BACKUP_PASSPHRASE: 'correct horse' } };
  assert.equal((await desk.run(['cluster', 'backup', 'verify', file], given)).code, 0);
  const short = await desk.run(['cluster', 'backup', '-o', file], { env: { FLYNN_BACKUP_PASSPHRASE: 'short' } });
  assert.match(short.stderr, /at least 8 characters/);
});

test('backups by themselves: said once, shown with how they went, and ended', async () => {
  await using env = await openDeskWithController({ hosts: 2 });
  const { desk, controller } = env;
  const to = `dir:${desk.home}`;
  const backup = (...args: string[]) => desk.run(['cluster', 'backup', ...args]);
  assert.match((await backup('list')).stdout, /no schedule/);
  assert.match((await backup('run')).stderr, /no schedule yet/);
  assert.equal((await backup('schedule', '@daily', '--to', 'ftp://x')).code, 2);
  assert.match(
    (await backup('schedule', '@daily', '--to', to)).stderr,
    /which host has the directory\? Name it: host1, host2/,
  );
  assert.match((await backup('schedule', 'now', '--to', to, '--host', 'host1')).stderr, /the schedule "now"/);
  const set = await backup('schedule', '0 3 * * *', '--to', to, '--host', 'host1', '--keep', '3');
  assert.equal(set.code, 0, set.stderr);
  assert.match(set.stdout, /to host1:.*, the newest 3 are kept, in clear\nnext: .*T03:00:00.000Z\nlast success: never/);
  const failure = { since: '2026-11-21T03:00:00.000Z', count: 2, message: 'the disk is full' };
  await controller.deps.resources.updateStatus(backupScheduleType, scheduleId, ({ status }) => ({
    ...status,
    failure,
  }));
  const failing = await backup('list');
  assert.equal(failing.code, 1, 'who looks from a script is told');
  assert.match(failing.stdout, /failing since 2026-11-21T03:00:00.000Z \(2 attempts\): the disk is full/);
  assert.equal((await backup('unschedule')).code, 0);
  assert.match((await backup('list')).stdout, /no schedule/);
});
