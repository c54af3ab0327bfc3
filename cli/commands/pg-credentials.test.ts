/** `flynn pg credentials`, with a database whose members are simulated. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { makeTestDatastore, withAppliances } from '@flynn/controller/datastores/datastore-fixture';
import { openDeskWithController } from '../testing.ts';

test('a password is made anew; an app that fails with it is told of, and after it was mended the same command goes on', async () => {
  await using env = await openDeskWithController(withAppliances);
  const { desk, controller } = env;
  await controller.deployApp('shop', { web: {} });
  await makeTestDatastore(controller, { app: 'shop' });
  for (const host of controller.hosts)
    host.programs = (command) => (['admit', 'let-in'].includes(command.at(-1) ?? '') ? { code: 0 } : undefined);
  const run = (...words: string[]) => desk.run(['pg', 'credentials', ...words, '-a', 'shop']);
  assert.match((await run()).stdout, /^Name: +shop-postgres\nLogin: +app, with this password since \S+Z\n$/);

  controller.setBehaviour(() => ({ is: 'fail', error: 'no such module' }));
  const failed = await run('rotate');
  assert.equal(failed.code, 1);
  assert.match(
    failed.stdout,
    /Login: +app_1.*\nRotation: +under way since .*the former password is good.*\n\nAPP.*\nshop +failed +v\d+\n$/,
  );
  assert.match(
    failed.stderr,
    /the former password of shop-postgres is still good: v\d+ of shop failed: .*no such module.*\n.*"flynn log -a shop".*"flynn pg credentials rotate -a shop-postgres" goes on\n$/,
  );
  assert.equal((await run()).code, 1);
  assert.match((await desk.run(['resource', '-a', 'shop'])).stdout, /an app that has the former password still/);

  controller.setBehaviour(() => ({ is: 'run' }));
  const done = await run('rotate');
  assert.equal(done.code, 0, done.stderr);
  assert.match(
    done.stdout,
    /Rotation: +done \S+, by root: the former password opens nothing\n\nAPP +STATE +RELEASE\nshop +complete +v\d+\n$/,
  );
  const shown = JSON.parse((await run('--json')).stdout) as { login: string; rotation: { state: string } };
  assert.deepEqual([shown.login, shown.rotation.state], ['app_1', 'done']);
});
