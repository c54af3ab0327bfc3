import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { createAuthority } from '@flynn/kit/tls';
import { withClosing, withIssuing, withNextAuthority } from './rotation/authority-round.ts';
import { writeHostFiles } from './steps/host.ts';
import { made } from './cluster-fixture.ts';
import type { Cluster } from './settings.ts';
import { adoptHostKey, ensureHostKey, removeStateDir, strangersIn, withLatestAuthorities } from './state.ts';

const keyFile = 'ssh_host_ed25519_key';

async function withFolders(task: (one: string, other: string) => Promise<void>): Promise<void> {
  const [one, other] = [await mkdtemp(join(tmpdir(), 'state-')), await mkdtemp(join(tmpdir(), 'state-'))];
  try {
    await task(one, other);
  } finally {
    await Promise.all([one, other].map((folder) => rm(folder, { recursive: true, force: true })));
  }
}

test('the key that people know takes the place of one that the host had, and of one that was broken off', () =>
  withFolders(async (folder, elsewhere) => {
    const known = await ensureHostKey(elsewhere);
    const own = await ensureHostKey(folder);
    assert.notEqual(own.privateKey, known.privateKey);
    const isKnown = async (): Promise<void> => {
      const { privateKey, publicKey } = await ensureHostKey(folder);
      assert.equal(privateKey, known.privateKey);
      assert.equal(publicKey.split(' ')[1], known.publicKey.split(' ')[1]);
      assert.equal((await stat(join(folder, keyFile))).mode & 0o777, 0o600);
    };
    await adoptHostKey(folder, known.privateKey);
    await isKnown();

    await rm(join(folder, `${keyFile}.pub`));
    await writeFile(join(folder, keyFile), known.privateKey.slice(0, 10));
    await adoptHostKey(folder, known.privateKey);
    await isKnown();
  }));

test('a host key whose making was broken off is gone on with, or made anew where there is too little of it', () =>
  withFolders(async (folder) => {
    await writeFile(join(folder, keyFile), 'half of one', { mode: 0o600 });
    const made = await ensureHostKey(folder);
    assert.match(made.privateKey, /BEGIN OPENSSH PRIVATE KEY/);
    await rm(join(folder, `${keyFile}.pub`));
    const { privateKey, publicKey } = await ensureHostKey(folder);
    assert.equal(privateKey, made.privateKey);
    assert.equal(publicKey.split(' ')[1], made.publicKey.split(' ')[1]);
  }));

test('a host that an agent has taken to a later round of authorities meanwhile is not taken back', () =>
  withFolders(async (folder) => {
    const former: Cluster = { ...made(), authority: await createAuthority('flynn') };
    const begun = { id: 'i', since: 's' };
    const opening = await withNextAuthority(former, await createAuthority('flynn'), begun);
    const issuing = await withIssuing(opening);
    assert.deepEqual(await withLatestAuthorities(folder, opening), opening);
    await writeHostFiles(folder, withClosing(issuing));
    const { authority, alsoTrusted, authorityRound, endorsement } = await withLatestAuthorities(folder, opening);
    assert.deepEqual([authority, alsoTrusted, authorityRound], [issuing.authority, undefined, 3]);
    assert.equal(endorsement, issuing.endorsement);
    await writeHostFiles(folder, opening);
    assert.deepEqual(await withLatestAuthorities(folder, issuing), issuing);
  }));

test('a folder is the state directory of a cluster by its settings, which go last, or while nothing else is in it', () =>
  withFolders(async (folder, other) => {
    assert.deepEqual(await strangersIn(join(folder, 'none')), []);
    for (const name of ['engine.json', 'dockerd.log', '.cluster.json.1.tmp']) await writeFile(join(folder, name), '');
    await mkdir(join(folder, 'lost+found'));
    await ensureHostKey(folder);
    assert.deepEqual(await strangersIn(folder), [], 'an up was broken off');
    await mkdir(join(folder, 'agent'));
    await writeFile(join(folder, 'cluster.json'), '');
    assert.deepEqual(await strangersIn(folder), []);
    await removeStateDir(folder);
    assert.equal(existsSync(folder), false);

    await writeFile(join(other, '.bashrc'), '');
    assert.deepEqual(await strangersIn(other), ['.bashrc']);
  }));
