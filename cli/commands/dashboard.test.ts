import assert from 'node:assert/strict';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { self, tokens } from '@flynn/controller/access/api';
import { apps } from '@flynn/controller/api';
import { createControllerClient } from '@flynn/controller/client';
import { routing } from '@flynn/controller/routes/api';
import { waitFor } from '@flynn/kit/retry';
import { runCli } from '../program.ts';
import { openDeskWithController } from '../testing.ts';

let world: Awaited<ReturnType<typeof openDeskWithController>>;

before(async () => {
  world = await openDeskWithController({ hosts: 0 });
});
after(() => world[Symbol.asyncDispose]());

test('an app of somebody that is called so is sent nobody, nor one that has the address', async () => {
  const { client } = world.controller;
  assert.match((await world.desk.run(['dashboard'])).stderr, /has no web page of its own/);
  await client.call(apps.create, { body: { name: 'dashboard' } });
  const other = await world.desk.run(['dashboard']);
  assert.deepEqual([other.code, other.stdout], [1, '']);
  assert.match(other.stderr, /an app of somebody has its name/);
  await client.call(apps.remove, { params: { app: 'dashboard' }, query: {} });

  await client.call(apps.create, { body: { name: 'dashboard', isSystem: true } });
  const routes = await client.call(routing.list, { params: { app: 'dashboard' } });
  for (const { id } of routes) await client.call(routing.remove, { params: { app: 'dashboard', route: id } });
  assert.match(
    (await world.desk.run(['dashboard'])).stderr,
    /has no route: an admin adds one with "flynn -a dashboard/,
  );
  assert.deepEqual(await client.call(tokens.list, {}), []);
});

test('the link is at the platform’s own address, good once, and opened where there is a browser', async () => {
  const { client } = world.controller;
  const body = { domain: 'dashboard.flynn.localhost', service: 'dashboard' };
  await client.call(routing.create, { params: { app: 'dashboard' }, body });
  const { stdout, stderr } = await world.desk.run(['dashboard', '--no-open']);
  const [, token = ''] = /^http:\/\/dashboard\.flynn\.localhost\/login#(flynn_\S+)\n$/.exec(stdout) ?? [];
  assert.match(stderr, /good once, and for ten minutes/);
  await using link = createControllerClient({ baseUrl: world.controller.url, key: token });
  await assert.rejects(link.call(self.get, {}), /a link to log in with, once/);
  const given = await link.call(tokens.exchange, { body: { name: 'x', expiresInMs: 86_400_000 } });
  assert.ok(Date.parse(given.expiresAt ?? '') <= Date.now() + 12 * 3_600_000);

  const json = await world.desk.run(['dashboard', '--json']);
  const said = JSON.parse(json.stdout) as { url: string; link: string };
  assert.deepEqual(
    [said.url, said.link.startsWith(`${said.url}/login#flynn_`), json.stderr],
    ['http://dashboard.flynn.localhost', true, ''],
  );

  const opened = join(world.desk.home, 'opened');
  const browser = join(world.desk.home, 'browser');
  await writeFile(browser, `#!/bin/sh\nprintf '%s %s' "$1" "$2" > ${opened}.new && mv ${opened}.new ${opened}\n`);
  await chmod(browser, 0o755);
  const io = world.desk.io({ env: { BROWSER: `${browser} --private` } });
  io.stdout.isTTY = true;
  assert.equal(await runCli(['dashboard'], io), 0);
  const address = await waitFor(() => readFile(opened, 'utf8'), {
    what: 'the browser to be asked',
    deadlineMs: 60_000,
    intervalMs: 5,
  });
  assert.equal(`${address}\n`, `--private ${io.stdout.text}`);
  assert.match(io.stderr.text, /^It opens in your browser\./m);

  const without = world.desk.io({ env: { BROWSER: join(world.desk.home, 'none') } });
  without.stdout.isTTY = true;
  assert.equal(await runCli(['dashboard'], without), 0);
  assert.doesNotMatch(without.stderr.text, /It opens/);
  assert.match(without.stdout.text, /\/login#flynn_/);
});
