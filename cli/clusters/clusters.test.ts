import assert from 'node:assert/strict';
import { mkdir, readdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  type Cluster,
  assertSameCluster,
  configDirectory,
  findCluster,
  loadClusters,
  saveClusters,
  withCluster,
  withDefault,
  withoutCluster,
} from './clusters.ts';
import { createAuthority } from '@flynn/kit/tls';
import { Desk } from '../testing.ts';

function cluster(name: string): Cluster {
  return {
    name,
    controllerUrl: `http://controller.${name}.example.com`,
    key: 'secret',
    gitUrl: `ssh://git@${name}.example.com:2222`,
    domain: `${name}.example.com`,
    httpPort: 80,
  };
}

test('the first cluster becomes the default, a later one only when told', () => {
  const one = withCluster({ clusters: [] }, cluster('one'), { isDefault: false });
  assert.equal(one.default, 'one');
  assert.equal(withCluster(one, cluster('two'), { isDefault: false }).default, 'one');
  assert.equal(withCluster(one, cluster('two'), { isDefault: true }).default, 'two');
});

test('a cluster of the same name is replaced', () => {
  const known = withCluster({ clusters: [] }, cluster('one'), { isDefault: false });
  const changed = withCluster(known, { ...cluster('one'), key: 'another' }, { isDefault: false });
  assert.deepEqual(
    changed.clusters.map(({ key }) => key),
    ['another'],
  );
});

test('a name is the same cluster by its key, its authority or its place; by none of them it is another', async () => {
  const [own, other] = (await Promise.all([createAuthority('flynn'), createAuthority('flynn')])).map(
    (one) => one.certificate,
  );
  assert.ok(own !== undefined && other !== undefined);
  const known = (more: Partial<Cluster>) => ({ clusters: [{ ...cluster('one'), ...more }] });
  const elsewhere = { controllerUrl: 'https://controller.moved.example.com', key: 'another' };
  const secure = { controllerUrl: 'https://controller.one.example.com/', key: 'another' };
  const same: [Partial<Cluster>, Partial<Cluster>][] = [
    [{}, { ...elsewhere, key: 'secret' }],
    [{ ca: own }, { ...elsewhere, ca: own }],
    [{}, secure],
    [{}, { ...secure, ca: own }],
    [{ ca: own }, secure],
    [{ ca: own }, { key: 'secret', ca: other }],
    [{ ca: own }, { ...elsewhere, ca: `${other}${own}` }],
  ];
  for (const [before, asked] of same) assertSameCluster(known(before), { ...cluster('one'), ...asked });
  const others: [Partial<Cluster>, Partial<Cluster>][] = [
    [{}, elsewhere],
    [{ ca: own }, { ...elsewhere, ca: other }],
    [{ ca: own }, { key: 'another', ca: other }],
    [{}, { controllerUrl: 'http://controller.one.example.com:8080', key: 'another' }],
  ];
  for (const [before, asked] of others) {
    assert.throws(() => assertSameCluster(known(before), { ...cluster('one'), ...asked }), /is another cluster here/);
  }
  assertSameCluster(known({}), cluster('two'));
});

test('when the default is removed the next one takes its place, and with the last there is none', () => {
  const both = withCluster(withCluster({ clusters: [] }, cluster('one'), { isDefault: false }), cluster('two'), {
    isDefault: false,
  });
  const left = withoutCluster(both, 'one');
  assert.equal(left.default, 'two');
  assert.deepEqual(withoutCluster(left, 'two'), { clusters: [] });
  assert.equal(withoutCluster(both, 'two').default, 'one');
  assert.throws(() => withoutCluster(both, 'three'), /"three"[^]*one, two/);
});

test('a cluster is found by its name, else it is the default', () => {
  const known = { default: 'two', clusters: [cluster('one'), cluster('two')] };
  assert.equal(findCluster(known).name, 'two');
  assert.equal(findCluster(known, 'one').name, 'one');
  assert.equal(findCluster(withDefault(known, 'one')).name, 'one');
  assert.equal(findCluster({ clusters: [cluster('one')] }).name, 'one');
  assert.throws(() => findCluster(known, 'three'), /"three"[^]*known: one, two/);
  assert.throws(() => findCluster({ clusters: [] }), /flynn cluster add NAME URL KEY/);
});

test('a name that cannot be typed is refused', () => {
  assert.throws(() => withCluster({ clusters: [] }, cluster('-x'), { isDefault: false }), /a name is letters/);
});

test('the file and its folder are for their owner only, and are read back as written', async () => {
  await using desk = await Desk.open();
  const known = withCluster({ clusters: [] }, cluster('one'), { isDefault: false });
  await saveClusters(desk.configDirectory, known);
  assert.equal((await stat(join(desk.configDirectory, 'clusters.json'))).mode & 0o777, 0o600);
  assert.equal((await stat(desk.configDirectory)).mode & 0o777, 0o700);
  assert.deepEqual(await readdir(desk.configDirectory), ['clusters.json']);
  assert.deepEqual(await loadClusters(desk.configDirectory), known);
});

test('what another version wrote beside is kept', async () => {
  await using desk = await Desk.open();
  await mkdir(desk.configDirectory);
  const written = { note: 'x', default: 'one', clusters: [{ ...cluster('one'), colour: 'green' }] };
  await writeFile(join(desk.configDirectory, 'clusters.json'), JSON.stringify(written));
  const known = withCluster(await loadClusters(desk.configDirectory), cluster('two'), { isDefault: false });
  assert.equal(known['note'], 'x');
  assert.equal(known.clusters[0]?.['colour'], 'green');
});

test('no file means no clusters; a file that is broken is named', async () => {
  await using desk = await Desk.open();
  assert.deepEqual(await loadClusters(desk.configDirectory), { clusters: [] });
  await mkdir(desk.configDirectory);
  await writeFile(join(desk.configDirectory, 'clusters.json'), '{"clusters": [{"name": "x"}]}');
  await assert.rejects(loadClusters(desk.configDirectory), /clusters\.json is not usable/);
});

test('the configuration is in FLYNN_CONFIG_DIR, else in the home directory', () => {
  assert.equal(configDirectory({ FLYNN_CONFIG_DIR: '/x', HOME: '/home/me' }), '/x');
  assert.equal(configDirectory({ HOME: '/home/me' }), '/home/me/.config/flynn');
  assert.equal(configDirectory({ FLYNN_CONFIG_DIR: '', HOME: '/home/me' }), '/home/me/.config/flynn');
});
