import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { createAuthority } from '@flynn/kit/tls';
import {
  type Backup,
  checkRestore,
  encryptionText,
  openBackup,
  restoredParts,
  restoredText,
  takeKeys,
  withBackup,
  withSettings,
  writeRestore,
} from './from-backup.ts';
import { rootKeysOf } from '../rotation/rotation.ts';
import { readOptions, settle } from '../settings.ts';
import { ensureHostKey } from '../state.ts';
import { runProgram } from '../machine/program.ts';

const machine = {
  hostname: 'new',
  address: '192.0.2.7',
  now: new Date(0),
  newSecret: () => 'made anew',
  authority: { certificate: 'CERTIFICATE', privateKey: 'PRIVATE KEY' },
};

async function withFolder(task: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'flynn-from-backup-'));
  try {
    await task(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

type Made = { isEncrypted?: boolean; digest?: string; sshHostKey?: string; rootKey?: string; rounds?: string };

function backupOf({ isEncrypted, digest = 'd1', sshHostKey = 'none', rootKey = 'root', ...more }: Made = {}): Backup {
  const rounds: Record<string, string> = more.rounds === undefined ? {} : { FLYNN_TOKEN_ROUNDS: more.rounds };
  const platform = {
    ...(isEncrypted === undefined ? {} : { isEncrypted }),
    name: 'old',
    domain: 'apps.example.com',
    httpPort: 8080,
    httpsPort: 8443,
    gitUrl: 'ssh://git@apps.example.com:2200',
    apps: {
      controller: {
        env: { FLYNN_CONTROLLER_KEY: rootKey, ...rounds, FLYNN_OIDC_ISSUER: 'https://id' },
        given: [],
        counts: { web: 2, gone: 1 },
      },
      'git-receiver': { env: { FLYNN_SSH_HOST_KEY: sshHostKey }, given: [], counts: { web: 1 } },
    },
  };
  const manifest = {
    format: 1,
    platformVersion: '0',
    madeAt: '2026-11-21T12:00:00.000Z',
    cluster: { id: 'c', name: 'old', domain: platform.domain },
    revision: 1,
    missing: [],
    parts: [],
  };
  const inspection = { manifest, digest, platform, records: {}, blobs: 0, sizeBytes: 0 };
  return { file: '/mnt/today.backup', inspection, source: { digest, open: async function* () {} } };
}

test('the cluster is what it was where nothing else is said, and of its own domain', () => {
  const { inspection } = backupOf();
  const cluster = settle(withBackup(readOptions({}), inspection, undefined), undefined, machine);
  const { name, domain, httpPort, httpsPort, gitPort } = cluster;
  assert.deepEqual(
    { name, domain, httpPort, httpsPort, gitPort },
    { name: 'old', domain: 'apps.example.com', httpPort: 8080, httpsPort: undefined, gitPort: 2200 },
  );
  const other = settle(
    withBackup(readOptions({ FLYNN_CLUSTER: 'new', FLYNN_HTTP_PORT: '80' }), inspection, undefined),
    undefined,
    machine,
  );
  assert.deepEqual([other.name, other.httpPort], ['new', 80]);
  const own = { ...inspection, platform: { ...inspection.platform, httpsPort: 9443 } };
  assert.equal(settle(withBackup(readOptions({}), own, undefined), undefined, machine).httpsPort, 9443);
  assert.throws(
    () => withBackup(readOptions({ FLYNN_DOMAIN: 'other.example.com' }), inspection, undefined),
    /routes in the backup/,
  );
});

test('what is gone on with is where it was begun, whatever the command says no more', () => {
  const { inspection } = backupOf();
  const begun = readOptions({
    FLYNN_CLUSTER: 'new',
    FLYNN_HTTP_PORT: '9080',
    FLYNN_HTTPS_PORT: '9443',
    FLYNN_GIT_PORT: '2300',
  });
  const stored = settle(withBackup(begun, inspection, undefined), undefined, machine);
  assert.deepEqual(settle(withBackup(readOptions({}), inspection, stored), stored, machine), stored);
  const other = settle(withBackup(readOptions({ FLYNN_HTTP_PORT: '9081' }), inspection, stored), stored, machine);
  assert.deepEqual([other.httpPort, other.gitPort], [9081, 2300]);
});

/** In the file `key`. */
async function makeSshKey(folder: string): Promise<string> {
  const file = join(folder, 'key');
  await runProgram('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', 'old', '-f', file], { timeoutMs: 20_000 });
  return readFile(file, 'utf8');
}

test('people keep their root key and the host their ssh knows; what is between services is made anew', () =>
  withFolder(async (folder) => {
    const backup = backupOf({ sshHostKey: await makeSshKey(folder) });
    const stateDir = join(folder, 'state');
    const made = settle(withBackup(readOptions({}), backup.inspection, undefined), undefined, machine);
    const cluster = await takeKeys(stateDir, made, backup);
    assert.deepEqual([cluster.controllerKey, cluster.key, cluster.joinSecret], ['root', 'made anew', 'made anew']);
    const hostKey = await ensureHostKey(stateDir);
    const [type, key] = (await readFile(join(folder, 'key.pub'), 'utf8')).split(' ');
    assert.deepEqual(hostKey.publicKey.split(' ').slice(0, 2), [type, key]);
    assert.equal((await stat(join(stateDir, 'ssh_host_ed25519_key'))).mode & 0o777, 0o600);
    await writeRestore(stateDir, backup, { isComplete: true });
    assert.deepEqual(await takeKeys(stateDir, cluster, backup), cluster, 'again changes nothing');
    await checkRestore(stateDir, cluster, undefined);
  }));

test('of a root key that was being made anew the new one is restored, and one made anew since the restore stays', () =>
  withFolder(async (stateDir) => {
    const backup = backupOf({ rootKey: 'new,former', rounds: '3,2', sshHostKey: await makeSshKey(stateDir) });
    const authority = await createAuthority('flynn');
    const made = settle(withBackup(readOptions({}), backup.inspection, undefined), undefined, {
      ...machine,
      authority,
    });
    const cluster = await takeKeys(stateDir, made, backup);
    assert.deepEqual([cluster.controllerKey, cluster.tokens], ['new', { round: 3 }]);
    const env = { FLYNN_CONTROLLER_KEY: rootKeysOf(cluster).join(',') };
    const app = { name: 'controller', image: 'i', env, processes: {}, counts: {}, routes: [] };
    assert.equal(withSettings(app, backup.inspection.platform, []).env['FLYNN_CONTROLLER_KEY'], 'new');
    assert.match(restoredText(cluster, backup), /being made anew[^]* new --pin/);
    assert.match(restoredText(cluster, backupOf()), /authority is a new one[^]* KEY --pin [0-9a-f]{64}\n/);
    await writeRestore(stateDir, backup, { isComplete: true });
    const rotated = { ...cluster, controllerKey: 'newer' };
    assert.equal((await takeKeys(stateDir, rotated, backup)).controllerKey, 'newer');
  }));

test('a cluster that has moved answers at its former domains after a restore, too', () =>
  withFolder(async (stateDir) => {
    const backup = backupOf({ sshHostKey: await makeSshKey(stateDir) });
    const { platform } = backup.inspection;
    const moved = { ...platform.apps['controller'], env: { FLYNN_FORMER_DOMAINS: 'b.example.com,a.example.com' } };
    const apps = { ...platform.apps, controller: { ...platform.apps['controller'], ...moved } };
    const inspection = { ...backup.inspection, platform: { ...platform, apps } } as typeof backup.inspection;
    const made = settle(withBackup(readOptions({}), inspection, undefined), undefined, machine);
    const cluster = await takeKeys(stateDir, made, { ...backup, inspection });
    assert.deepEqual(cluster.domains, { former: ['b.example.com', 'a.example.com'], isMoving: false });
  }));

test('a restore goes on with its own backup, and nothing else is done before it is through', () =>
  withFolder(async (stateDir) => {
    const backup = backupOf();
    const authority = await createAuthority('flynn');
    const stored = settle(withBackup(readOptions({}), backup.inspection, undefined), undefined, {
      ...machine,
      authority,
    });
    const isConflict = (error: unknown) => hasCode(error, 'conflict');
    await checkRestore(stateDir, undefined, backup);
    await assert.rejects(checkRestore(stateDir, stored, backup), isConflict, 'a cluster that was made otherwise');
    await checkRestore(stateDir, stored, undefined);
    await writeRestore(stateDir, backup, { isComplete: false });
    // Broken off before there is anything of the cluster: an empty one would be in the way of it for good.
    await assert.rejects(checkRestore(stateDir, undefined, undefined), /--from-backup \/mnt\/today\.backup/);
    await checkRestore(stateDir, undefined, backup);
    await checkRestore(stateDir, undefined, backupOf({ digest: 'd2' }));
    await checkRestore(stateDir, stored, backup);
    await assert.rejects(checkRestore(stateDir, stored, backupOf({ digest: 'd2' })), isConflict, 'another backup');
    await assert.rejects(checkRestore(stateDir, stored, undefined), /--from-backup \/mnt\/today\.backup/);
    await writeRestore(stateDir, backup, { isComplete: true });
    await checkRestore(stateDir, stored, undefined);
    assert.match(restoredText(stored, backup), /as it was at 2026-11-21T12:00:00\.000Z/);
  }));

test('what people set of the platform’s own apps stays beside what the manifest says', () => {
  const app = {
    name: 'controller',
    image: 'i',
    env: { FLYNN_CONTROLLER_KEY: 'new' },
    processes: { web: {}, worker: {} },
    counts: { web: 1, worker: 1 },
    routes: [],
  };
  const { platform } = backupOf().inspection;
  const kept = withSettings(app, platform, []);
  assert.deepEqual(kept.env, { FLYNN_CONTROLLER_KEY: 'new', FLYNN_OIDC_ISSUER: 'https://id' });
  assert.deepEqual(kept.counts, app.counts);
  assert.equal(withSettings({ ...app, name: 'router' }, platform, []).env['FLYNN_OIDC_ISSUER'], undefined);
});

test('the same command again, once all is restored, takes nothing back of what was set since', () =>
  withFolder(async (stateDir) => {
    const backup = backupOf();
    const app = { name: 'controller', image: 'i', env: {}, processes: { web: {} }, counts: {}, routes: [] };
    const places = async () => [];
    await writeRestore(stateDir, backup, { isComplete: false });
    const [restored] = await restoredParts([app], backup, { stateDir, places });
    assert.equal(restored?.env['FLYNN_OIDC_ISSUER'], 'https://id');
    await writeRestore(stateDir, backup, { isComplete: true });
    assert.deepEqual(await restoredParts([app], backup, { stateDir, places }), [app]);
  }));

test('a file that is no backup is refused, and named', () =>
  withFolder(async (folder) => {
    const file = join(folder, 'cut.backup');
    await writeFile(file, 'half of someth');
    await assert.rejects(openBackup('cut.backup', { env: { INIT_CWD: folder } }), /cut\.backup cannot be restored/);
    await assert.rejects(openBackup('none.backup', { env: { INIT_CWD: folder } }), /cannot read .*none\.backup/);
  }));

test('what is so between the hosts to come is told at the end, with what to type', () => {
  const told = (isEncrypted: boolean | undefined, word: 'on' | 'off', withoutWireguard?: string): string =>
    encryptionText(backupOf(isEncrypted === undefined ? {} : { isEncrypted }), { word, withoutWireguard });
  assert.equal(told(false, 'off', 'wg is not installed'), '');
  assert.match(told(undefined, 'off'), /did not tell[^]*It is in clear[^]*flynn-host network encrypt/);
  const encrypted = told(true, 'on');
  assert.match(encrypted, /is encrypted, as it was[^]*UDP 1117[^]*flynn-host network decrypt/);
  assert.doesNotMatch(encrypted, /✖/);
  // Alone this host needs none: a restore is not refused for it.
  assert.match(
    told(true, 'on', 'wg is not installed'),
    /On this machine wg is not installed[^]*apt-get install wireguard-tools/,
  );
  // Done again, after somebody ended it.
  assert.equal(told(true, 'off'), '');
});
