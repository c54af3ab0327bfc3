import assert from 'node:assert/strict';
import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { engineThat } from './engine-fixture.ts';
import { refuseUnclaimed, unclaimedOf, unclaimedText } from './unclaimed.ts';

const engineWith = (containers: readonly unknown[], volumes: readonly unknown[] | null) =>
  engineThat((request) => {
    if (request === 'GET /_ping') return { status: 200 };
    return request.endsWith('/containers/json')
      ? { status: 200, body: containers }
      : { status: 200, body: { Volumes: volumes } };
  });
const asked = { name: 'flynn', command: 'npm run down' };

test('what an engine has of a cluster whose state is not where it was looked for is neither built upon nor taken away', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-unclaimed-'));
  await using engine = await engineWith([{ Id: 'c1' }], [{ Name: 'flynn-flynn.etcd', Labels: null }, { Name: 'v2' }]);
  const options = {
    FLYNN_STATE_DIR: folder.path,
    FLYNN_DOCKER_SOCKET: engine.socket,
    FLYNN_SUPERVISOR: 'own',
  } as const;
  assert.deepEqual(await unclaimedOf(options, 'flynn'), { containers: 1, volumes: 2 });
  await assert.rejects(
    refuseUnclaimed(options, asked),
    (error) =>
      hasCode(error, 'conflict') &&
      /1 container and 2 volumes of a cluster flynn, .* not in \S+\. Nothing was changed/.test(error.message) &&
      /FLYNN_STATE_DIR=FOLDER npm run down\b.*npm run down -- --force$/.test(error.message),
  );
  await assert.rejects(refuseUnclaimed(options, { ...asked, name: 'prod', done: 'The container engine was started' }), {
    message:
      /a cluster prod, .*\. The container engine was started\n.*then: FLYNN_CLUSTER=prod npm run down -- --force$/,
  });
  // After all was taken away, and where there never was anything.
  await using empty = await engineWith([], null);
  await refuseUnclaimed({ ...options, FLYNN_DOCKER_SOCKET: empty.socket }, asked);
  await refuseUnclaimed({ ...options, FLYNN_DOCKER_SOCKET: join(folder.path, 'none.sock') }, asked);
  // What a `down` that was broken off has left is its own.
  await writeFile(join(folder.path, 'cluster.json'), '{}');
  await refuseUnclaimed(options, asked);
});

test('a unit whose agent has its state elsewhere names where, and one whose state is lost that it is', () => {
  const stateDir = '/var/lib/flynn';
  assert.equal(unclaimedText({ containers: 0, volumes: 0 }, { ...asked, stateDir }), undefined);
  const told = unclaimedText({ containers: 3, volumes: 1, unitStateDir: '/data/flynn' }, { ...asked, stateDir });
  assert.equal(
    told?.what,
    'the unit flynn-host-flynn is that of a cluster flynn whose state is in /data/flynn, not in /var/lib/flynn',
  );
  const lost = unclaimedText({ containers: 0, volumes: 0, unitStateDir: stateDir }, { ...asked, stateDir });
  assert.match(lost?.what ?? '', /^the unit flynn-host-flynn .* was in \/var\/lib\/flynn, and is not there now$/);
  assert.match(lost?.remedy ?? '', /^mount the disk that has it, .*then: npm run down -- --force$/);
  assert.match(told?.remedy ?? '', /FLYNN_STATE_DIR=\/data\/flynn npm run down\..*rm .*\/flynn-host-flynn\.service,/);
});
