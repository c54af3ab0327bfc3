import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdir, mkdtempDisposable, writeFile } from 'node:fs/promises';
import { createServer } from 'node:tls';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { residentFile } from '@flynn/host-agent/cluster/etcd-resident';
import { endpointsFile } from '@flynn/host-agent/cluster/membership';
import { networkFile, remember } from '@flynn/host-agent/network/memory';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { createAuthority, issueCertificate } from '@flynn/kit/tls';
import { engineThat } from '../machine/engine-fixture.ts';
import { volumesHere } from './holdings.ts';
import { leaveCluster, leaveUntold } from './leaving.ts';
import { made } from '../cluster-fixture.ts';
import type { Cluster } from '../settings.ts';

const app = 'abcdefghijkl';
const volume = (name: string, Labels: Record<string, string> | null = null) => ({
  Name: `flynn-flynn.${name}`,
  Labels,
});
const database = volume(`${app}.db.data`, { 'flynn.meta.flynn.app_name': 'shop' });

const engineWith = (...volumes: readonly unknown[]) =>
  engineThat((request) =>
    request === 'GET /_ping'
      ? { status: 200 }
      : { status: 200, body: { Volumes: volumes.length === 0 ? null : volumes } },
  );

const silence = new FlynnError('timeout', 'reading in etcd failed: it did not answer in time');

/** A host on this disk; `others`: those it knew of. */
async function hostOf({ others = ['h1'], ...more }: Partial<Cluster> & { others?: readonly string[] }) {
  const folder = await mkdtempDisposable(join(tmpdir(), 'flynn-holdings-'));
  const stateDir = folder.path;
  const own = { hostId: 'h2', address: '192.0.2.8', peers: ['192.0.2.7'], hasPlatform: false };
  const authority = await createAuthority('flynn');
  const cluster = { ...made(), authority, ...own, ...more };
  const leases = [cluster.hostId, ...others].map((hostId, place) => {
    const subnet = `100.100.${place}.0/24`;
    return { hostId, address: `192.0.2.${place + 1}`, subnet, joinedAt: 0 };
  });
  await remember(join(stateDir, networkFile), { leases, endpoints: [], encryption: 'off' });
  const lines: string[] = [];
  const report = (line: string) => void lines.push(line);
  return {
    stateDir,
    lines,
    leave: (engine: { socket: string }, { isForced = false, cause = silence } = {}) =>
      leaveUntold(cause, { stateDir, cluster, dockerSocket: engine.socket, isForced, report }),
    volumes: (engine: { socket: string }, ask: Parameters<typeof volumesHere>[1]) =>
      volumesHere({ stateDir, cluster, dockerSocket: engine.socket, log: silentLogger() }, ask),
    ask: (engine: { socket: string }) =>
      leaveCluster({ stateDir, cluster, dockerSocket: engine.socket, isForced: false, report }),
    async becomeMember() {
      await mkdir(dirname(residentFile(stateDir)));
      await writeFile(residentFile(stateDir), '{}');
    },
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}

const refused = (what: RegExp) => (error: unknown) =>
  hasCode(error, 'conflict') && what.test(error.message) && /--force.*Nothing was erased$/.test(error.message);

test('a host whose cluster does not answer is not erased by mistake: what would be lost is named', async () => {
  await using host = await hostOf({});
  await using engine = await engineWith(database, volume('logs'), { Name: 'another' });
  await assert.rejects(host.leave(engine), refused(/apps keep on its volumes: data of shop db\. /));
  await using withBlobs = await engineWith(volume('blobs'));
  await assert.rejects(host.leave(withBlobs), refused(/slugs and layers, if it alone has them/));
  await using frozen = await engineThat(() => ({ status: 500 }));
  await assert.rejects(
    host.leave(frozen),
    refused(/whatever is on its volumes \(the container engine at .*not answer/),
  );
  await host.becomeMember();
  await using empty = await engineWith();
  await assert.rejects(host.leave(empty), refused(/its member of the store, without which/));
  assert.deepEqual(host.lines, []);
  await host.leave(engine, { isForced: true });
  assert.match(host.lines[0] ?? '', /^lost with its disk, as you force it: .*data of shop db; its member of the store/);
  assert.match(host.lines[1] ?? '', /on another host: flynn host remove h2 --yes$/);
});

test('a cluster that does not answer holds nobody up who has nothing of it', async () => {
  await using host = await hostOf({});
  await using engine = await engineWith(volume('logs'), volume('router'));
  await host.leave(engine);
  assert.match(host.lines.join(), /^the cluster cannot be told \(.*\)\. Tell it on another host/);
});

test('the keeper of a cluster of two stays while its store does not answer; the last host takes all with it', async () => {
  const keeper = { hostId: 'h1', hasPlatform: true, peers: [] };
  await using engine = await engineWith(database, volume('etcd'));
  await using first = await hostOf({ ...keeper, others: ['h2'] });
  await writeFile(endpointsFile(first.stateDir), JSON.stringify(['https://192.0.2.1:2379']));
  await assert.rejects(first.leave(engine), refused(/data of shop db; what the host that keeps the platform has/));
  await using alone = await hostOf({ ...keeper, others: [] });
  await alone.becomeMember();
  await alone.leave(engine);
  assert.deepEqual(alone.lines, []);
  await writeFile(join(alone.stateDir, networkFile), 'half of someth');
  await assert.rejects(alone.leave(engine), refused(/data of shop db/), 'nobody knows whether it is the last one');
});

test('a host that was left behind by a change of the authority can be taken down, forced or with nothing to lose', async () => {
  const other = await createAuthority('flynn');
  const role = 'flynn:host/h1';
  const { certificate: cert, privateKey: key } = await issueCertificate(other, {
    name: 'h1',
    role,
    addresses: ['127.0.0.1'],
  });
  const server = createServer({ cert, key }, (socket) => socket.on('error', () => undefined));
  server.on('tlsClientError', () => undefined);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const address = server.address();
  assert.ok(address !== null && typeof address === 'object');
  await using closing = { [Symbol.asyncDispose]: async () => void server.close() };
  void closing;
  await using host = await hostOf({ etcdEndpoints: [`https://127.0.0.1:${address.port}`] });
  await using engine = await engineWith(database);
  await assert.rejects(host.ask(engine), refused(/of another authority.*data of shop db.*join.* brings it back/i));
  const cause = new FlynnError('unauthenticated', 'etcd does not accept this certificate');
  await host.leave(engine, { isForced: true, cause });
  await using empty = await engineWith();
  await host.leave(empty, { cause });
});

test('who goes whatever is lost is held up by nothing that came of asking', async () => {
  await using host = await hostOf({});
  await using engine = await engineWith();
  const cause = new FlynnError('exhausted', 'etcd takes no more writes');
  await assert.rejects(host.leave(engine, { cause }), cause);
  await host.leave(engine, { cause, isForced: true });
});

test('what apps keep on a host its agent tells, and where that is gone the engine', async () => {
  await using host = await hostOf({});
  await using engine = await engineWith(database, volume('logs'));
  const kept = { app: 'shop', type: 'db', name: 'data', bytes: 5 };
  const gone = async (): Promise<never> => {
    throw new FlynnError('unavailable', 'this host, h2, is not in the cluster');
  };
  assert.deepEqual(await host.volumes(engine, async () => [kept]), [kept]);
  assert.deepEqual(await host.volumes(engine, gone), [{ ...kept, bytes: undefined }]);
  await using frozen = await engineThat(() => ({ status: 500 }));
  await assert.rejects(host.volumes(frozen, gone), { code: 'unavailable', message: /not in the cluster/ });
});
