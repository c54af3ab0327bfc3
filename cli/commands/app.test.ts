import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { runCli } from '../program.ts';
import { type Desk, openDeskWithController } from '../testing.ts';

async function makeRepository(desk: Desk, name: string): Promise<string> {
  const folder = join(desk.home, name);
  await mkdir(folder);
  execFileSync('git', ['init', '-q', folder]);
  return folder;
}

function remotes(folder: string): string[] {
  return execFileSync('git', ['remote', '-v'], { cwd: folder, encoding: 'utf8' })
    .split('\n')
    .filter((line) => line.endsWith('(fetch)'))
    .map((line) => line.replace(/\s+\(fetch\)$/, '').replace('\t', ' '));
}

test('`create` adds a git remote, by which later commands know the app', async () => {
  await using env = await openDeskWithController();
  const cwd = await makeRepository(env.desk, 'work');
  const created = await env.desk.run(['create', 'hello'], { cwd });
  assert.equal(created.code, 0, created.stderr);
  assert.equal(created.stdout, 'Created hello with the git remote "flynn"\n');
  assert.deepEqual(remotes(cwd), ['flynn ssh://git@flynn.localhost:2222/hello.git']);
  const info = await env.desk.run(['info'], { cwd });
  assert.match(info.stdout, /^Name: +hello\nURL: +http:\/\/hello\.flynn\.localhost\nGit: +ssh:.*hello\.git\n/);
  assert.match(info.stdout, /none yet: git push flynn main/);
});

test('`create` refuses a remote that is there before it makes an app, unless told to replace it', async () => {
  await using env = await openDeskWithController();
  const cwd = await makeRepository(env.desk, 'work');
  execFileSync('git', ['remote', 'add', 'flynn', 'elsewhere'], { cwd });
  const refused = await env.desk.run(['create', 'hello'], { cwd });
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /already has a git remote "flynn" \(elsewhere\)\n {2}-y replaces it/);
  const unnamed = await env.desk.run(['create', 'hello', '-r', 'no name'], { cwd });
  assert.equal(unnamed.code, 2);
  assert.match(unnamed.stderr, /"no name" is no name for a git remote/);
  assert.equal((await env.desk.run(['apps', '--json'])).stdout, '[]\n');
  assert.equal((await env.desk.run(['create', '-r', 'other', 'hello'], { cwd })).code, 0);
  assert.equal((await env.desk.run(['create', '-y', 'second'], { cwd })).code, 0);
  assert.deepEqual(remotes(cwd), [
    'flynn ssh://git@flynn.localhost:2222/second.git',
    'other ssh://git@flynn.localhost:2222/hello.git',
  ]);
});

test('`create` without a repository tells where to push, and makes up a name when there is none', async () => {
  await using env = await openDeskWithController();
  const { code, stdout } = await env.desk.run(['create', '--json']);
  assert.equal(code, 0);
  const { name } = JSON.parse(stdout) as { name: string };
  assert.match(name, /^[a-z][a-z0-9-]+$/);
  const { stdout: text } = await env.desk.run(['create', 'hello']);
  assert.equal(text, 'Created hello; push it to ssh://git@flynn.localhost:2222/hello.git\n');
});

test('`remote add` leads another clone to an app that is there; `remote` lists what leads where', async () => {
  await using env = await openDeskWithController();
  await env.desk.run(['create', 'hello']);
  const cwd = await makeRepository(env.desk, 'clone');
  execFileSync('git', ['remote', 'add', 'origin', 'elsewhere'], { cwd });
  const added = await env.desk.run(['remote', 'add', 'hello'], { cwd });
  assert.equal(added.code, 0, added.stderr);
  assert.equal(added.stdout, 'Added the git remote "flynn" for hello: git push flynn main\n');
  assert.match((await env.desk.run(['info'], { cwd })).stdout, /^Name: +hello\n/);
  assert.equal(
    (await env.desk.run(['remote'], { cwd })).stdout,
    'REMOTE  APP    URL\nflynn   hello  ssh://git@flynn.localhost:2222/hello.git\n',
  );
  const twice = await env.desk.run(['remote', 'add', 'hello'], { cwd });
  assert.match(twice.stderr, /already has a git remote "flynn"/);
  assert.match((await env.desk.run(['remote', 'add', 'nosuch', '-r', 'x'], { cwd })).stderr, /nosuch/);
  assert.match((await env.desk.run(['remote', 'add', 'hello'])).stderr, /no git repository/);
  assert.deepEqual(remotes(cwd), ['flynn ssh://git@flynn.localhost:2222/hello.git', 'origin elsewhere']);
});

test('a name that is taken, and one that is none, are refused with what is wrong', async () => {
  await using env = await openDeskWithController();
  await env.desk.run(['create', 'hello']);
  const taken = await env.desk.run(['create', 'hello']);
  assert.equal(taken.code, 1);
  assert.match(taken.stderr, /hello is taken/);
  const bad = await env.desk.run(['create', 'Not A Name']);
  assert.equal(bad.code, 1);
  assert.match(bad.stderr, /an app name is/);
});

test("`apps` leaves the platform's own out unless asked", async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('router', {}, { isSystem: true });
  await env.desk.run(['create', 'hello']);
  const firstWords = (text: string) =>
    text
      .trimEnd()
      .split('\n')
      .map((line) => line.split(' ')[0]);
  assert.deepEqual(firstWords((await env.desk.run(['apps'])).stdout), ['NAME', 'hello']);
  assert.deepEqual(firstWords((await env.desk.run(['apps', '--all'])).stdout), ['NAME', 'hello', 'router']);
});

test('`delete` needs -y where nobody can be asked; it tells what went, and takes the remote with it', async () => {
  await using env = await openDeskWithController();
  const cwd = await makeRepository(env.desk, 'work');
  await env.desk.run(['create', 'hello'], { cwd });
  await env.controller.deploy('hello', (await env.controller.makeRelease('hello', { web: {} })).id);
  const refused = await env.desk.run(['delete'], { cwd });
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /cannot be undone\n {2}say so with -y/);
  const deleted = await env.desk.run(['delete', '-y'], { cwd });
  assert.equal(deleted.stdout, 'Deleted hello: 1 route, 1 release, 1 job, 1 artifact\n');
  assert.deepEqual(remotes(cwd), []);
  const after = await env.desk.run(['info'], { cwd });
  assert.equal(after.code, 1);
  assert.match(after.stderr, /which app\?[^]*-a NAME[^]*flynn create/);
});

const answers: [string, string | undefined, number][] = [
  ['its name', 'hello\n', 0],
  ['another name', 'helo\n', 1],
  ['the end of the input', undefined, 1],
];
for (const [what, answer, expected] of answers) {
  test(`\`delete\` in a terminal asks for the name; ${what} ${expected === 0 ? 'deletes' : 'deletes nothing'}`, async () => {
    await using env = await openDeskWithController();
    await env.desk.run(['create', 'hello']);
    const io = env.desk.io();
    io.stdin.isTTY = true;
    const ran = runCli(['-a', 'hello', 'delete'], io);
    await waitFor(() => io.stderr.text.includes('Type its name'), { what: 'the question', deadlineMs: 30_000 });
    if (answer === undefined) io.stdin.end();
    else io.stdin.write(answer);
    assert.equal(await ran, expected, io.stderr.text);
    const left = JSON.parse((await env.desk.run(['apps', '--json'])).stdout) as unknown[];
    assert.equal(left.length, expected);
  });
}

test('a part of the platform is not deleted', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('controller', {}, { isSystem: true });
  const { code, stderr } = await env.desk.run(['-a', 'controller', 'delete', '-y']);
  assert.equal(code, 1);
  assert.match(stderr, /controller is part of the platform/);
});

test('a remote of another cluster is told apart from having none', async () => {
  await using env = await openDeskWithController();
  const cwd = await makeRepository(env.desk, 'work');
  execFileSync('git', ['remote', 'add', 'flynn', 'ssh://git@elsewhere:2222/hello.git'], { cwd });
  const { code, stderr } = await env.desk.run(['info'], { cwd });
  assert.equal(code, 1);
  assert.match(stderr, /The git remote flynn \(ssh:.*elsewhere.*\) is not of the cluster test/);
});
