import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Route, routeSchema } from '@flynn/controller/model';
import { z } from 'zod';
import { openDeskWithController } from '../testing.ts';

async function open(options: Parameters<typeof openDeskWithController>[0] = {}) {
  const env = await openDeskWithController(options);
  await env.desk.run(['create', 'shop']);
  const run = async (...argv: string[]) => {
    const { code, stdout, stderr } = await env.desk.run(['-a', 'shop', ...argv]);
    assert.equal(code, 0, stderr);
    return stdout;
  };
  const refused = async (expected: RegExp, ...argv: string[]) => {
    const { code, stderr } = await env.desk.run(['-a', 'shop', ...argv]);
    assert.match(stderr, expected);
    return code;
  };
  const read = async (...argv: string[]): Promise<Route> => routeSchema.parse(JSON.parse(await run(...argv, '--json')));
  return { env, run, refused, read, [Symbol.asyncDispose]: () => env[Symbol.asyncDispose]() };
}

test('everything a route can be set to is an option when it is made, shown, and taken back', async () => {
  await using desk = await open();
  const { env, run, read } = desk;
  await writeFile(join(env.desk.home, 'down.html'), '<p>down</p>');
  await writeFile(join(env.desk.home, 'soon.html'), '<p>soon</p>');
  const made = await read(
    ...'route add http shop.example.com/api --strip-path --sticky --protocol h2c --limit-body 10MB'.split(' '),
    ...'--limit-rate 300/m --limit-burst 20 --limit-client-connections 4 --limit-connections 8'.split(' '),
    ...'--timeout-first-byte 30s --timeout-idle 2m --timeout-total 1h --buffer 64KB --https-redirect'.split(' '),
    ...'--hsts --hsts-subdomains --canonical-host www.example.com'.split(' '),
    '--page',
    `503=${env.desk.home}/down.html`,
    '--page',
    `maintenance=${env.desk.home}/soon.html`,
  );
  assert.deepEqual(made.http, {
    stripPath: true,
    leader: false,
    sticky: true,
    weights: [],
    releaseAffinity: false,
    protocol: 'h2c',
    limits: {
      bodyBytes: 10_485_760,
      requestsPerSecond: 5,
      burst: 20,
      connectionsPerClient: 4,
      connections: 8,
    },
    timeouts: { firstByteMs: 30_000, idleMs: 120_000, totalMs: 3_600_000 },
    bufferBytes: 65_536,
    pages: { '503': '<p>down</p>', maintenance: '<p>soon</p>' },
    https: { redirect: true, hstsSeconds: 31_536_000, hstsSubdomains: true },
    canonicalHost: 'www.example.com',
  });
  const info = await run('route', 'info', 'shop.example.com/api');
  for (const text of [
    'sticky',
    'limit-body=10MB',
    'limit-rate=5/s',
    'hsts=365d',
    'timeout-idle=2m',
    'page=503 maint',
  ]) {
    assert.ok(info.includes(text), `${text} in ${info}`);
  }
  const changed = await run('route', 'update', made.id, '--no-sticky', '--no-limit-rate', '--no-limit-burst');
  assert.ok(!changed.includes('sticky') && !changed.includes('limit-rate') && changed.includes('limit-body=10MB'));
  const taken = [...info.matchAll(/(?:^Settings:| {10}) ?([a-z0-9-]+)/gm)].map(([, name]) => `--no-${name}`);
  assert.ok(taken.length >= 16);
  const bare = await read('route', 'update', made.id, ...taken);
  const { http } = routeSchema.parse({ ...bare, http: {} });
  assert.deepEqual(bare.http, http);
});

test('tcp routes have settings of their own', async () => {
  await using desk = await open();
  const { run, read, refused } = desk;
  const made = await run(
    ...'route add tcp -p 7000 --leader --server-name db.example.com --proxy-protocol v2 --idle 1h'.split(' '),
  );
  assert.equal(made, 'db.example.com at port 7000 now reaches shop-web\n');
  const changed = await read('route', 'update', 'tcp:7000/db.example.com', '--no-leader', '--idle', '30m');
  assert.deepEqual(changed.tcp, {
    leader: false,
    serverName: 'db.example.com',
    proxyProtocol: 'v2',
    idleMs: 1_800_000,
  });
  assert.match(await run('route'), /tls:\/\/db\.example\.com:7000 .* server-name=db\.example\.com, proxy-protocol=v2/);
  assert.equal(await refused(/--sticky is for http routes/, 'route', 'update', changed.id, '--sticky'), 2);
  assert.equal(await refused(/nothing to change/, 'route', 'update', changed.id), 2);
});

test('what is typed wrongly is told before anything is asked for', async () => {
  await using desk = await open();
  const { refused } = desk;
  const add = (...argv: string[]) => ['route', 'add', 'http', 'a.example.com', ...argv];
  assert.equal(await refused(/"10 MB" is no size/, ...add('--limit-body', '10 MB')), 2);
  assert.equal(await refused(/"fast" is no rate/, ...add('--limit-rate', 'fast')), 2);
  assert.equal(await refused(/"0" is no rate/, ...add('--limit-rate', '0')), 2);
  assert.equal(await refused(/"h3" is not one of http1, h2c/, ...add('--protocol', 'h3')), 2);
  assert.equal(await refused(/"v3" is no share/, ...add('--weight', 'v3')), 2);
  assert.equal(await refused(/"200=x" is no page/, ...add('--page', '200=x')), 2);
  assert.equal(await refused(/cannot read nosuch/, ...add('--page', '503=nosuch')), 1);
  assert.equal(await refused(/shop has no release "v3"/, ...add('--weight', 'v3=5')), 1);
  assert.equal(await refused(/turn the redirect to https on too/, ...add('--hsts', '1d')), 1);
});

test('a change for a revision that is no more is refused', async () => {
  await using desk = await open();
  const { read, refused } = desk;
  const made = await read('route', 'add', 'http', 'a.example.com');
  const revision = String(made.revision);
  await read('route', 'update', made.id, '--sticky', '--revision', revision);
  assert.equal(await refused(/not at revision/, 'route', 'update', made.id, '--no-sticky', '--revision', revision), 1);
});

test('maintenance is turned on and off, for an app or for one of its routes', async () => {
  await using desk = await open();
  const { env, run, read } = desk;
  const made = await read('route', 'add', 'http', 'a.example.com');
  await writeFile(join(env.desk.home, 'soon.html'), '<p>soon</p>');
  const on = await run('maintenance', 'on', '--allow', '10.0.0.0/8', '--page', join(env.desk.home, 'soon.html'));
  assert.equal(on, 'shop: 2 routes in maintenance; "flynn maintenance off" ends it\n');
  const { http } = await read('route', 'info', made.id);
  assert.deepEqual([http.maintenance, http.pages['maintenance']], [{ allow: ['10.0.0.0/8'] }, '<p>soon</p>']);
  assert.match(await run('route'), /maintenance=but for 10\.0\.0\.0\/8/);
  assert.equal(await run('maintenance'), 'shop: 2 routes in maintenance; "flynn maintenance off" ends it\n');
  assert.match(await run('maintenance', 'off', '--route', made.id), /1 route answering again/);
  assert.match(await run('maintenance'), /^shop: 1 route in maintenance;/);
  const isClosed = async () => {
    const all = z.array(routeSchema).parse(JSON.parse(await run('route', '--json')));
    return all.map((route) => route.http.maintenance !== undefined);
  };
  assert.deepEqual(new Set(await isClosed()), new Set([false, true]));
  await run('maintenance', 'off');
  assert.equal(await run('maintenance'), 'shop: 0 routes in maintenance\n');
  assert.deepEqual(await isClosed(), [false, false]);
});

test('a router that does not have the change is named; the change is made all the same', async () => {
  await using desk = await open({ routers: () => ['127.0.0.1:1'] });
  const { code, stdout, stderr } = await desk.env.desk.run(['-a', 'shop', 'route', 'add', 'http', 'a.example.com']);
  assert.equal(code, 0);
  assert.match(stdout, /a\.example\.com added/);
  assert.match(stderr, /1 router of the cluster did not say within 5 s that it is in force there: 127\.0\.0\.1:1/);
});
