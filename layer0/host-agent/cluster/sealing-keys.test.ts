import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdir, readFile, rmdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import { RenewedIdentity, appRole, hostRole } from '@flynn/kit/identity';
import { issueCertificate } from '@flynn/kit/tls';
import { createMemoryStore } from '@flynn/store/memory';
import { sealKeyOf } from '@flynn/store/sealing/envelope';
import { makeRing } from '@flynn/store/sealing/ring';
import { announceSealingKey, sealUnder } from '@flynn/store/sealing/sealing-key-change';
import { clusterKey, sealedHosts } from './sealing-keys-fixture.ts';
import { addSealingKeys, sealingKeysRoute } from './sealing-keys.ts';

const [former, next] = ['the-former-sealing-key', 'the-new-sealing-key'];
const making = { newId: randomUUID, now: new Date(0) };
const known = [former, next].map(sealKeyOf);

async function sealedStore() {
  const store = createMemoryStore();
  await makeRing(store, { sealingKey: sealKeyOf(former), ...making });
  return store;
}

test('hosts fetch from one another the key that is to be, forget the one that was, and one that was away has it once it is back', async () => {
  const store = await sealedStore();
  await using all = await sealedHosts(store);
  const [h1, h2, h3] = [await all.add('h1', [former]), await all.add('h2', [former]), await all.add('h3', [former])];
  h3.isAway = true;
  await announceSealingKey(store, sealKeyOf(next));
  await assert.rejects(h2.look(), (error) => hasCode(error, 'unavailable'), 'nobody has it yet');
  assert.deepEqual(await h2.onDisk(), [former]);
  await addSealingKeys(h1.stateDir, [former, next]);
  await h1.look();
  await h2.look();
  for (const host of [h1, h2]) {
    assert.deepEqual(await host.onDisk(), [former, next]);
    assert.deepEqual(
      host.keys.told().sealingKeyIds,
      known.map(({ id }) => id),
    );
    assert.equal((await stat(join(host.stateDir, 'sealing.others'))).mode & 0o777, 0o600);
    // What a version before reads alone.
    assert.equal(await readFile(join(host.stateDir, 'sealing.key'), 'utf8'), former);
  }
  await sealUnder(store, sealKeyOf(next), { known, ...making });
  h3.isAway = false;
  for (const host of [h3, h1, h2]) await host.look();
  const late = await all.add('h4', [former]);
  await late.look();
  for (const host of all.hosts) {
    assert.deepEqual(await host.onDisk(), [next], host.id);
    assert.deepEqual(host.keys.told(), { sealingKeyId: sealKeyOf(next).id, sealingKeyIds: [sealKeyOf(next).id] });
  }
});

test('what bootstrap keeps on the disk has the one in use in the place of the former', async () => {
  const store = await sealedStore();
  await using all = await sealedHosts(store);
  const host = await all.add('h2', [former, next]);
  const files = ['cluster.json', 'admission.json'].map((name) => join(host.stateDir, name));
  for (const file of files) await writeFile(file, JSON.stringify({ settings: { sealingKey: former, name: 'flynn' } }));
  await sealUnder(store, sealKeyOf(next), { known, ...making });
  await host.look();
  for (const file of files) {
    assert.deepEqual(JSON.parse(await readFile(file, 'utf8')), { settings: { sealingKey: next, name: 'flynn' } });
  }
});

test('a host that could not forget the former the first time does it the next, and has the new one meanwhile', async () => {
  const store = await sealedStore();
  await using all = await sealedHosts(store);
  const host = await all.add('h2', [former, next]);
  const [cluster, admission] = ['cluster.json', 'admission.json'].map((name) => join(host.stateDir, name));
  assert.ok(cluster !== undefined && admission !== undefined);
  await writeFile(cluster, JSON.stringify({ sealingKey: former }));
  await mkdir(admission);
  await sealUnder(store, sealKeyOf(next), { known, ...making });
  await assert.rejects(host.look(), (error) => hasCode(error, 'invalid'));
  assert.equal(await readFile(join(host.stateDir, 'sealing.key'), 'utf8'), next);
  await rmdir(admission);
  await writeFile(admission, JSON.stringify({ settings: { sealingKey: former } }));
  await host.look();
  assert.deepEqual(await host.onDisk(), [next]);
  assert.deepEqual(JSON.parse(await readFile(cluster, 'utf8')), { sealingKey: next });
  assert.deepEqual(JSON.parse(await readFile(admission, 'utf8')), { settings: { sealingKey: next } });
});

test('a change that bootstrap has written down and not begun yet is still of the new key, although the agent takes that for out of use', async () => {
  const store = await sealedStore();
  await using all = await sealedHosts(store);
  const host = await all.add('h1', [former, next]);
  const file = join(host.stateDir, 'cluster.json');
  const cluster = { sealingKey: former, sealingKeyChange: { id: 'one', next } };
  await writeFile(file, JSON.stringify(cluster));
  await host.look();
  assert.deepEqual(await host.onDisk(), [former]);
  assert.deepEqual(JSON.parse(await readFile(file, 'utf8')), cluster);
  await addSealingKeys(host.stateDir, [next]);
  await sealUnder(store, sealKeyOf(next), { known, ...making });
  await host.look();
  assert.deepEqual(await host.onDisk(), [next]);
  assert.deepEqual(JSON.parse(await readFile(file, 'utf8')), { ...cluster, sealingKey: next });
});

test('a host keeps what it has as long as nobody has what the store is sealed under', async () => {
  const store = createMemoryStore();
  await makeRing(store, { sealingKey: sealKeyOf('of another time'), ...making });
  await using all = await sealedHosts(store);
  const host = await all.add('h1', [former, next]);
  await assert.rejects(host.look(), /no other host has the key/);
  assert.deepEqual(await host.onDisk(), [former, next]);
  assert.deepEqual(await (await all.add('h2', [])).onDisk(), []);
});

test('hosts alone are told: no part of the platform, nobody without a certificate, not from the machine itself', async () => {
  await using all = await sealedHosts(await sealedStore());
  const { place } = await all.add('h1', [former]);
  const at = `127.0.0.1:${place.apiPort}`;
  const ask = async (role?: string): Promise<readonly string[]> => {
    const options =
      role === undefined
        ? { baseUrl: `http://${at}` }
        : { baseUrl: `https://${at}`, mutual: { identity: await identityOf(role), server: hostRole('h1') } };
    await using client = new HttpClient({ name: 'the agent', key: clusterKey, ...options });
    return (await client.call(sealingKeysRoute, {})).keys;
  };
  const identityOf = async (role: string) => {
    const issued = await issueCertificate(all.authority, { name: 'one', role });
    return new RenewedIdentity({ trusted: all.authority.certificate, ...issued });
  };
  assert.deepEqual(await ask(hostRole('h2')), [former]);
  for (const app of ['controller', 'router', 'slug-builder']) {
    await assert.rejects(ask(appRole(app)), (error) => hasCode(error, 'denied'), app);
  }
  await assert.rejects(ask(), (error) => hasCode(error, 'unauthenticated'));
});
