import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Desk, openDeskWithController } from '../testing.ts';

test('routes are added, listed and removed', async () => {
  await using env = await openDeskWithController();
  await env.desk.run(['create', 'hello']);
  const run = async (...argv: string[]) => {
    const { code, stdout, stderr } = await env.desk.run(['-a', 'hello', 'route', ...argv]);
    assert.equal(code, 0, stderr);
    return stdout;
  };
  assert.match(
    await run('add', 'http', 'shop.example.com/api'),
    /^http:\/\/shop\.example\.com\/api added; let the DNS/,
  );
  assert.equal(await run('add', 'http', 'https://x.flynn.localhost/'), 'http://x.flynn.localhost added\n');
  assert.match(await run('add', 'tcp', '-p', '4000', '-s', 'hello-db'), /^port 4000 now reaches hello-db\n$/);
  const rows = (await run())
    .trimEnd()
    .split('\n')
    .map((row) => row.split(/ +/));
  assert.deepEqual(
    rows.map((row) => row.slice(0, 2)),
    [
      ['ROUTE', 'SERVICE'],
      ['http://hello.flynn.localhost', 'hello-web'],
      ['http://shop.example.com/api', 'hello-web'],
      ['http://x.flynn.localhost', 'hello-web'],
      ['tcp://flynn.localhost:4000', 'hello-db'],
    ],
  );
  const id = rows[2]?.[2] ?? '';
  assert.equal(await run('remove', id), `route ${id} removed\n`);
  assert.equal((JSON.parse(await run('--json')) as unknown[]).length, 3);
  const again = await env.desk.run(['route', 'remove', '-a', 'hello', id]);
  assert.equal(again.code, 1);
  assert.match(again.stderr, /hello has no route/);
});

async function makeKey(desk: Desk, name: string, comment: string): Promise<string> {
  await mkdir(join(desk.home, '.ssh'), { recursive: true });
  const file = join(desk.home, '.ssh', name);
  execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', comment, '-f', file]);
  return file;
}

test('`key add` takes those in ~/.ssh, a file or standard input; the same key twice is there once', async () => {
  await using env = await openDeskWithController();
  const none = await env.desk.run(['key', 'add']);
  assert.equal(none.code, 1);
  assert.match(none.stderr, /there is no public key in .*\.ssh\n {2}make one with "ssh-keygen -t ed25519"/);
  await makeKey(env.desk, 'id_ed25519', 'me at home');
  const other = await makeKey(env.desk, 'deploy', 'robot');
  const third = await makeKey(env.desk, 'third', 'third');
  const added = await env.desk.run(['key', 'add']);
  assert.match(added.stdout, /^SHA256:\S{43} me at home may push\n$/);
  assert.equal((await env.desk.run(['key', 'add', `${other}.pub`])).code, 0);
  const input = await readFile(`${third}.pub`, 'utf8');
  assert.equal((await env.desk.run(['key', 'add', '-'], { input })).code, 0);
  assert.equal((await env.desk.run(['key', 'add', '-'], { input })).code, 0);
  const rows = (await env.desk.run(['key'])).stdout.trimEnd().split('\n').slice(1);
  assert.deepEqual(new Set(rows.map((row) => row.split(/ {2,}/).at(-1))), new Set(['me at home', 'robot', 'third']));
  for (const row of rows) {
    const { code, stderr } = await env.desk.run(['key', 'remove', row.split(' ')[0] ?? '']);
    assert.equal(code, 0, stderr);
  }
  assert.equal((await env.desk.run(['key', '--json'])).stdout, '[]\n');
});

test('a private key is not sent anywhere', async () => {
  await using env = await openDeskWithController();
  const file = await makeKey(env.desk, 'id_ed25519', 'me');
  const input = await readFile(file, 'utf8');
  for (const argv of [[file], ['-']]) {
    const { code, stderr } = await env.desk.run(['key', 'add', ...argv], { input });
    assert.equal(code, 1);
    assert.match(stderr, /is a private key, which stays on your machine/);
  }
  const missing = await env.desk.run(['key', 'add', 'nosuch.pub']);
  assert.match(missing.stderr, /cannot read nosuch\.pub/);
});
