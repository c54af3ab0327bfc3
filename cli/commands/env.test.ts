import assert from 'node:assert/strict';
import { readlink, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { apps, deployments, releases } from '@flynn/controller/api';
import { waitFor } from '@flynn/kit/retry';
import { runCli } from '../program.ts';
import { openDeskWithController } from '../testing.ts';

const awkward = '$HOME `id` #not a comment "double" \'single\' \\ é 漢\nsecond line\ttab  ';

test('`env set` makes a release that is live when the command ends, with every byte as given', async () => {
  await using env = await openDeskWithController();
  const { release } = await env.controller.deployApp('hello', { web: {} });
  const set = await env.desk.run(['-a', 'hello', 'env', 'set', `AWKWARD=${awkward}`, 'PLAIN=x']);
  assert.equal(set.code, 0, set.stderr);
  assert.match(set.stdout, /^release v2 deployed in \d+\.\ds\n$/);
  const app = await env.controller.client.call(apps.get, { params: { app: 'hello' } });
  const live = await env.controller.client.call(releases.get, { params: { app: 'hello', release: 'v2' } });
  assert.equal(app.releaseId, live.id);
  assert.deepEqual(live.env, { AWKWARD: awkward, PLAIN: 'x' });
  assert.equal(live.artifactId, release.artifactId);
  assert.deepEqual(live.processes, release.processes);
  const got = await env.desk.run(['-a', 'hello', 'env', 'get', 'AWKWARD']);
  assert.equal(got.stdout, awkward);
  assert.deepEqual(JSON.parse((await env.desk.run(['-a', 'hello', 'env', '--json'])).stdout), live.env);
  const listed = (await env.desk.run(['-a', 'hello', 'env'])).stdout;
  assert.match(listed, /^AWKWARD=\$'.*'\nPLAIN=x\n$/);
  const more = JSON.parse((await env.desk.run(['-a', 'hello', 'env', 'set', 'MORE=y', '--json'])).stdout);
  assert.deepEqual(more.release.variables, ['AWKWARD', 'MORE', 'PLAIN']);
  assert.equal(more.release.env, undefined, 'what nobody asked for');
});

test('setting what is already set makes no release', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('hello', { web: {} });
  await env.desk.run(['-a', 'hello', 'env', 'set', 'A=1']);
  const { code, stdout } = await env.desk.run(['-a', 'hello', 'env', 'set', 'A=1']);
  assert.equal(code, 0);
  assert.match(stdout, /nothing changes/);
  const all = await env.controller.client.call(releases.list, { params: { app: 'hello' } });
  assert.equal(all.length, 2);
});

test('`env set` reads a file and standard input; what is on the command line counts more', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('hello', { web: {} });
  await writeFile(join(env.desk.home, '.env'), 'A=file\nB="two\\nlines"\n');
  assert.equal((await env.desk.run(['-a', 'hello', 'env', 'set', '--file', '.env', 'A=argument'])).code, 0);
  const input = 'C=3\n';
  assert.equal((await env.desk.run(['-a', 'hello', 'env', 'set', '-f', '-'], { input })).code, 0);
  assert.deepEqual(JSON.parse((await env.desk.run(['-a', 'hello', 'env', '--json'])).stdout), {
    A: 'argument',
    B: 'two\nlines',
    C: '3',
  });
  const missing = await env.desk.run(['-a', 'hello', 'env', 'set', '-f', 'nosuch']);
  assert.equal(missing.code, 1);
  assert.match(missing.stderr, /cannot read nosuch/);
});

test('`env unset` removes, and says what is not set', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('hello', { web: {} });
  await env.desk.run(['-a', 'hello', 'env', 'set', 'A=1', 'B=2']);
  assert.equal((await env.desk.run(['-a', 'hello', 'env', 'unset', 'A'])).code, 0);
  assert.equal((await env.desk.run(['-a', 'hello', 'env'])).stdout, 'B=2\n');
  for (const command of ['unset', 'get']) {
    const { code, stderr } = await env.desk.run(['-a', 'hello', 'env', command, 'A']);
    assert.equal(code, 1);
    assert.match(stderr, /not set: A/);
  }
});

test('with --references a value follows other variables; without, every $ stays', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('hello', { web: {} });
  const flynn = (...words: string[]) => env.desk.run(['-a', 'hello', 'env', ...words]);
  const url = 'pg://${USER}:${PASSWORD}@db';
  await flynn('set', 'USER=ada', 'PASSWORD=a${USER}$$', `LITERAL=${url}`);
  assert.equal((await flynn('get', 'LITERAL')).stdout, url);
  const set = await flynn('set', '--references', `URL=${url}`);
  assert.equal(set.code, 0, set.stderr);
  assert.equal((await flynn('get', 'URL')).stdout, 'pg://ada:a${USER}$$@db');
  assert.equal((await flynn('references')).stdout, `URL='${url}'\n`);
  await flynn('set', 'PASSWORD=new');
  assert.equal((await flynn('get', 'URL')).stdout, 'pg://ada:new@db');
  assert.match((await flynn('set', '--references', `URL=${url}`)).stdout, /nothing changes/);
  const gone = await flynn('unset', 'PASSWORD');
  assert.equal(gone.code, 1);
  assert.match(
    gone.stderr,
    /URL refers to \$\{PASSWORD\}, and the app has no variable PASSWORD: set it too, or set URL anew/,
  );
  assert.match((await flynn('set', '--references', 'URL=${URL}')).stderr, /in a circle: URL → URL/);
  assert.equal((await flynn('get', 'URL')).stdout, 'pg://ada:new@db');
  await flynn('set', 'URL=plain');
  assert.equal((await flynn('references')).stdout, '');
  assert.equal((await flynn('unset', 'PASSWORD', 'URL')).code, 0);
  assert.equal((await flynn()).stdout, `LITERAL='${url}'\nUSER=ada\n`);
});

test('what several people change at once is all there', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('hello', { web: {} });
  const changes = await Promise.all([
    ...['A', 'B', 'C'].map((name) => env.desk.run(['-a', 'hello', 'env', 'set', `${name}=1`])),
    env.desk.run(['-a', 'hello', 'limit', 'set', 'web', 'memory=300MiB']),
  ]);
  for (const { code, stderr } of changes) assert.equal(code, 0, stderr);
  const { client } = env.controller;
  const app = await client.call(apps.get, { params: { app: 'hello' } });
  const live = await client.call(releases.get, { params: { app: 'hello', release: app.releaseId ?? '' } });
  assert.deepEqual(live.env, { A: '1', B: '1', C: '1' });
  assert.equal(live.processes['web']?.memoryBytes, 300 * 2 ** 20);
  // What was made in vain is gone.
  const kept = await client.call(releases.list, { params: { app: 'hello' } });
  assert.equal(kept.length, 5);
});

test('before the first push, too, what several people set at once is all there', async () => {
  await using env = await openDeskWithController();
  const params = { app: 'hello' };
  await env.controller.client.call(apps.create, { body: { name: 'hello' } });
  const names = ['A', 'B', 'C', 'D'];
  for (const { code, stderr } of await Promise.all(
    names.map((name) => env.desk.run(['-a', 'hello', 'env', 'set', `${name}=1`])),
  )) {
    assert.equal(code, 0, stderr);
  }
  const [newest] = await env.controller.client.call(releases.list, { params });
  assert.deepEqual(Object.keys(newest?.env ?? {}).toSorted(), names);
});

test('before the first push env is kept in a release that is not deployed', async () => {
  await using env = await openDeskWithController();
  await env.desk.run(['create', 'hello']);
  assert.equal((await env.desk.run(['-a', 'hello', 'env'])).stdout, '');
  const first = await env.desk.run(['-a', 'hello', 'env', 'set', 'A=1']);
  assert.equal(first.stdout, 'release v1 created; it takes effect with the first push\n');
  const second = await env.desk.run(['-a', 'hello', 'env', 'set', 'B=2']);
  assert.equal(second.stdout, 'release v2 created; it takes effect with the first push\n');
  assert.equal((await env.desk.run(['-a', 'hello', 'env'])).stdout, 'A=1\nB=2\n');
});

test('env set after a first deployment that failed keeps the processes and says when it fails too', async () => {
  await using env = await openDeskWithController({
    behave: () => ({ is: 'exit', code: 1, lines: ['no DATABASE_URL'] }),
  });
  await env.desk.run(['create', 'hello']);
  const { id } = await env.controller.makeRelease('hello', { web: {} });
  assert.equal((await env.controller.deploy('hello', id)).state, 'failed');
  const failed = await env.desk.run(['-a', 'hello', 'env', 'set', 'A=1']);
  assert.equal(failed.code, 1);
  assert.match(
    failed.stderr,
    /^flynn: v2 was not deployed: [^]*\n {2}\| no DATABASE_URL\n {2}"flynn log -a hello" has all/,
  );
  env.controller.setBehaviour(() => ({ is: 'run' }));
  const set = await env.desk.run(['-a', 'hello', 'env', 'set', 'DATABASE_URL=x']);
  assert.equal(set.code, 0, set.stderr);
  const live = await env.controller.client.call(releases.get, { params: { app: 'hello', release: 'v3' } });
  assert.deepEqual(Object.keys(live.processes), ['web']);
});

test('a deployment that fails is told with the last lines of its job, and what was live stays so', async () => {
  await using env = await openDeskWithController();
  const { release } = await env.controller.deployApp('hello', { web: {} });
  env.controller.setBehaviour(() => ({ is: 'exit', code: 1, lines: ['cannot start', 'bye'] }));
  const { code, stdout, stderr } = await env.desk.run(['-a', 'hello', 'env', 'set', 'A=1']);
  assert.equal(code, 1);
  assert.equal(stdout, '');
  assert.match(stderr, /v2 was not deployed: [^]*\n {2}\| cannot start\n {2}\| bye\n {2}the release before it is live/);
  const app = await env.controller.client.call(apps.get, { params: { app: 'hello' } });
  assert.equal(app.releaseId, release.id);
});

test('`rollback` brings release and env back, past releases whose deployment failed', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('hello', { web: {} });
  env.controller.setBehaviour(() => ({ is: 'exit', code: 1 }));
  assert.equal((await env.desk.run(['-a', 'hello', 'env', 'set', 'BAD=1'])).code, 1);
  env.controller.setBehaviour(() => ({ is: 'run' }));
  await env.desk.run(['-a', 'hello', 'env', 'set', 'GOOD=1']);
  const back = await env.desk.run(['-a', 'hello', 'rollback', '-y']);
  assert.match(back.stdout, /^release v1 deployed in/);
  assert.equal((await env.desk.run(['-a', 'hello', 'env'])).stdout, '');
  const none = await env.desk.run(['-a', 'hello', 'rollback']);
  assert.equal(none.code, 1);
  assert.match(none.stderr, /no earlier release/);
  assert.match((await env.desk.run(['-a', 'hello', 'rollback', 'v3'])).stdout, /^release v3 deployed/);
  assert.equal((await env.desk.run(['-a', 'hello', 'rollback', 'v3'])).stdout, 'v3 is live already\n');
  const unknown = await env.desk.run(['-a', 'hello', 'rollback', '-y', 'v99']);
  assert.equal(unknown.code, 1);
  assert.match(unknown.stderr, /v99/);
});

test('releases and deployments are listed, newest first, with the live one marked', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('hello', { web: {} });
  await env.desk.run(['-a', 'hello', 'env', 'set', 'A=1']);
  const words = (text: string) =>
    text
      .trimEnd()
      .split('\n')
      .map((line) => line.split(/ {2,}/));
  const listed = words((await env.desk.run(['-a', 'hello', 'release'])).stdout);
  assert.deepEqual(
    listed.map(([version, live]) => [version, live]),
    [
      ['VERSION', 'LIVE'],
      ['v2', '*'],
      ['v1', '-'],
    ],
  );
  const rollouts = words((await env.desk.run(['-a', 'hello', 'deployment'])).stdout);
  assert.deepEqual(
    rollouts.map(([, ...rest]) => rest.slice(0, 3)),
    [
      ['STATE', 'FROM', 'TO'],
      ['complete', 'v1', 'v2'],
      ['complete', '-', 'v1'],
    ],
  );
  const json = JSON.parse((await env.desk.run(['-a', 'hello', 'release', '--json'])).stdout) as {
    version: number;
    isCurrent: boolean;
  }[];
  assert.deepEqual(
    json.map(({ version, isCurrent }) => [version, isCurrent]),
    [
      [2, true],
      [1, false],
    ],
  );
  const shown = JSON.parse((await env.desk.run(['-a', 'hello', 'release', 'show', 'v2'])).stdout) as { env: unknown };
  assert.deepEqual(shown.env, { A: '1' });
});

test('`env export` writes what `env import` reads again, every byte, and --exact removes the rest', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('one', { web: {} });
  await env.controller.deployApp('two', { web: {} });
  const values = {
    A: `it's "so" $HOME #no\r\n\ttwo\\`,
    B: 'é漢 🚀',
    EMPTY: '',
    PLAIN: 'x=y',
    ESCAPE: '\u001b[1m\u009b',
  };
  const set = await env.desk.run(['-a', 'one', 'env', 'set', ...Object.entries(values).map(([k, v]) => `${k}=${v}`)]);
  assert.equal(set.code, 0, set.stderr);
  const file = join(env.desk.home, 'saved.env');
  await writeFile(file, 'before', { mode: 0o644 });
  assert.match((await env.desk.run(['-a', 'one', 'env', 'export', file])).stdout, /saved\.env: 5 variables/);
  assert.equal((await stat(file)).mode & 0o777, 0o600, 'whoever could read what was there reads no secrets');
  for (const [place, why] of [
    ['no/where', /cannot write \S+no\/where: ENOENT/],
    ['saved.env/x', /cannot write \S+saved\.env\/x: ENOTDIR/],
    [env.desk.home, /cannot write \S+: what is there is no file; name another/],
    ['/dev/null', /cannot write \/dev\/null: what is there is no file/],
  ] as const) {
    const { code, stderr } = await env.desk.run(['-a', 'one', 'env', 'export', place]);
    assert.deepEqual([code, why.test(stderr)], [1, true], stderr);
  }
  assert.ok((await stat('/dev/null')).isCharacterDevice());
  await symlink(file, join(env.desk.home, 'link.env'));
  assert.equal((await env.desk.run(['-a', 'one', 'env', 'export', 'link.env'])).code, 0);
  assert.equal(await readlink(join(env.desk.home, 'link.env')), file);
  await env.desk.run(['-a', 'two', 'env', 'set', 'OTHER=1']);
  const imported = await env.desk.run(['-a', 'two', 'env', 'import', file]);
  assert.equal(imported.code, 0, imported.stderr);
  const of = async (app: string) => JSON.parse((await env.desk.run(['-a', app, 'env', '--json'])).stdout) as unknown;
  assert.deepEqual(await of('two'), { ...values, OTHER: '1' });
  const { stdout } = await env.desk.run(['-a', 'one', 'env', 'export']);
  await env.desk.run(['-a', 'two', 'env', 'import', '--exact', '-'], { input: stdout });
  assert.deepEqual(await of('two'), values);
  assert.equal((await env.desk.run(['-a', 'two', 'env', 'import', '-'], { input: '# none\n' })).code, 2);
});

test('Ctrl-C while env set waits for another deployment leaves no release of it, and says so', async () => {
  await using env = await openDeskWithController();
  const { desk, controller } = env;
  await controller.deployApp('hello', { web: {} });
  controller.setBehaviour(() => ({ is: 'hang' }));
  const { id: releaseId } = await controller.makeRelease('hello', { web: {} });
  await controller.client.call(deployments.create, { params: { app: 'hello' }, body: { releaseId } });
  const io = desk.io();
  const ended = runCli(['-a', 'hello', 'env', 'set', 'A=1'], io);
  const isTold = () => io.stderr.text === 'waiting for another deployment of hello to end\n';
  await waitFor(isTold, { what: 'the command to say that it waits', deadlineMs: 30_000 });
  assert.ok(io.signal('SIGINT') > 0);
  assert.equal(await ended, 1);
  assert.match(io.stderr.text, /\nflynn: stopped: v3 was not deployed\n$/);
  const left = await controller.client.call(releases.list, { params: { app: 'hello' } });
  assert.deepEqual(
    left.map(({ version }) => version),
    [2, 1],
  );
});
