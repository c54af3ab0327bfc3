import assert from 'node:assert/strict';
import { mkdtemp, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { loadClusters, saveClusters } from '@flynn/cli/clusters/clusters';
import { addCluster, ensureSshKey, findPerson, removeCluster, writeKnownHosts } from './config.ts';

const entry = (name: string, key = `key of ${name}`) => ({
  name,
  controllerUrl: `http://controller.${name}.localhost`,
  key,
  gitUrl: `ssh://git@${name}.localhost:2222`,
  domain: `${name}.localhost`,
  httpPort: 80,
});

async function withPerson(check: (person: { home: string; configDir: string }) => Promise<void>): Promise<void> {
  const home = await mkdtemp(join(tmpdir(), 'flynn-person-'));
  try {
    await check({ home, configDir: join(home, '.config/flynn') });
  } finally {
    await rm(home, { recursive: true });
  }
}

test('a caller whom this machine does not know has what is root’s', async () => {
  const root = { home: homedir(), configDir: join(homedir(), '.config/flynn') };
  assert.deepEqual(await findPerson(undefined, { SUDO_USER: 'flynn-nobody-is-called-so' }), root);
  assert.deepEqual(await findPerson(undefined, { SUDO_USER: 'root' }), root);
});

test('the list of clusters is its owner’s only, and removing the last cluster leaves nothing', () =>
  withPerson(async (person) => {
    await addCluster(person, entry('one'));
    const file = join(person.configDir, 'clusters.json');
    assert.equal((await stat(file)).mode & 0o777, 0o600);
    await writeKnownHosts(person, 'localhost', 2222, 'ssh-ed25519 AAAA comment\n');
    assert.equal(await removeCluster(person, { name: 'one', keys: ['another key'] }), false);
    assert.equal(await removeCluster(person, { name: 'one', keys: ['key of one'] }), true);
    assert.equal(await removeCluster(person, { name: 'one', keys: ['key of one'] }), false);
    await assert.rejects(stat(person.configDir), { code: 'ENOENT' });
  }));

test('a token for a cluster goes with the whole of it alone, and one for another cluster of the name stays', () =>
  withPerson(async (person) => {
    const controllerUrl = 'https://controller.one.localhost';
    const token = { ...entry('one', 'flynn_abcdefghijkl_of_ann'), controllerUrl };
    const asked = { name: 'one', keys: ['key of one'] };
    await addCluster(person, token);
    assert.equal(await removeCluster(person, asked), false, 'others go on with it');
    assert.equal(await removeCluster(person, { ...asked, wasAt: { controllerUrl: 'https://elsewhere' } }), false);
    assert.equal(await removeCluster(person, { ...asked, wasAt: { controllerUrl } }), true);
    await assert.rejects(stat(person.configDir), { code: 'ENOENT' });
  }));

test('a cluster that is there is brought up to date, keeping what others wrote about it and the default', () =>
  withPerson(async (person) => {
    await addCluster(person, entry('one'));
    await addCluster(person, entry('two'));
    const both = await loadClusters(person.configDir);
    const coloured = both.clusters.map((one) => Object.assign({ colour: 'red' }, one));
    await saveClusters(person.configDir, { ...both, clusters: coloured });
    await addCluster(person, { ...entry('two'), httpPort: 8080 });
    const after = await loadClusters(person.configDir);
    assert.equal(after.default, 'one');
    assert.deepEqual(
      after.clusters.find((one) => one.name === 'two'),
      { ...entry('two'), colour: 'red', httpPort: 8080 },
    );
    assert.equal(after.clusters.length, 2);
  }));

test('an address with https:// is kept when none can be seen for the moment, but not that of another cluster of the name', () =>
  withPerson(async (person) => {
    const secure = { ...entry('one'), controllerUrl: 'https://controller.one.localhost', ca: 'pinned' };
    const way = async () => {
      const { clusters } = await loadClusters(person.configDir);
      return clusters.map(({ controllerUrl, ca, httpPort }) => [controllerUrl, ca, httpPort]);
    };
    await addCluster(person, secure);
    await addCluster(person, { ...entry('one'), httpPort: 8080 });
    assert.deepEqual(await way(), [[secure.controllerUrl, 'pinned', 8080]]);
    await addCluster(person, entry('one', 'made anew'), { keys: ['made anew', secure.key] });
    assert.deepEqual(await way(), [[secure.controllerUrl, 'pinned', 80]], 'the same one with another root key');
    await addCluster(person, { ...secure, ca: undefined });
    assert.deepEqual(await way(), [[secure.controllerUrl, undefined, 80]], 'another certificate took its place');
    await addCluster(person, entry('one', 'another key'));
    assert.deepEqual(await way(), [['http://controller.one.localhost', undefined, 80]]);
  }));

test('files of the person’s in the configuration’s folder outlive the cluster', () =>
  withPerson(async (person) => {
    await addCluster(person, entry('one'));
    await writeFile(join(person.configDir, 'notes'), 'mine');
    await removeCluster(person, { name: 'one', keys: ['key of one'] });
    assert.equal(await readFile(join(person.configDir, 'notes'), 'utf8'), 'mine');
  }));

test('a host key replaces the one that host had, and leaves others alone', () =>
  withPerson(async (person) => {
    await writeKnownHosts(person, 'other.example', 22, 'ssh-ed25519 OTHER');
    await writeKnownHosts(person, 'localhost', 2222, 'ssh-ed25519 OLD');
    const file = await writeKnownHosts(person, 'localhost', 2222, 'ssh-ed25519 NEW flynn');
    assert.equal(await readFile(file, 'utf8'), 'other.example ssh-ed25519 OTHER\n[localhost]:2222 ssh-ed25519 NEW\n');
  }));

test('without an SSH key one is made, and used again', () =>
  withPerson(async (person) => {
    const made = await ensureSshKey(person);
    assert.equal(made.privateFile, join(person.configDir, 'id_ed25519'));
    const text = await readFile(made.privateFile, 'utf8');
    assert.deepEqual(await ensureSshKey(person), made);
    assert.equal(await readFile(made.privateFile, 'utf8'), text);
  }));

test('an SSH key whose making was broken off is gone on with, and is the person’s', () =>
  withPerson(async (person) => {
    const made = await ensureSshKey(person);
    const [publicFile = ''] = made.publicFiles;
    const text = await readFile(publicFile, 'utf8');
    await rm(publicFile);
    // Who runs the tests may give away what is theirs to themselves alone.
    const own = { ...person, uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
    assert.deepEqual(await ensureSshKey(own), made);
    const [type, key] = text.split(' ');
    assert.deepEqual((await readFile(publicFile, 'utf8')).split(' ').slice(0, 2), [type, key]);
    // The power went before anything of it was on the disk.
    await writeFile(made.privateFile, '');
    await rm(publicFile);
    await ensureSshKey(person);
    assert.notEqual(await readFile(publicFile, 'utf8'), text);
    assert.match(await readFile(made.privateFile, 'utf8'), /PRIVATE KEY/);
    assert.equal((await stat(made.privateFile)).mode & 0o777, 0o600);
    assert.deepEqual((await readdir(person.configDir)).toSorted(), ['id_ed25519', 'id_ed25519.pub']);
  }));
