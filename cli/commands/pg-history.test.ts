/** `flynn pg history`, going back to a moment, and a fork, with a database whose members are simulated. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TestDatabase, addDatastore } from '@flynn/controller/datastore-backups/datastore-fixture';
import { stepHistory } from '@flynn/controller/datastore-history/steps';
import { archiveType } from '@flynn/controller/datastore-history/types';
import { startTestBlobs } from '@flynn/controller/testing/blobs';
import { waitFor } from '@flynn/kit/retry';
import { openDeskWithController } from '../testing.ts';

async function open() {
  const blobs = await startTestBlobs();
  const env = await openDeskWithController({
    blobStoreUrl: blobs.url,
    backsUp: true,
    applianceImages: { postgres: 'flynn/postgres:1' },
  });
  const database = new TestDatabase();
  database.attach(env.controller);
  await env.controller.deployApp('shop', { web: {} });
  const { appId } = await addDatastore(env.controller, 'shop');
  const { deps } = env.controller;
  let minutes = 0;
  return {
    ...env,
    database,
    pg: (...words: string[]) => env.desk.run(['pg', ...words, '-a', 'shop']),
    /** Once there is a copy: the minutes after it, as if they had passed. */
    async collect(): Promise<void> {
      const hasCopy = async () => ((await deps.resources.find(archiveType, appId))?.status.bases.length ?? 0) > 0;
      await waitFor(hasCopy, { what: 'a copy', deadlineMs: 30_000 });
      for (const end = minutes + 2; minutes < end;) {
        minutes += 1;
        const nowMs = Date.now() + minutes * 60_000;
        database.history.nowMs = nowMs;
        const { signal } = new AbortController();
        await stepHistory({ ...deps, now: () => nowMs }, blobs.blobs, appId, { signal });
      }
    },
    async [Symbol.asyncDispose]() {
      await env[Symbol.asyncDispose]();
      await blobs[Symbol.asyncDispose]();
    },
  };
}

const moments = /^Moments: +(\S+) to (\S+)$/m;

test('from and until when one can go back is told; what was there then takes the place of what is there, or is another database', async () => {
  await using it = await open();
  const { controller, database, desk, pg } = it;
  const early = await pg('backup', 'restore', '--at', '5m', '-y');
  assert.match(early.stderr, /no moment of shop-postgres is kept: "flynn pg history -a shop-postgres" says why/);
  await it.collect();
  const told = await pg('history');
  assert.equal(told.code, 0);
  assert.match(told.stdout, /^shop-postgres: each moment of 7 days is kept\nMoments: /);
  const [, from = '', until = ''] = moments.exec(told.stdout) ?? [];
  assert.ok(from < until, told.stdout);

  const late = await pg('backup', 'restore', '--at', '2100-01-01', '-y');
  assert.match(
    late.stderr,
    /2100-01-01T00:00:00.000Z is not kept: one can go back to \S+ to \S+\n +what was written since/,
  );
  const both = await pg('backup', 'restore', 'x', '--at', until, '-y');
  assert.match(both.stderr, /say which backup, or --at which moment/);
  const asked = await pg('backup', 'restore', '--at', until);
  assert.match(asked.stderr, /replacing all that is in shop-postgres by what there was at \S+ cannot be undone/);
  assert.equal(database.history.recovered.length, 0);
  const done = await pg('backup', 'restore', '--at', until, '-y');
  assert.match(done.stdout, /^Restored shop-postgres to what there was at \S+ at \S+, by root\.\n$/, done.stderr);
  assert.equal(database.history.recovered[0]?.at, until);

  await controller.deployApp('then', { web: {} });
  const fork = await pg('fork', '--at', until, '--to', 'then');
  assert.match(
    fork.stdout,
    new RegExp(
      `^Created shop-postgres-2 with shop-postgres as of ${until}: resource \\w+\\. then has it with release v\\d+\\.\\n$`,
    ),
    fork.stderr,
  );
  const again = await pg('fork', '--at', until, '--to', 'then');
  assert.match(again.stderr, /then has DATABASE_URL.* already/);
  assert.match(
    (await desk.run(['pg', 'backup', '-a', 'then'])).stdout,
    /Restored .* to what there was at \S+ in shop-postgres/,
  );
});

test('how long it is kept is said in days; off it is gone, and while it fails the exit code says so', async () => {
  await using it = await open();
  const { database, pg } = it;
  await it.collect();
  assert.equal(
    (await pg('history', 'on', '--keep', '3d')).stdout,
    'Each moment of shop-postgres is kept for 3 days.\n',
  );
  assert.match((await pg('history', 'on', '--keep', '36h')).stderr, /write whole days from 1d to 30d/);
  database.history.failures.push('no primary', 'no primary');
  await it.collect();
  const failing = await pg('history');
  assert.match(failing.stdout, /failing since \S+: .*no primary/);
  assert.equal(failing.code, 1);
  assert.match((await pg('history', 'off')).stderr, /deleting the history of shop-postgres cannot be undone/);
  assert.match((await pg('history', 'off', '-y')).stdout, /^No moment of shop-postgres is kept any more/);
  assert.match((await pg('history')).stdout, /no moment is kept; "flynn pg history on -a shop-postgres" begins/);
});

test('a moment that has just passed is collected when it is asked for, and not within the minute', async () => {
  await using it = await open();
  const hasBegun = async () => moments.test((await it.pg('history')).stdout);
  await waitFor(hasBegun, { what: 'the first moment', deadlineMs: 30_000 });
  it.database.history.write();
  const beganMs = performance.now();
  const done = await it.pg('backup', 'restore', '--at', '1s', '-y');
  assert.match(done.stdout, /^Restored shop-postgres to what there was at/, done.stderr);
  assert.ok(performance.now() - beganMs < 55_000);
});
