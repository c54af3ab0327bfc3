import assert from 'node:assert/strict';
import { stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import { RenewedIdentity, appRole, hostRole } from '@flynn/kit/identity';
import { createAuthority, issueCertificate } from '@flynn/kit/tls';
import { createMemoryStore } from '@flynn/store/memory';
import type { Store } from '@flynn/store/store';
import { type AuthoritySettings, trustedOnly } from '../trust/authorities.ts';
import { clusterKey, roundHosts } from './authority-rounds-fixture.ts';
import { authoritiesKey, authoritiesRoute, namedOf } from './authority-rounds.ts';
import { addSealingKeys } from './sealing-keys.ts';

async function change() {
  const [former, next] = [await createAuthority('flynn'), await createAuthority('flynn')];
  const opening = { authority: former, alsoTrusted: await trustedOnly(next), authorityRound: 1 };
  const issuing = { authority: next, alsoTrusted: await trustedOnly(former), authorityRound: 2 };
  return { former, next, opening, issuing, closing: { authority: next, authorityRound: 3 } };
}

async function name(store: Store, settings: AuthoritySettings): Promise<void> {
  await store.transact({ then: [{ put: authoritiesKey, value: JSON.stringify(namedOf(settings)) }] });
}

test('hosts take over each round from one another, and know one another all the while; one that joins or comes back in it, too', async () => {
  const { former, next, opening, issuing, closing } = await change();
  const store = createMemoryStore();
  await using all = await roundHosts(store, former);
  const [h1, h2, h3] = [await all.add('h1'), await all.add('h2'), await all.add('h3')];
  for (const host of [h1, h2, h3]) await host.look();
  assert.deepEqual(h2.rounds.told(), { authorityRound: 0 });
  h3.isAway = true;
  await name(store, opening);
  await assert.rejects(h2.look(), (error) => hasCode(error, 'unavailable'), 'nobody has them yet');
  assert.equal(h2.trust.hostAuthorities, former.certificate);
  for (const settings of [opening, issuing, closing]) {
    // The host that makes it has it on its disk before the store names it.
    await h1.tell(settings);
    await h1.look();
    await name(store, settings);
    await h2.look();
    if (settings === opening) {
      h3.isAway = false;
      await h3.look();
    } else if (settings === issuing) {
      // It has it from the second by now.
      h1.isAway = true;
      await h3.look();
      h1.isAway = false;
    } else {
      await h3.look();
    }
    for (const [id, host] of Object.entries({ h2, h3 })) {
      assert.deepEqual(host.rounds.told(), { authorityRound: settings.authorityRound });
      const { cluster, settings: told } = await host.onDisk();
      assert.deepEqual(told, settings);
      assert.deepEqual(cluster, { name: 'flynn', hostId: id, ...settings });
      for (const file of ['cluster.json', 'admission.json']) {
        assert.equal((await stat(join(host.stateDir, file))).mode & 0o777, 0o600);
      }
    }
    assert.equal(h2.trust.shown, settings.authority.certificate);
  }
  assert.equal(h3.trust.hostAuthorities, next.certificate);
});

test('a host goes back to no earlier round, and takes nothing but what is named', async () => {
  const { former, opening, issuing, closing } = await change();
  const store = createMemoryStore();
  await using all = await roundHosts(store, former);
  const [h1, h2] = [await all.add('h1'), await all.add('h2')];
  // As it is while the host that makes it has written it and named nothing, or the store was put back.
  await h1.tell(issuing);
  await name(store, opening);
  await h1.look();
  assert.deepEqual((await h1.onDisk()).settings, issuing);
  // Another host has a later round than is named, or one of the same number with others in it.
  await assert.rejects(h2.look(), (error) => hasCode(error, 'unavailable'));
  await h1.tell({ ...closing, authorityRound: 1 });
  await h1.look();
  await assert.rejects(h2.look(), (error) => hasCode(error, 'unavailable'));
  assert.deepEqual((await h2.onDisk()).settings, { authority: former });
  // Certificate and key that do not belong together would issue nothing.
  const broken = { ...opening, authority: { ...opening.authority, privateKey: issuing.authority.privateKey } };
  await writeFile(join(h1.stateDir, 'admission.json'), JSON.stringify({ settings: broken }));
  await assert.rejects(h2.look(), (error) => hasCode(error, 'unavailable', 'invalid'));
  assert.deepEqual((await h2.onDisk()).settings, { authority: former });
});

test('a host says that it has a round once its jobs and its member of etcd have followed; with those it was made with nobody has to', async () => {
  const { former, opening } = await change();
  const store = createMemoryStore();
  await using all = await roundHosts(store, former);
  const host = await all.add('h1');
  await host.look();
  assert.deepEqual([host.rounds.told(), host.followedUp], [{ authorityRound: 0 }, 0]);
  host.isBusy = true;
  await host.tell(opening);
  await name(store, opening);
  await assert.rejects(host.look(), (error) => hasCode(error, 'unavailable'));
  assert.deepEqual(host.rounds.told(), { authorityRound: 0 });
  assert.equal(host.trust.hostAuthorities, opening.authority.certificate + opening.alsoTrusted.certificate);
  host.isBusy = false;
  await host.look();
  await host.look();
  assert.deepEqual([host.rounds.told(), host.followedUp], [{ authorityRound: 1 }, 2]);
});

test('a host that was left behind trusts what it is told, although the store knows it only then', async () => {
  const { former, closing } = await change();
  const store = createMemoryStore();
  await using all = await roundHosts(store, former);
  const host = await all.add('h1');
  await host.look();
  await name(store, closing);
  host.hasStore = false;
  await assert.rejects(host.look(), (error) => hasCode(error, 'unauthenticated'));
  await host.tell(closing);
  await assert.rejects(host.look(), (error) => hasCode(error, 'unauthenticated'));
  assert.equal(host.trust.hostAuthorities, closing.authority.certificate);
  assert.deepEqual([host.rounds.told(), host.followedUp], [{ authorityRound: 0 }, 0]);
  host.hasStore = true;
  await host.look();
  assert.deepEqual([host.rounds.told(), host.followedUp], [{ authorityRound: closing.authorityRound }, 1]);
});

test('a host that a version before has left without the round has its authorities still, and nobody is asked', async () => {
  const { former, closing } = await change();
  const store = createMemoryStore();
  await using all = await roundHosts(store, former);
  const host = await all.add('h1');
  await host.tell({ authority: closing.authority });
  await name(store, closing);
  await host.look();
  assert.deepEqual((await host.onDisk()).settings, closing);
  assert.deepEqual(host.rounds.told(), { authorityRound: closing.authorityRound });
});

test('a host of old, whose sealing key was made of the authority’s, has it written out before that is another one', async () => {
  const { former, opening } = await change();
  const store = createMemoryStore();
  await using all = await roundHosts(store, former);
  const [h1, h2] = [await all.add('h1'), await all.add('h2')];
  await addSealingKeys(h2.stateDir, ['a-sealing-key']);
  await h1.tell(opening);
  await h1.look();
  await name(store, opening);
  await h2.look();
  const { cluster, settings } = await h2.onDisk();
  assert.deepEqual(settings, { ...opening, sealingKey: 'a-sealing-key' });
  assert.deepEqual(cluster, { name: 'flynn', hostId: 'h2', ...opening, sealingKey: 'a-sealing-key' });
});

test('hosts alone are told the authorities: no part of the platform, nobody without a certificate', async () => {
  const { former } = await change();
  await using all = await roundHosts(createMemoryStore(), former);
  const { place } = await all.add('h1');
  const at = `127.0.0.1:${place.apiPort}`;
  const ask = async (role?: string): Promise<AuthoritySettings> => {
    const issued = await issueCertificate(former, { name: 'one', ...(role === undefined ? {} : { role }) });
    const identity = new RenewedIdentity({ trusted: former.certificate, ...issued });
    const options =
      role === undefined
        ? { baseUrl: `http://${at}` }
        : { baseUrl: `https://${at}`, mutual: { identity, server: hostRole('h1') } };
    await using client = new HttpClient({ name: 'the agent', key: clusterKey, ...options });
    return await client.call(authoritiesRoute, {});
  };
  assert.deepEqual(await ask(hostRole('h2')), { authority: former });
  for (const app of ['controller', 'router', 'slug-builder']) {
    await assert.rejects(ask(appRole(app)), (error) => hasCode(error, 'denied'), app);
  }
  await assert.rejects(ask(), (error) => hasCode(error, 'unauthenticated'));
});
