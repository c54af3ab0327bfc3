import assert from 'node:assert/strict';
import { test } from 'node:test';
import { generic } from '@flynn/controller/generic/api';
import { type Route, routeSchema } from '@flynn/controller/model';
import { isPasswordOf } from '@flynn/kit/password-hash';
import { openDeskWithController } from '../testing.ts';

async function open() {
  const env = await openDeskWithController({});
  await env.desk.run(['create', 'shop']);
  const run = async (argv: string[], stdin = '') => {
    const { code, stdout, stderr } = await env.desk.run(['-a', 'shop', ...argv], { input: stdin });
    assert.equal(code, 0, stderr);
    return stdout;
  };
  const refused = async (expected: RegExp, argv: string[], stdin = '') => {
    const { code, stderr } = await env.desk.run(['-a', 'shop', ...argv], { input: stdin });
    assert.match(stderr, expected);
    return code;
  };
  const read = async (argv: string[], stdin?: string): Promise<Route> =>
    routeSchema.parse(JSON.parse(await run([...argv, '--json'], stdin)));
  return { env, run, refused, read, [Symbol.asyncDispose]: () => env[Symbol.asyncDispose]() };
}

const place = 'a.example.com';
const update = (...argv: string[]) => ['route', 'update', place, ...argv];

test('a route asks for passwords that were typed here, and shows who has one', async () => {
  await using desk = await open();
  const { env, run, read } = desk;
  const made = await read(
    ['route', 'add', 'http', place, '--user', 'ann', '--user', 'ben'],
    'open sesame\nopen barley\n',
  );
  assert.deepEqual(made.http.access, { users: { ann: {}, ben: {} }, allow: [], needs: 'all' });
  assert.match(await run(['route', 'info', place]), /user=ann ben/);
  const kind = { group: 'flynn', version: 'v1', kind: 'Route' };
  const hashes = async () => {
    const { spec } = await env.controller.client.call(generic.get, { params: { ...kind, name: `${place}/` } });
    return routeSchema.shape.http.parse(spec['http']).access?.users ?? {};
  };
  const first = await hashes();
  assert.equal(await isPasswordOf('open sesame', first['ann']?.hash ?? ''), true);
  assert.equal(await isPasswordOf('open barley', first['ben']?.hash ?? ''), true);
  await run(update('--user', 'ann', '--remove-user', 'ben'), 'something else\n');
  const second = await hashes();
  assert.deepEqual(Object.keys(second), ['ann']);
  assert.equal(await isPasswordOf('something else', second['ann']?.hash ?? ''), true);
});

test('a route is for addresses, beside passwords or in their place, and for everybody again', async () => {
  await using desk = await open();
  const { run, read, refused } = desk;
  await run(['route', 'add', 'http', place, '--allow', '10.0.0.0/8', '--allow', '192.0.2.7']);
  assert.match(await run(['route']), /allow=10\.0\.0\.0\/8 192\.0\.2\.7/);
  const any = await read(update('--user', 'ann', '--access', 'any'), 'open sesame');
  assert.deepEqual(any.http.access, { users: { ann: {} }, allow: ['10.0.0.0/8', '192.0.2.7'], needs: 'any' });
  assert.match(await run(['route', 'info', place]), /access=any/);
  const alone = await read(update('--no-allow', '--access', 'all'));
  assert.deepEqual(alone.http.access, { users: { ann: {} }, allow: [], needs: 'all' });
  assert.equal(await refused(/nobody could come in.*--no-access/, update('--no-user')), 1);
  assert.equal(
    await refused(/--no-access lets in everybody: it goes with no/, update('--no-access', '--allow', '::1')),
    2,
  );
  assert.equal((await read(update('--no-access'))).http.access, undefined);
});

test('where everybody still reaches what was closed at one place is told', async () => {
  await using desk = await open();
  const told = async (argv: string[]) => (await desk.env.desk.run(['-a', 'shop', ...argv])).stderr;
  const allow = ['--allow', '10.0.0.0/8'];
  assert.match(
    await told(['route', 'add', 'http', place, ...allow]),
    /everybody still reaches shop-web by shop\.[a-z.]+: each route says for itself/,
  );
  await desk.run(['route', 'add', 'tcp', '-p', '3100']);
  assert.match(await told(update(...allow)), /by shop\.[a-z.]+, tcp:3100:/);
  assert.equal(await told(update('--sticky')), '', 'only of whom says who gets in');
  await desk.run(['route', 'add', 'http', 'b.example.com', '-s', 'shop-admin']);
  await desk.run(['route', 'remove', 'tcp:3100']);
  const [own] = (await desk.run(['route'])).match(/shop\.flynn\S*/) ?? [];
  assert.equal(await told(['route', 'update', own?.replace(/^https?:\/\//, '') ?? '', ...allow]), '');
});

test('what is no password, no user or no address is told, and nothing is changed', async () => {
  await using desk = await open();
  const { read, refused } = desk;
  await read(['route', 'add', 'http', place]);
  assert.equal(await refused(/8 to 128 characters/, update('--user', 'ann'), 'short\n'), 1);
  assert.equal(await refused(/2 lines, and there are 1 users/, update('--user', 'ann'), 'one\ntwo\n'), 2);
  assert.equal(await refused(/users\.a:b|name of a user/, update('--user', 'a:b'), 'open sesame'), 1);
  assert.equal(await refused(/"home" is no address/, update('--allow', 'home')), 1);
  assert.equal((await read(['route', 'info', place])).http.access, undefined);
});

test('a hash for a file is made of what is read', async () => {
  await using desk = await open();
  const hash = (await desk.run(['route', 'password-hash'], 'open sesame\n')).trim();
  assert.equal(await isPasswordOf('open sesame', hash), true);
});
