import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { askToJoin, parseToken } from '@flynn/host-agent/cluster/join';
import { admissionSchema, startJoinServer } from '@flynn/host-agent/cluster/join-server';
import { leaseSubnet } from '@flynn/host-agent/cluster/subnets';
import { admissionFile } from '@flynn/host-agent/trust/authorities';
import { hasCode } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { createAuthority, issueCertificate } from '@flynn/kit/tls';
import { openTestStore } from '@flynn/store/testing';
import { makeToken, rejoinCluster, standingOf, writeAdmission } from './admission.ts';
import { withClosing, withIssuing, withNextAuthority, withoutAuthorityChange } from '../rotation/authority-round.ts';
import { closing, withNextRootKey } from '../rotation/rotation.ts';
import { made } from '../cluster-fixture.ts';
import { type Cluster, readOptions, settle, sharedSchema } from '../settings.ts';

/** A cluster after as many changes of its authority, newest last. */
async function clustersAfter(changes: number): Promise<Cluster[]> {
  let cluster: Cluster = { ...made(), address: '127.0.0.1', authority: await createAuthority('flynn') };
  const all = [cluster];
  for (let change = 1; change <= changes; change += 1) {
    const opening = await withNextAuthority(cluster, await createAuthority('flynn'), {
      id: String(change),
      since: 's',
    });
    cluster = withoutAuthorityChange(withClosing(await withIssuing(opening)));
    all.push(cluster);
  }
  return all;
}

/** A host of the cluster as it is, which lets others in; its store has the lease of host `h2` at 192.0.2.2. */
async function startDoor(cluster: Cluster) {
  const folder = await mkdtemp(join(tmpdir(), 'flynn-admission-'));
  const store = openTestStore();
  await writeAdmission(
    folder,
    cluster,
    await issueCertificate(cluster.authority, { name: 'h1', addresses: ['127.0.0.1'] }),
  );
  const own = { hostId: 'h2', address: '192.0.2.2', range: cluster.range, now: 0 };
  const { subnet } = await leaseSubnet(store, own);
  const server = await startJoinServer({
    admission: admissionSchema.parse(JSON.parse(await readFile(join(folder, admissionFile), 'utf8'))),
    address: '127.0.0.1',
    port: 0,
    store,
    endpoints: () => ['https://127.0.0.1:2379'],
    peers: () => ['127.0.0.1'],
    now: () => Date.now(),
    log: silentLogger(),
    signal: new AbortController().signal,
  });
  return {
    port: server.port,
    token: (of: Cluster = cluster) => makeToken(openTestStore(), of),
    /** As that host has it on its disk. */
    own: (as: Cluster): Cluster => ({ ...as, hostId: 'h2', address: '192.0.2.2', subnet, hasPlatform: false }),
    async [Symbol.asyncDispose]() {
      await server.close();
      await store.close();
      await rm(folder, { recursive: true });
    },
  };
}

test('a machine is new to a cluster, known to it, left behind by it while its authority was made anew, or of another one', async () => {
  const [first, second, third] = await clustersAfter(2);
  assert.ok(first && second && third);
  await using door = await startDoor(second);
  const { port } = door;
  const token = await door.token();
  assert.equal(await standingOf(token, undefined, { port }), 'new');
  assert.equal(await standingOf(token, door.own(second), { port: 1 }), 'known');
  assert.equal(await standingOf(token, door.own(first), { port }), 'left');
  const [stranger] = await clustersAfter(0);
  assert.ok(stranger);
  await using later = await startDoor(third);
  for (const [other, at] of [[stranger, door] as const, [first, later] as const]) {
    const standing = standingOf(await at.token(), at.own(other), { port: at.port });
    await assert.rejects(standing, (error) => hasCode(error, 'conflict') && /take it out first/.test(String(error)));
  }
});

test('a host that was left behind is told what the cluster is by now, and keeps what is its own', async () => {
  const [first, second] = await clustersAfter(1);
  assert.ok(first && second);
  await using door = await startDoor(second);
  const { port } = door;
  const token = await door.token();
  const stored: Cluster = { ...door.own(first), dnsUpstreams: '192.0.2.53', hasPlatform: true };
  const cluster = await rejoinCluster(token, stored, { port });
  const { authority, authorityRound, endorsement } = second;
  assert.deepEqual(cluster, {
    ...stored,
    authority,
    authorityRound,
    endorsement,
    etcdEndpoints: ['https://127.0.0.1:2379'],
    peers: ['127.0.0.1'],
  });
  // It was left behind in the middle of a change, of which the others have gone on without it.
  const halfway = await withNextAuthority(stored, await createAuthority('flynn'), { id: 'i', since: 's' });
  const former: Cluster = { ...halfway, httpsPort: 8443, networkBackend: 'vxlan' };
  assert.deepEqual(await rejoinCluster(token, former, { port }), cluster);
  // Its containers may have addresses of others by now.
  const moved = rejoinCluster(token, { ...stored, subnet: '100.100.77.0/24' }, { port });
  await assert.rejects(moved, (error) => hasCode(error, 'conflict') && /Nothing was changed/.test(String(error)));
});

test('who knows the cluster of before its authority was made anew can make no token', async () => {
  const [first, second] = await clustersAfter(1);
  assert.ok(first && second);
  await using door = await startDoor(second);
  const ask = async (token: string): Promise<unknown> =>
    askToJoin(
      parseToken(token),
      { hostId: 'h3', address: '192.0.2.3' },
      { port: door.port, signal: AbortSignal.timeout(60_000) },
    );
  // The certificate of the new one is shown to everybody; its key is not.
  const forged = { ...first, authority: { ...first.authority, certificate: second.authority.certificate } };
  for (const authorityRound of [0, second.authorityRound ?? 0]) {
    await assert.rejects(ask(await door.token({ ...forged, authorityRound })), (error) => hasCode(error, 'denied'));
  }
  await ask(await door.token());
});

test('who joins while the root key is made anew is told the one that all controllers take', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'flynn-admission-'));
  try {
    const authority = { certificate: 'CERTIFICATE', privateKey: 'PRIVATE KEY' };
    const before = settle(readOptions({}), undefined, {
      hostname: 'h1',
      address: '192.0.2.7',
      now: new Date(0),
      newSecret: () => 'the-former-secret',
      authority,
    });
    const told = async (cluster: Cluster): Promise<string> => {
      await writeAdmission(folder, cluster, authority);
      const text = await readFile(join(folder, admissionFile), 'utf8');
      return sharedSchema.parse(admissionSchema.parse(JSON.parse(text)).settings).controllerKey;
    };
    const changing = withNextRootKey(before, 'new', { id: 'i', since: 's' });
    assert.equal(await told(before), 'the-former-secret');
    assert.equal(await told(changing), 'the-former-secret');
    assert.equal(await told(closing(changing)), 'new');
  } finally {
    await rm(folder, { recursive: true });
  }
});
