import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { startTestController } from '@flynn/controller/testing';
import { runCli } from '../program.ts';
import { pageOf, startDesk } from './login-fixture.ts';

test('a person logs in with a browser on their machine, and is known from then on', async () => {
  await using it = await startDesk();
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
  await using it = await startDesk();
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
  await using it = await startDesk();
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
  await using it = await startDesk();
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

test('a cluster that has people log in elsewhere than before is asked about first', async () => {
  await using it = await startDesk();
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
  await using it = await startDesk();
  await it.provider[Symbol.asyncDispose]();
  const away = await it.desk.run(['login', 'home', it.controller.url]);
  assert.equal(away.code, 1);
  assert.match(
    away.stderr,
    /the provider cannot be asked \(http:.*openid-configuration\): .*ECONNREFUSED.*\n {2}see to it/,
  );
});
