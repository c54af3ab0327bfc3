import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { login } from '@flynn/controller/access/api-login';
import { startLogin } from '@flynn/controller/access/login-fixture';
import { startTestController } from '@flynn/controller/testing';
import { hasCode } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import { waitFor } from '@flynn/kit/retry';
import type { z } from 'zod';
import { runCli } from '../program.ts';
import { Desk, type TestIo } from '../testing.ts';

async function start() {
  const it = await startLogin({ scopes: 'openid email profile groups' });
  const desk = await Desk.open();
  return {
    provider: it.provider,
    controller: it.world,
    desk,
    async [Symbol.asyncDispose]() {
      await desk[Symbol.asyncDispose]();
      await it[Symbol.asyncDispose]();
    },
  };
}

/** The address that the command shows, once it does. */
async function pageOf(io: TestIo): Promise<string> {
  return waitFor(() => /^ {2}(http\S+)$/m.exec(io.stderr.text)?.[1], {
    what: 'the page',
    deadlineMs: 60_000,
    intervalMs: 10,
  });
}

test('a person logs in with a browser on their machine, and is known from then on', async () => {
  await using it = await start();
  const io = it.desk.io();
  const running = runCli(['login', 'home', it.controller.url], io);
  const page = await fetch(await pageOf(io));
  assert.match(await page.text(), /you can close this page/);
  assert.equal(await running, 0, io.stderr.text);
  assert.match(io.stdout.text, /^logged in to home as ann@example\.com, until 20/);
  assert.match((await it.desk.run(['whoami'])).stdout, /^ann@example\.com\n/);
  // Again, by the name it has here.
  const again = it.desk.io();
  const second = runCli(['login'], again);
  await (await fetch(await pageOf(again))).text();
  assert.equal(await second, 0, again.stderr.text);
});

test('where the browser is elsewhere, the address it ends up at is pasted; a provider may tell who it is apart', async () => {
  await using it = await start();
  it.provider.isTerse = true;
  const io = it.desk.io();
  const running = runCli(['login', '--paste', 'home', it.controller.url], io);
  const page = await pageOf(io);
  assert.equal(new URL(page).searchParams.get('scope'), 'openid email profile groups');
  const redirected = await fetch(page, { redirect: 'manual' });
  io.stdin.write(`${redirected.headers.get('location') ?? ''}\n`);
  assert.equal(await running, 0, io.stderr.text);
  assert.match((await it.desk.run(['whoami'])).stdout, /^ann@example\.com\n/);
});

test('an answer that is not to this login, a refusal, and a cluster without login end with what to do', async () => {
  await using it = await start();
  const answers: [(to: URL) => void, RegExp][] = [
    [(to) => to.searchParams.set('error', 'access_denied'), /the provider refused: access_denied/],
    [(to) => to.searchParams.set('code', 'stolen'), /the provider refused: invalid_grant\n {2}start again/],
    [(to) => to.searchParams.delete('code'), /holds no code/],
  ];
  for (const [change, expected] of answers) {
    const io = it.desk.io();
    const running = runCli(['login', 'home', it.controller.url], io);
    const redirected = await fetch(await pageOf(io), { redirect: 'manual' });
    const back = new URL(redirected.headers.get('location') ?? '');
    change(back);
    await (await fetch(back)).text();
    assert.equal(await running, 1);
    assert.match(io.stderr.text, expected);
  }
  it.provider.isConfidential = true;
  const confidential = it.desk.io();
  const refused = runCli(['login', 'home', it.controller.url], confidential);
  await (await fetch(await pageOf(confidential))).text();
  assert.equal(await refused, 1);
  assert.match(
    confidential.stderr.text,
    /refused: client authentication failed \(invalid_client\)\n {2}an admin registers/,
  );
  assert.doesNotMatch(confidential.stderr.text, /flynn status/);
  await using plain = await startTestController({ hosts: 0, hasWorker: false });
  const none = await it.desk.run(['login', 'plain', plain.url]);
  assert.match(none.stderr, /has no login: an admin makes a user with "flynn user add"/);
  assert.equal((await it.desk.run(['login', 'nosuch'])).code, 2);
  assert.equal((await it.desk.run(['login', 'x', 'example.com'])).code, 2);
});

test('what is no answer to this login does not end it; pasted, it does', async () => {
  await using it = await start();
  const io = it.desk.io();
  const running = runCli(['login', 'home', it.controller.url], io);
  const redirected = await fetch(await pageOf(io), { redirect: 'manual' });
  const back = redirected.headers.get('location') ?? '';
  const forged = new URL(back);
  for (const state of ['forged', '']) {
    forged.searchParams.set('state', state);
    const refused = await fetch(forged);
    assert.equal(refused.status, 400);
    assert.match(await refused.text(), /not the answer to the login that is under way/);
  }
  assert.equal((await fetch(new URL('/favicon.ico', back))).status, 404);
  assert.match(await (await fetch(back)).text(), /you can close this page/);
  assert.equal(await running, 0, io.stderr.text);
  const paste = it.desk.io();
  const pasting = runCli(['login', '--paste', 'home'], paste);
  await pageOf(paste);
  paste.stdin.write(`${forged.href}\n`);
  assert.equal(await pasting, 1);
  assert.match(paste.stderr.text, /not one to this login/);
});

test('what another cluster is handed at a login opens nothing here, though it names this one’s provider and client', async () => {
  await using it = await start();
  const handed = Promise.withResolvers<z.output<typeof login.create.body>>();
  const { issuer, clientId } = it.provider;
  const evil = createServer((request, response) => {
    void text(request).then((body) => {
      if (body !== '') handed.resolve(login.create.body.parse(JSON.parse(body)));
      response.writeHead(body === '' ? 200 : 403, { 'content-type': 'application/json' });
      response.end(JSON.stringify(body === '' ? { issuer, clientId, scope: 'openid email' } : {}));
    }, handed.reject);
  }).listen(0, '127.0.0.2');
  await using _closing = {
    async [Symbol.asyncDispose]() {
      evil.closeAllConnections();
      evil.close();
      await once(evil, 'close');
    },
  };
  await once(evil, 'listening');
  const address = evil.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const io = it.desk.io();
  const running = runCli(['login', 'evil', `http://127.0.0.2:${port}`], io);
  await (await fetch(await pageOf(io))).text();
  const body = await handed.promise;
  await using anybody = new HttpClient({ baseUrl: it.controller.url, name: 'the controller' });
  const { bound: _, ...unbound } = body;
  for (const one of [body, unbound, { ...body, bound: { host: '127.0.0.1', secret: body.bound?.secret ?? '' } }]) {
    await assert.rejects(anybody.call(login.create, { body: one }), (error) => hasCode(error, 'denied'));
  }
  assert.notEqual(await running, 0);
});

test('a cluster that has people log in elsewhere than before is asked about first', async () => {
  await using it = await start();
  const io = it.desk.io();
  const running = runCli(['login', 'home', it.controller.url], io);
  await (await fetch(await pageOf(io))).text();
  assert.equal(await running, 0, io.stderr.text);
  const { issuer } = it.provider;
  const path = join(it.desk.configDirectory, 'clusters.json');
  const known = await readFile(path, 'utf8');
  await writeFile(path, known.replaceAll(`"${issuer}"`, '"https://id.example.com"'));
  const again = await it.desk.run(['login', 'home']);
  assert.equal(again.code, 1);
  assert.match(
    again.stderr,
    /as client flynn-cli.*the last time it was at https:\/\/id\.example\.com .*\n.*--new-provider home/,
  );
  const told = it.desk.io();
  const second = runCli(['login', '--new-provider', 'home'], told);
  await (await fetch(await pageOf(told))).text();
  assert.equal(await second, 0, told.stderr.text);
});

test('a provider that is away is named, and so is why it cannot be asked', async () => {
  await using it = await start();
  await it.provider[Symbol.asyncDispose]();
  const away = await it.desk.run(['login', 'home', it.controller.url]);
  assert.equal(away.code, 1);
  assert.match(
    away.stderr,
    /the provider cannot be asked \(http:.*openid-configuration\): .*ECONNREFUSED.*\n {2}see to it/,
  );
});
