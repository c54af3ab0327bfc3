import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { counterKind } from '@flynn/controller/generic/demo';
import { generic } from '@flynn/controller/generic/api';
import { waitFor } from '@flynn/kit/retry';
import { runCli } from '../program.ts';
import { type Desk, openDeskWithController } from '../testing.ts';

const open = () => openDeskWithController({ kinds: [counterKind] });

async function save(desk: Desk, name: string, text: string): Promise<string> {
  const path = join(desk.home, name);
  await writeFile(path, text);
  return path;
}

const shop = `kind: App
name: shop
labels: { team: sales }
spec:
  image: test/shop:1
  env:
    GREETING: "hello # not a comment"
  processes:
    web: { count: 2, memory: 256MB, ports: [{ port: 8080 }] }
  routes:
    - domain: shop.example.com
---
kind: demo/v1/Counter
name: peas
owner: app/shop
spec: { target: 3 }
`;

test('`apply` makes what a file says and waits for it; again it changes nothing; `diff` tells what would change', async () => {
  await using env = await open();
  const { desk } = env;
  const file = await save(desk, 'shop.yaml', shop);
  const would = await desk.run(['apply', '-f', file, '--dry-run']);
  assert.equal(would.stdout, 'app/shop would be created\ncounter/peas would be created\n', would.stderr);
  assert.equal((await desk.run(['apps', '--json'])).stdout, '[]\n');
  const made = await desk.run(['apply', '-f', file]);
  assert.equal(made.code, 0, made.stderr);
  assert.match(made.stdout, /^app\/shop created\napp\/shop deployed in [\d.]+s\ncounter\/peas created\n$/);
  await env.controller.jobsOf('shop', 2);
  const again = await desk.run(['apply', '-f', file]);
  assert.equal(again.stdout, 'app/shop unchanged\ncounter/peas unchanged\n', again.stderr);
  const none = await desk.run(['diff', '-f', file]);
  assert.deepEqual([none.code, none.stdout], [0, '']);
  const other = await save(desk, 'other.yaml', shop.replace('count: 2', 'count: 3').replace('target: 3', 'target: 4'));
  const diff = await desk.run(['diff', '-f', other]);
  assert.equal(diff.code, 1);
  assert.equal(
    diff.stdout,
    [
      'app/shop would be configured',
      '  - spec.processes.web.count: 2',
      '  + spec.processes.web.count: 3',
      'counter/peas would be configured',
      '  - spec.target: 3',
      '  + spec.target: 4',
      '',
    ].join('\n'),
  );
  const json = await desk.run(['apply', '-f', other, '--json']);
  assert.deepEqual(JSON.parse(json.stdout), [
    { object: 'app/shop', outcome: 'configured' },
    { object: 'counter/peas', outcome: 'configured' },
  ]);
});

test('of wrong documents each mistake is told with file, line and field, and nothing is written', async () => {
  await using env = await open();
  const { desk } = env;
  const folder = join(desk.home, 'cluster');
  await mkdir(folder);
  await writeFile(join(folder, '1-good.yaml'), 'kind: App\nname: good\n');
  await writeFile(
    join(folder, '2-bad.yaml'),
    'kind: App\nname: bad\nspec:\n  processes:\n    web:\n      memori: 1\n      count: -1\n---\nkind: Cuonter\nname: x\n---\nkind: Counter\nname: y\nspec:\n  target: 13\n',
  );
  await writeFile(join(folder, '3-broken.yml'), 'kind: [');
  await writeFile(join(folder, 'notes.txt'), 'not mine');
  const { code, stderr, stdout } = await desk.run(['apply', '-f', 'cluster'], { cwd: desk.home });
  assert.deepEqual([code, stdout], [1, '']);
  assert.match(stderr, /^flynn: nothing was changed, because of \d mistakes:\n/);
  for (const line of [
    /cluster\/2-bad\.yaml:6: spec\.processes\.web\.memori: there is no such field/,
    /cluster\/2-bad\.yaml:7: spec\.processes\.web\.count: /,
    /cluster\/2-bad\.yaml:9: there is no kind "Cuonter": did you mean counter\?/,
    /cluster\/2-bad\.yaml:15: spec\.target: thirteen brings bad luck/,
    /cluster\/3-broken\.yml:1: /,
  ]) {
    assert.match(stderr, line);
  }
  assert.equal((await desk.run(['apps', '--json'])).stdout, '[]\n');
});

test('what reads nothing, and what is there twice, is refused', async () => {
  await using env = await open();
  const { desk } = env;
  const rows: [string[], string, RegExp, number][] = [
    [['apply'], '', /nothing to read: name a file/, 2],
    [['apply', '-f', 'missing.yaml'], '', /cannot read missing\.yaml/, 1],
    [['apply', '-f', '-'], '# nothing', /standard input|no objects in it/, 2],
    [
      ['apply', '-f', '-'],
      'kind: Counter\nname: a\nspec: {target: 1}\n---\nkind: counter\nname: a\nspec: {target: 2}',
      /standard input:6: counter\/a is also at standard input:2/,
      1,
    ],
    [['apply', '-f', '-'], 'kind: Release\nname: v1', /standard input:1: a release is not made or changed here/, 1],
    [
      ['apply', '-f', '-'],
      'kind: Counter\nname: a\nowner: app/none\nspec: {target: 1}',
      /standard input:3: owner: there is no app "none"/,
      1,
    ],
  ];
  for (const [argv, input, pattern, expected] of rows) {
    const { code, stderr } = await desk.run(argv, { input });
    assert.match(stderr, pattern);
    assert.equal(code, expected, stderr);
  }
});

test('a deployment that fails is told, with what has been done; `-n` does not wait for one', async () => {
  await using env = await open();
  const { desk, controller } = env;
  controller.setBehaviour(() => ({ is: 'crash', code: 3 }));
  const failed = await desk.run(['apply', '-f', '-'], { input: shop });
  assert.equal(failed.code, 1);
  assert.match(
    failed.stderr,
    /standard input:1: app\/shop was not deployed: .*\n[^]*mend it and apply again.*; 1 object of the/,
  );
  controller.setBehaviour(() => ({ is: 'run' }));
  const again = await desk.run(['apply', '-n', '-f', '-'], { input: shop });
  assert.equal(again.code, 0, again.stderr);
  assert.match(again.stdout, /^app\/shop (?:un)?c\w+\ncounter\/peas created\n$/);
});

test('`get` tells objects as tables and files; what it tells can be applied again', async () => {
  await using env = await open();
  const { desk } = env;
  assert.equal((await desk.run(['apply', '-f', '-'], { input: shop })).code, 0);
  await waitFor(async () => (await desk.run(['get', 'counters'])).stdout.includes('ready'), {
    what: 'a counted counter',
    deadlineMs: 60_000,
  });
  const table = await desk.run(['get', 'counters']);
  assert.match(table.stdout, /^NAME  TARGET  COUNT  STATE  AGE\npeas  3       3      ready  \d+s\n$/);
  const one = await desk.run(['get', 'counter', 'peas']);
  assert.match(one.stdout, /CONDITION  STATUS  REASON  MESSAGE\nCounted    True    Done    3 of 3 beans\n/);
  const file = await desk.run(['get', 'app', 'shop', '-o', 'yaml']);
  assert.match(
    file.stdout,
    /^kind: App\nname: shop\nlabels:\n {2}team: sales\nspec:\n[^]*image: test\/shop:1\n[^]*metadata:\n/,
  );
  const back = await desk.run(['apply', '-f', '-'], { input: file.stdout });
  assert.equal(back.stdout, 'app/shop unchanged\n', back.stderr);
  const all = await desk.run(['get', 'all', '-o', 'yaml']);
  assert.match(
    all.stdout,
    /^kind: App\nname: shop\n[^]*\n---\nkind: demo\/v1\/Counter\nname: peas\nowner: app\/shop\n/,
  );
  assert.doesNotMatch(all.stdout, /metadata|revision/);
  const allBack = await desk.run(['apply', '-f', '-'], { input: all.stdout });
  assert.equal(allBack.stdout, 'app/shop unchanged\ncounter/peas unchanged\n', allBack.stderr);
  const json: unknown = JSON.parse((await desk.run(['get', 'counters', '-l', 'a=b', '--json'])).stdout);
  assert.deepEqual(json, []);
  assert.match((await desk.run(['get', 'counters', '-a', 'shop'])).stdout, /peas/);
  assert.match((await desk.run(['get', 'all'])).stdout, /^OBJECT +STATE +AGE\napp\/shop +/);
  const rows: [string[], RegExp, number][] = [
    [['get', 'cuonters'], /no kind "cuonters": did you mean counters\?/, 1],
    [['get', 'counter', 'none'], /no counter "none"; list them with: flynn get counter/, 1],
    [['get', 'counters', '-o', 'xml'], /choose from table, yaml, json/, 2],
  ];
  for (const [argv, pattern, expected] of rows) {
    const { code, stderr } = await desk.run(argv);
    assert.match(stderr, pattern);
    assert.equal(code, expected);
  }
});

test('a file of everything makes another cluster the same', async () => {
  await using here = await open();
  await using there = await open();
  assert.equal((await here.desk.run(['apply', '-f', '-'], { input: shop })).code, 0);
  await here.controller.deployApp('router', { app: {} }, { isSystem: true });
  const file = (await here.desk.run(['get', 'all', '-o', 'yaml'])).stdout;
  const made = await there.desk.run(['apply', '-f', '-'], { input: file });
  assert.equal(made.code, 0, made.stderr);
  assert.doesNotMatch(made.stdout, /router/);
  assert.equal((await there.desk.run(['get', 'all', '-o', 'yaml'])).stdout, file);
});

test('`get -w` tells what there is, then changes, until Ctrl-C', async () => {
  await using env = await open();
  const { desk, controller } = env;
  const counters = { group: 'demo', version: 'v1', kind: 'Counter' };
  const apply = (name: string, target: number) =>
    controller.client.call(generic.apply, { params: counters, body: { name, spec: { target } } });
  await apply('peas', 0);
  const io = desk.io();
  const ran = runCli(['get', 'counters', '-w'], io);
  const seen = async (pattern: RegExp) => {
    await waitFor(() => pattern.test(io.stdout.text), { what: String(pattern), deadlineMs: 60_000, intervalMs: 5 });
  };
  await seen(/^EVENT .*\nhave +peas +0 /);
  await apply('beans', 1);
  await seen(/\nput +beans +1 +1 +ready/);
  assert.equal((await desk.run(['delete', 'counter', 'beans'])).stdout, 'counter/beans deleted\n');
  await seen(/\ndelete +beans +1 +0 +deleting/);
  assert.equal(io.signal('SIGINT'), 1);
  assert.equal(await ran, 0, io.stderr.text);
});

test('`delete KIND NAME` waits until it is gone, and says what keeps it', async () => {
  await using env = await openDeskWithController({ kinds: [counterKind], hasWorker: false });
  const { desk, controller } = env;
  const { resources } = controller.deps;
  const input = 'kind: Counter\nname: stuck\nspec: { target: 1 }';
  assert.equal((await desk.run(['apply', '-f', '-'], { input })).code, 0);
  const type = counterKind.type;
  const { id } = await resources.lookup(type, 'stuck');
  await resources.change(type, id, () => ({ finalizers: ['cellar', 'attic'], waitingFor: {} }));
  await resources.change(type, id, () => ({ waitingFor: { cellar: 'the keys' } }));
  const late = await desk.run(['delete', 'counter', 'stuck', '--timeout', '1']);
  assert.equal(late.code, 1);
  assert.match(
    late.stderr,
    /counter\/stuck is not gone after 1 s\n {2}cellar waits for: the keys\n {2}attic waits for: it has/,
  );
  const told = await desk.run(['delete', 'counter', 'stuck', '--no-wait']);
  assert.match(told.stdout, /^counter\/stuck is being deleted\n {2}cellar waits for: the keys\n/);
  assert.match((await desk.run(['get', 'counter', 'stuck'])).stdout, /deleting[^]*cellar waits for: the keys/);
  const apply = await desk.run(['apply', '-f', '-'], { input });
  assert.match(apply.stderr, /counter stuck is being deleted \(the keys\): apply it again once it is gone/);
  await resources.change(type, id, () => ({ finalizers: [] }));
  assert.match((await desk.run(['delete', 'counter', 'stuck'])).stderr, /no counter "stuck"/);
  assert.match((await desk.run(['delete', 'counter'])).stderr, /which counter\? write flynn delete counter NAME/);
  assert.match((await desk.run(['delete', 'shop'])).stderr, /"shop" is no kind of object; .*"flynn delete app shop"/);
});

test('`delete app NAME` is the same as deleting it by name', async () => {
  await using env = await open();
  await env.desk.run(['create', 'hello']);
  assert.match((await env.desk.run(['delete', 'app', 'hello'])).stderr, /cannot be undone\n {2}say so with -y/);
  assert.match((await env.desk.run(['delete', 'app', 'hello', '-y'])).stdout, /^Deleted hello: 1 route/);
});

test('`resources` tells the kinds, and what a file of one may say', async () => {
  await using env = await open();
  const { stdout } = await env.desk.run(['kinds']);
  assert.match(stdout, /^KIND +NAMES +WRITABLE +SUMMARY\n/);
  assert.match(stdout, /\nCounter +counter,counters +yes +counts to its target\n/);
  assert.match(stdout, /\nRelease +release,releases +no +/);
  const app = await env.desk.run(['kinds', 'app']);
  assert.match(app.stdout, /^flynn\/v1\/App: an app with[^]*spec\.processes\.NAME\.count +integer +no\n/);
  assert.match((await env.desk.run(['kinds', 'counter'])).stdout, /spec\.target +integer +yes/);
  assert.match((await env.desk.run(['kinds', 'release'])).stderr, /a release is not written in files/);
});
