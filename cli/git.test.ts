import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import {
  addRemote,
  appOfRemotes,
  isOfAppAlone,
  isRepository,
  listRemotes,
  remoteUrl,
  removeRemote,
  trustCluster,
} from './git.ts';
import { Desk } from './testing.ts';

const gitUrl = 'ssh://git@flynn.localhost:2222';

test("the app is the one a remote of the cluster pushes to, the remote called flynn's first", () => {
  const origin = { name: 'origin', url: 'https://example.com/me/code.git' };
  const staging = { name: 'staging', url: `${gitUrl}/hello-staging.git` };
  const flynn = { name: 'flynn', url: `${gitUrl}/hello.git` };
  assert.equal(appOfRemotes([origin, staging, flynn], gitUrl), 'hello');
  assert.equal(appOfRemotes([origin, staging], gitUrl), 'hello-staging');
  assert.equal(appOfRemotes([origin], gitUrl), undefined);
  assert.equal(appOfRemotes([flynn], `${gitUrl}/`), 'hello');
});

test('of remotes that lead to several apps none is taken for meant, unless one is called flynn', () => {
  const production = { name: 'production', url: `${gitUrl}/shop.git` };
  const staging = { name: 'staging', url: `${gitUrl}/shop-staging.git` };
  assert.throws(
    () => appOfRemotes([production, staging], gitUrl),
    (error) =>
      hasCode(error, 'invalid') &&
      /production is shop, staging is shop-staging\n {2}name it with -a/.test(error.message),
  );
  assert.equal(appOfRemotes([production, { ...production, name: 'live' }], gitUrl), 'shop');
});

test('a remote of another cluster names no app, whatever it is called', () => {
  const elsewhere = { name: 'flynn', url: 'ssh://git@flynn.localhost:22222/hello.git' };
  assert.equal(appOfRemotes([elsewhere], gitUrl), undefined);
});

test('a remote without .git at its end counts too', () => {
  assert.equal(appOfRemotes([{ name: 'x', url: `${gitUrl}/hello` }], gitUrl), 'hello');
  assert.equal(remoteUrl(`${gitUrl}/`, 'hello'), `${gitUrl}/hello.git`);
});

test('a remote counts as the receiver reads it: slashes at its end, another user, capitals in the name of the host', () => {
  for (const url of [
    `${gitUrl}/hello.git/`,
    `${gitUrl}/hello/`,
    `${gitUrl}//hello.git`,
    'ssh://flynn.localhost:2222/hello.git',
    'ssh://git@Flynn.LocalHost:2222/hello.git',
  ]) {
    assert.equal(appOfRemotes([{ name: 'x', url }], gitUrl), 'hello', url);
  }
  for (const url of [gitUrl, `${gitUrl}/`, `${gitUrl}/a/b.git`, 'ssh://git@flynn.localhost/hello.git', 'git@flynn:x']) {
    assert.equal(appOfRemotes([{ name: 'x', url }], gitUrl), undefined, url);
  }
});

test('a remote is of the cluster where git itself says so: by a short name for its URL, or one for pushes', async () => {
  await using desk = await Desk.open();
  const io = desk.io();
  const git = (...args: string[]) => execFileSync('git', ['-C', desk.home, ...args]);
  const appFound = async () => appOfRemotes(await listRemotes(io), gitUrl);
  execFileSync('git', ['init', '-q', desk.home]);
  git('remote', 'add', 'flynn', 'home:hello.git');
  assert.equal(await appFound(), undefined);
  git('config', `url.${gitUrl}/.insteadOf`, 'home:');
  assert.equal(await appFound(), 'hello');
  assert.deepEqual(await listRemotes(io), [{ name: 'flynn', url: 'home:hello.git', reached: [`${gitUrl}/hello.git`] }]);
  git('remote', 'set-url', 'flynn', 'https://example.com/me/code.git');
  git('remote', 'set-url', '--push', 'flynn', `${gitUrl}/pushed.git`);
  assert.equal(await appFound(), 'pushed');
  // The cluster's own URL may lead through a tunnel.
  git('config', '--unset', 'remote.flynn.pushurl');
  git('remote', 'set-url', 'flynn', `${gitUrl}/tunnelled.git`);
  git('config', 'url.ssh://git@127.0.0.1:2022/.insteadOf', `${gitUrl}/`);
  assert.equal(await appFound(), 'tunnelled');
});

test('a remote that pushes to several places is of the cluster, and not of an app alone', async () => {
  await using desk = await Desk.open();
  const git = (...args: string[]) => execFileSync('git', ['-C', desk.home, ...args]);
  const look = async () => {
    const [remote, ...more] = await listRemotes(desk.io());
    assert.ok(remote !== undefined && more.length === 0);
    return [appOfRemotes([remote], gitUrl), isOfAppAlone(remote, gitUrl, 'hello')];
  };
  const code = 'https://example.com/me/code.git';
  const hello = `${gitUrl}/hello.git`;
  execFileSync('git', ['init', '-q', desk.home]);
  git('remote', 'add', 'origin', code);
  assert.deepEqual(await look(), [undefined, false]);
  git('remote', 'set-url', '--add', 'origin', hello);
  assert.deepEqual(await look(), ['hello', false]);
  git('remote', 'set-url', '--delete', 'origin', hello);
  git('remote', 'set-url', '--add', '--push', 'origin', code);
  git('remote', 'set-url', '--add', '--push', 'origin', hello);
  assert.deepEqual(await look(), ['hello', false]);
  git('config', '--unset-all', 'remote.origin.pushurl');
  git('remote', 'set-url', 'origin', hello);
  assert.deepEqual(await look(), ['hello', true]);
  // What is pushed goes there, wherever it comes from.
  git('remote', 'set-url', '--push', 'origin', `${gitUrl}/live.git`);
  assert.deepEqual(await look(), ['live', false]);
});

test('remotes of a real repository are listed, added and removed', async () => {
  await using desk = await Desk.open();
  const io = desk.io();
  assert.equal(await isRepository(io), false);
  assert.deepEqual(await listRemotes(io), []);
  execFileSync('git', ['init', '-q', desk.home]);
  assert.equal(await isRepository(io), true);
  const remotes = [
    { name: 'flynn', url: `${gitUrl}/hello.git` },
    { name: 'with.dots', url: '/some where/else' },
  ];
  for (const remote of remotes) await addRemote(io, remote);
  assert.deepEqual(await listRemotes(io), remotes);
  await assert.rejects(addRemote(io, { name: 'flynn', url: 'x' }), /git would not add the remote "flynn"/);
  await removeRemote(io, 'flynn');
  assert.deepEqual(
    (await listRemotes(io)).map(({ name }) => name),
    ['with.dots'],
  );
});

test("the first push asks nothing: ssh knows the cluster's host key and the key made for it", async () => {
  await using desk = await Desk.open();
  const io = desk.io();
  const directory = join(desk.home, 'the config');
  execFileSync('git', ['init', '-q', desk.home]);
  await trustCluster(io, directory);
  const sshCommand = () => {
    const { stdout } = spawnSync('git', ['-C', desk.home, 'config', '--local', 'core.sshCommand'], {
      encoding: 'utf8',
    });
    return stdout.trim();
  };
  assert.equal(sshCommand(), '', 'nothing to trust, nothing configured');

  await mkdir(directory);
  for (const name of ['known_hosts', 'id_ed25519']) await writeFile(join(directory, name), '');
  await trustCluster(io, directory);
  const settings = execFileSync('sh', ['-c', `${sshCommand()} -G localhost`], { encoding: 'utf8' });
  assert.match(settings, new RegExp(`^userknownhostsfile .*/.ssh/known_hosts ${directory}/known_hosts$`, 'm'));
  assert.match(settings, new RegExp(`^identityfile ${directory}/id_ed25519$`, 'm'));

  execFileSync('git', ['-C', desk.home, 'config', 'core.sshCommand', 'ssh -v']);
  await trustCluster(io, directory);
  assert.equal(sshCommand(), 'ssh -v', "a person's own command stays");
});
