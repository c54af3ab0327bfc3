import assert from 'node:assert/strict';
import { mkdir, mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { unitText } from '../agent/unit.ts';
import { engineThat } from './engine-fixture.ts';
import { refuseAnyUnclaimed, userOf } from './other-clusters.ts';

const asked = { name: 'flynn', command: 'flynn-host uninstall' };
const container = (cluster: string) => ({ Id: `of-${cluster}`, Labels: { 'flynn.cluster': cluster } });

/** As engines do, by label. Volumes have theirs, or none at all. */
const engineWith = (containers: readonly ReturnType<typeof container>[]) =>
  engineThat((request, filters) => {
    if (request === 'GET /_ping') return { status: 200 };
    const [label = ''] = filters.label ?? [];
    const [, name] = label.split('=');
    const found = containers.filter(({ Labels: labels }) => name === undefined || labels['flynn.cluster'] === name);
    return { status: 200, body: request.endsWith('/containers/json') ? found : { Volumes: null } };
  });

test('a cluster of another name, whose state is elsewhere, is not taken away in the place of one that is not there', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-others-'));
  await using engine = await engineWith([container('prod')]);
  const options = {
    FLYNN_STATE_DIR: folder.path,
    FLYNN_DOCKER_SOCKET: engine.socket,
    FLYNN_SUPERVISOR: 'own',
  } as const;
  const units = { folder: join(folder.path, 'none') };
  for (const isForced of [false, true]) {
    await assert.rejects(
      refuseAnyUnclaimed(options, asked, { isForced, ...units }),
      (error) =>
        hasCode(error, 'conflict') &&
        /1 container and 0 volumes of a cluster prod, .* not in \S+\. Nothing was changed/.test(error.message) &&
        /FLYNN_STATE_DIR=FOLDER flynn-host uninstall\b.*FLYNN_CLUSTER=prod /.test(error.message),
    );
  }
  // Of its own name all is said to be gone for good by force.
  await refuseAnyUnclaimed(options, { ...asked, name: 'prod' }, { isForced: true, ...units });
  await using empty = await engineWith([]);
  await refuseAnyUnclaimed({ ...options, FLYNN_DOCKER_SOCKET: empty.socket }, asked, { isForced: false, ...units });
});

test('programs stay as long as a unit starts them', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-units-'));
  const prefix = join(folder.path, 'opt');
  const units = join(folder.path, 'units');
  assert.equal(await userOf(prefix, units), undefined);
  await mkdir(units);
  const node = join(prefix, '1.0.0/node_modules/.bin/node');
  const places = { stateDir: '/data/flynn', node, program: '/data/flynn/agent/current/host-agent.mjs' };
  await writeFile(join(units, 'flynn-host-prod.service'), unitText({ name: 'prod' }, places));
  assert.equal(await userOf(prefix, units), 'the unit flynn-host-prod.service');
  assert.equal(await userOf(`${prefix}2`, units), undefined);
});
