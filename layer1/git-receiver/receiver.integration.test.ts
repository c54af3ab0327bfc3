/** Real git and real ssh against a receiver whose controller and blob store are servers of the test. */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { buffer, text } from 'node:stream/consumers';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { maxPushes } from './session.ts';
import { remoteHead, setUp } from './testing.ts';

test('a push streams the build while it runs, sends the source, and moves main', { timeout: 180_000 }, async (t) => {
  const gate = Promise.withResolvers<void>();
  const world = await setUp(t, () => ({
    lines: ['-----> Building', 'ünïcödé', () => gate.promise, '=====> Application deployed'],
  }));
  const head = await world.commit({ 'hello.txt': 'hello', Procfile: 'web: run' });
  const push = spawn('git', ['push', world.remote(), 'main'], {
    cwd: world.work,
    env: { PATH: process.env['PATH'], ...world.gitEnv() },
  });
  let seen = '';
  push.stderr.on('data', (data: Buffer) => (seen += data.toString()));
  await waitFor(() => seen.includes('remote: ünïcödé'), { what: 'output of the build', deadlineMs: 60_000 });
  assert.ok(!seen.includes('Application deployed'));
  assert.notEqual(await remoteHead(world), head);
  gate.resolve();
  await new Promise((resolve) => push.once('close', resolve));
  assert.equal(push.exitCode, 0, seen);
  assert.match(seen, /remote: =====> Application deployed/);
  assert.match(seen, /\[new branch\]\s+main -> main/);
  assert.equal(await remoteHead(world), head);
  assert.equal(world.pushes.length, 1);
  assert.equal(world.pushes[0]?.commit, head);
  assert.equal(world.pushes[0]?.branch, 'main');
  const tar = await buffer(await world.blobs.get(world.pushes[0]?.sourceDigest ?? ''));
  const names = execFileSync('tar', ['-t'], { input: tar }).toString().trim().split('\n');
  assert.deepEqual(names.toSorted(), ['Procfile', 'hello.txt']);
  assert.match((await world.git(['push', world.remote(), 'main'])).output, /up-to-date/);
  // What was pushed can be had back.
  const clone = await world.git(['clone', '-q', world.remote(), 'copy'], { cwd: world.dir });
  assert.equal(clone.code, 0, clone.output);
  assert.equal(await readFile(join(world.dir, 'copy', 'hello.txt'), 'utf8'), 'hello');
});

test(
  'a push whose build fails is rejected, and the same commit can be pushed again',
  { timeout: 180_000 },
  async (t) => {
    const world = await setUp(t, (index) => ({ lines: ['boom'], ...(index === 0 ? { fails: 'build' as const } : {}) }));
    const head = await world.commit({ a: '1' });
    const failed = await world.git(['push', world.remote(), 'main']);
    assert.notEqual(failed.code, 0);
    assert.match(failed.output, /remote: boom/);
    assert.match(failed.output, / ! {5}Exit code 1/);
    assert.match(failed.output, /remote rejected.*pre-receive hook declined/);
    assert.equal(await remoteHead(world), '');
    const again = await world.git(['push', world.remote(), 'main']);
    assert.equal(again.code, 0, again.output);
    assert.equal(await remoteHead(world), head);
    assert.notEqual(world.pushes[0]?.pushId, world.pushes[1]?.pushId);
    assert.equal(world.pushes[0]?.sourceDigest, world.pushes[1]?.sourceDigest);
    // History may be rewritten.
    await world.git(['-c', 'user.name=a', '-c', 'user.email=a@a', 'commit', '-q', '--amend', '-m', 'y']);
    const forced = await world.git(['push', '--force', world.remote(), 'main']);
    assert.equal(forced.code, 0, forced.output);
  },
);

test('keys of every usual type log in', { timeout: 180_000 }, async (t) => {
  for (const keyType of ['rsa', 'ecdsa', 'ed25519']) {
    const world = await setUp(t, undefined, keyType);
    const shell = await world.ssh('known');
    assert.match(shell.output, /You are known here/, keyType);
  }
});

test('who has no key that is known is told how to add it', { timeout: 180_000 }, async (t) => {
  const world = await setUp(t);
  await world.commit({ a: '1' });
  const refused = await world.git(['push', world.remote(), 'main'], { key: 'unknown' });
  assert.notEqual(refused.code, 0);
  assert.match(refused.output, /Permission denied \(publickey\)/);
  assert.match(refused.output, /This SSH key is not known here: SHA256:.*\s+Add it with: flynn key add/s);
  const listed = execFileSync('ssh-keygen', ['-lf', join(world.dir, 'unknown.pub')])
    .toString()
    .split(' ')[1];
  assert.ok(listed !== undefined && refused.output.includes(listed));
});

test('what is not a push to an app that exists is refused in words', { timeout: 180_000 }, async (t) => {
  const world = await setUp(t);
  await world.commit({ a: '1' });
  const unknown = await world.git(['push', world.remote('nobody'), 'main']);
  assert.equal(unknown.code, 128);
  assert.match(unknown.output, /there is no app "nobody".*flynn create nobody/);
  const command = await world.ssh('known', 'cat /etc/passwd');
  assert.equal(command.code, 128);
  assert.match(command.output, /only git push, fetch and clone work here/);
  const lfs = await world.ssh('known', "git-lfs-authenticate '/app.git' upload");
  assert.equal(lfs.code, 128);
  assert.match(
    lfs.output,
    /^error: flynn keeps no objects of Git LFS\. Push without them: GIT_LFS_SKIP_PUSH=1 git push/m,
  );
  const shell = await world.ssh('known');
  assert.equal(shell.code, 0);
  assert.match(shell.output, /there is no shell/);
  await world.git(['tag', 'v1']);
  const tag = await world.git(['push', world.remote(), 'main', 'v1']);
  assert.match(tag.output, /remote:.*Tags are not taken: v1/);
  assert.match(tag.output, /remote rejected/);
  const branch = await world.git(['push', world.remote(), 'main:topic']);
  assert.match(branch.output, /git push flynn HEAD:main/);
  assert.equal(world.pushes.length, 0);
  assert.equal((await world.git(['push', world.remote(), 'main'])).code, 0);
  const removal = await world.git(['push', world.remote(), ':main']);
  assert.match(removal.output, /main cannot be deleted/);
  assert.notEqual(await remoteHead(world), '');
});

test('an annotated tag pushed as main is refused before anything is built of it', { timeout: 180_000 }, async (t) => {
  const world = await setUp(t);
  const head = await world.commit({ a: '1' });
  await world.git(['-c', 'user.name=a', '-c', 'user.email=a@a', 'tag', '-m', 'one', 'v1']);
  const refused = await world.git(['push', world.remote(), 'v1:refs/heads/main']);
  assert.notEqual(refused.code, 0);
  assert.match(refused.output, /remote:.*is a tag and not a commit[^]*git push flynn 'TAG\^\{\}:refs\/heads\/main'/);
  assert.equal(world.pushes.length, 0);
  const pushed = await world.git(['push', world.remote(), 'v1^{}:refs/heads/main']);
  assert.equal(pushed.code, 0, pushed.output);
  assert.equal(await remoteHead(world), head);
});

test('which submodules there are goes with the source', { timeout: 180_000 }, async (t) => {
  const world = await setUp(t);
  const head = await world.commit({ a: '1' });
  await world.git(['update-index', '--add', '--cacheinfo', `160000,${head},lib/a "sub" ü`]);
  await world.git(['-c', 'user.name=a', '-c', 'user.email=a@a', 'commit', '-q', '-m', 'sub']);
  const pushed = await world.git(['push', world.remote(), 'main']);
  assert.equal(pushed.code, 0, pushed.output);
  const tar = await buffer(await world.blobs.get(world.pushes[0]?.sourceDigest ?? ''));
  const told: unknown = JSON.parse(execFileSync('tar', ['-xO', '.flynn-submodules.json'], { input: tar }).toString());
  assert.deepEqual(told, { 'lib/a "sub" ü': head });
});

test('any branch is deployed as main, and the next one over it by force', { timeout: 180_000 }, async (t) => {
  const world = await setUp(t);
  await world.commit({ a: '1' });
  assert.equal((await world.git(['push', world.remote(), 'main'])).code, 0);
  await world.git(['checkout', '-q', '--orphan', 'feature/x']);
  const head = await world.commit({ b: '2' });
  const refused = await world.git(['push', world.remote(), 'feature/x']);
  assert.notEqual(refused.code, 0);
  assert.match(refused.output, /Only main is deployed, not feature\/x[^]*git push flynn feature\/x:main/);
  assert.notEqual((await world.git(['push', world.remote(), 'feature/x:main'])).code, 0);
  const forced = await world.git(['push', world.remote(), '+feature/x:main']);
  assert.equal(forced.code, 0, forced.output);
  assert.equal(await remoteHead(world), head);
});

test(
  'a second push to an app waits for the first and says so; another app does not wait',
  { timeout: 180_000 },
  async (t) => {
    const gate = Promise.withResolvers<void>();
    const script = (index: number) => ({ lines: index === 0 ? ['first', () => gate.promise] : ['next'] });
    const world = await setUp(t, script, 'ed25519', { tellMs: 50 });
    await world.commit({ a: '1' });
    const first = world.git(['push', world.remote(), 'main']);
    await waitFor(() => world.pushes.length === 1, { what: 'the first push', deadlineMs: 60_000 });
    const second = spawn('git', ['push', world.remote(), '+main'], {
      cwd: world.work,
      env: { PATH: process.env['PATH'], ...world.gitEnv() },
    });
    const said = text(second.stderr);
    let early = '';
    second.stderr.on('data', (data: Buffer) => (early += data.toString()));
    await waitFor(() => early.includes('Another push to app is under way'), { what: 'the notice', deadlineMs: 60_000 });
    const still = /(?:Still waiting for another push to app, under way for \d+ minutes?\.[^]*){2}/;
    await waitFor(() => still.test(early), { what: 'to be told again and again', deadlineMs: 60_000 });
    const other = await world.git(['push', world.remote('other'), 'main']);
    assert.equal(other.code, 0, other.output);
    assert.equal(world.pushes.length, 2);
    gate.resolve();
    assert.equal((await first).code, 0);
    // The first moved main, so there is nothing left for the second.
    assert.match(await said, /up-to-date/);
  },
);

test(
  'only so many pushes are under way at once; the next waits for a place and says so',
  { timeout: 180_000 },
  async (t) => {
    const gates = Array.from({ length: maxPushes + 1 }, () => Promise.withResolvers<void>());
    const script = (index: number) => ({ lines: [() => gates[index]?.promise ?? Promise.resolve()] });
    const world = await setUp(t, script, 'ed25519', { tellMs: 50 });
    await world.commit({ a: '1' });
    const held = Array.from({ length: maxPushes }, (_, index) =>
      world.git(['push', world.remote(`app-${index}`), 'main']),
    );
    await waitFor(() => world.pushes.length === maxPushes, { what: 'all places to be taken', deadlineMs: 60_000 });
    const next = spawn('git', ['push', world.remote('other'), 'main'], {
      cwd: world.work,
      env: { PATH: process.env['PATH'], ...world.gitEnv() },
    });
    const ended = once(next, 'exit');
    let said = '';
    next.stderr.on('data', (data: Buffer) => (said += data.toString()));
    await waitFor(() => said.includes('other pushes are under way'), { what: 'the notice', deadlineMs: 60_000 });
    const still = `Still waiting for one of ${maxPushes} other pushes to end`;
    await waitFor(() => said.includes(still), { what: 'to be told again', deadlineMs: 60_000 });
    assert.equal(world.pushes.length, maxPushes);
    // Whichever of them ends makes room.
    gates.at(-2)?.resolve();
    await waitFor(() => world.pushes.length > maxPushes, { what: 'the next to be let in', deadlineMs: 60_000 });
    for (const gate of gates) gate.resolve();
    for (const { code, output } of await Promise.all(held)) assert.equal(code, 0, output);
    assert.deepEqual(await ended, [0, null], said);
  },
);

test('apps whose deployments go on leave half of the places to others', { timeout: 180_000 }, async (t) => {
  const gate = Promise.withResolvers<void>();
  const world = await setUp(t, () => ({ lines: [() => gate.promise] }), 'ed25519', { tellMs: 50, lookMs: 20 });
  await world.commit({ a: '1' });
  const busy = Array.from({ length: maxPushes }, (_, index) => `app-${index}`);
  for (const name of busy) world.deploying.add(`id-${name}`);
  const push = (name: string) => world.git(['push', world.remote(name), 'main']);
  const first = busy.slice(0, maxPushes / 2).map(push);
  await waitFor(() => world.pushes.length === maxPushes / 2, { what: 'half of the places', deadlineMs: 60_000 });
  const [last = ''] = busy.slice(-1);
  const waiting = spawn('git', ['push', world.remote(last), 'main'], {
    cwd: world.work,
    env: { PATH: process.env['PATH'], ...world.gitEnv() },
  });
  const ended = once(waiting, 'exit');
  let said = '';
  waiting.stderr.on('data', (data: Buffer) => (said += data.toString()));
  const others = [push('other'), push('app')];
  await waitFor(() => world.pushes.length === maxPushes / 2 + 2, { what: 'the others', deadlineMs: 60_000 });
  // It may get there later than these, however early it has begun.
  const still = 'Still waiting for a deployment of app-5 to end';
  await waitFor(() => said.includes(still), { what: 'it to wait', deadlineMs: 60_000 });
  world.deploying.delete(`id-${last}`);
  await waitFor(() => world.pushes.length === maxPushes / 2 + 3, { what: 'the one that waited', deadlineMs: 60_000 });
  gate.resolve();
  for (const { code, output } of await Promise.all([...first, ...others])) assert.equal(code, 0, output);
  assert.deepEqual(await ended, [0, null], said);
  assert.match(said, /so is a deployment of app-5: waiting for that to end/);
});

test(
  'a push that waited as long as one may take is refused, and told where to look',
  { timeout: 180_000 },
  async (t) => {
    const gate = Promise.withResolvers<void>();
    const world = await setUp(t, () => ({ lines: [() => gate.promise] }), 'ed25519', { limitMs: 50 });
    await world.commit({ a: '1' });
    const first = world.git(['push', world.remote(), 'main']);
    await waitFor(() => world.pushes.length === 1, { what: 'the first push', deadlineMs: 60_000 });
    const second = await world.git(['push', world.remote(), 'main']);
    assert.match(second.output, /pushes before this one have not ended in 0 minutes.*flynn op list -a app/);
    gate.resolve();
    assert.equal((await first).code, 0, 'one that has begun is not told to wait');
  },
);

test(
  'a client that is interrupted cancels what it started, and the next push works',
  { timeout: 180_000 },
  async (t) => {
    const world = await setUp(t, (index) => ({
      lines: index === 0 ? ['begun', () => new Promise(() => {})] : ['next'],
    }));
    await world.commit({ a: '1' });
    const push = spawn('git', ['push', world.remote(), 'main'], {
      cwd: world.work,
      env: { PATH: process.env['PATH'], ...world.gitEnv() },
      stdio: ['ignore', 'ignore', 'pipe'],
      detached: true,
    });
    let seen = '';
    push.stderr.on('data', (data: Buffer) => (seen += data.toString()));
    await waitFor(() => seen.includes('begun'), { what: 'output of the build', deadlineMs: 60_000 });
    // As the terminal does it on Ctrl-C: git and its ssh get the signal.
    process.kill(-(push.pid ?? 0), 'SIGINT');
    const { pushId } = world.pushes[0] ?? {};
    await waitFor(() => world.cancelled.includes(`build-${pushId}`), {
      what: 'the build to be cancelled',
      deadlineMs: 60_000,
    });
    await waitFor(() => world.cancelled.length === 3, { what: 'the rest to be cancelled', deadlineMs: 60_000 });
    const next = await world.git(['push', world.remote(), 'main']);
    assert.equal(next.code, 0, next.output);
  },
);

test('a push of 50 MB comes through whole', { timeout: 300_000 }, async (t) => {
  const world = await setUp(t);
  const data = randomBytes(50 * 1024 * 1024);
  await world.commit({ large: data });
  const pushed = await world.git(['push', world.remote(), 'main']);
  assert.equal(pushed.code, 0, pushed.output);
  const tar = await buffer(await world.blobs.get(world.pushes[0]?.sourceDigest ?? ''));
  const got = execFileSync('tar', ['-xO', 'large'], { input: tar, maxBuffer: 64 * 1024 ** 2 });
  assert.ok(data.equals(got));
  const clone = await world.git(['clone', '-q', world.remote(), 'copy'], { cwd: world.dir });
  assert.equal(clone.code, 0, clone.output);
  assert.ok(data.equals(await readFile(join(world.dir, 'copy', 'large'))));
});

test('a push says how long its build may wait; what it may not say is refused, and nothing is built', async (t) => {
  const world = await setUp(t);
  const head = await world.commit({ Procfile: 'web: run' });
  const refused = await world.git(['push', '-o', 'expires=soon', world.remote(), 'main']);
  assert.notEqual(refused.code, 0);
  assert.match(
    refused.output,
    /"expires=soon" is no length of time\.\s+remote: {2}!\s+git push -o expires=10m flynn main/,
  );
  assert.equal(world.pushes.length, 0);
  const pushed = await world.git(['push', '-o', 'expires=10m', world.remote(), 'main']);
  assert.equal(pushed.code, 0, pushed.output);
  assert.equal(world.pushes[0]?.expiresInMs, 600_000);
  assert.equal(await remoteHead(world), head);
});
