import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OidcProvider } from '@flynn/controller/access/oidc-fixture';
import { startTestController } from '@flynn/controller/testing';
import { waitFor } from '@flynn/kit/retry';
import { runCli } from '../program.ts';
import { Desk, type TestIo } from '../testing.ts';

async function start() {
  const provider = await OidcProvider.start();
  const oidc = {
    issuer: provider.issuer,
    clientId: provider.clientId,
    domains: ['example.com'],
    groupsClaim: 'groups',
    scopes: 'openid email profile groups',
  };
  const controller = await startTestController({ hosts: 0, hasWorker: false, oidc });
  const desk = await Desk.open();
  return {
    provider,
    controller,
    desk,
    async [Symbol.asyncDispose]() {
      await desk[Symbol.asyncDispose]();
      await controller[Symbol.asyncDispose]();
      await provider[Symbol.asyncDispose]();
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
    [(to) => to.searchParams.set('state', 'forged'), /not one to this login/],
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
