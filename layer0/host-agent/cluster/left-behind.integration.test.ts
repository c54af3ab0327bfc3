/** A host whose way to the one with the store comes up only after it asked first. */
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { createAuthority, issueCertificate } from '@flynn/kit/tls';
import { cellKeys } from '@flynn/scheduler/cell';
import { docker } from '@flynn/store/etcd-runner';
import type { Entry } from '@flynn/store/store';
import { z } from 'zod';
import { configSchema } from '../config.ts';
import type { Config } from '../config.ts';
import type { Rival } from '../fencing/own-runs.ts';
import { clientUrlOf } from './etcd-resident.ts';
import { mayMemberStart } from './left-behind.ts';
import { memberKey } from './member-keys.ts';
import { SimulatedHost } from './membership-fixture.ts';
import { createSimulatedNetwork } from './membership-network.ts';
import { endpointsFile } from './membership.ts';

const image = z.string().parse(process.env['FLYNN_TEST_ETCD_IMAGE']);
const pace = { leaderTtlSeconds: 5, stepMs: 100, idleMs: 300, catchUpMs: 60_000 };

test('two that return together are told that they were left behind, also where that host is reached a while later', async () => {
  await using cleanup = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'flynn-left-behind-'));
  cleanup.defer(() => rm(folder, { recursive: true }));
  const network = cleanup.use(await createSimulatedNetwork(image));
  const [made = '', second = '', third = ''] = [1, 2, 3].map((index) => network.addressOf(index));
  const authority = await createAuthority('flynn test');
  const own = await issueCertificate(authority, { name: 'host', addresses: ['localhost', made, second, third] });
  const tlsFolder = join(folder, 'tls');
  await mkdir(tlsFolder);
  const files = { 'authority.pem': authority.certificate, 'host.pem': own.certificate, 'host-key.pem': own.privateKey };
  for (const [name, text] of Object.entries(files)) await writeFile(join(tlsFolder, name), text, { mode: 0o600 });
  // These two have each other, and both have it among those they know.
  const returning = await Promise.all(
    [second, third].map(async (address, index) => {
      await network.addHost(index + 2);
      const stateDir = join(folder, `returning-${index}`);
      await mkdir(stateDir);
      await writeFile(endpointsFile(stateDir), JSON.stringify([made, second, third].map(clientUrlOf)));
      return configSchema.parse({
        FLYNN_HOST_ID: `h${index + 2}`,
        FLYNN_KEY: 'the-cluster-key',
        FLYNN_ADDRESS: address,
        FLYNN_STATE_DIR: stateDir,
        FLYNN_ETCD_ENDPOINTS: clientUrlOf(made),
        FLYNN_ETCD_CA_FILE: join(tlsFolder, 'authority.pem'),
        FLYNN_ETCD_CERT_FILE: join(tlsFolder, 'host.pem'),
        FLYNN_ETCD_KEY_FILE: join(tlsFolder, 'host-key.pem'),
      });
    }),
  );
  const options = {
    folder,
    tlsFolder,
    tls: { ca: authority.certificate, ...own },
    endpoints: [clientUrlOf(made)],
    pace,
  };
  const place = await network.addHost(1);
  const host = cleanup.use(
    new SimulatedHost({ hostId: 'h1', address: made, ...options, etcd: { image, network: place } }),
  );
  await host.makeCluster();
  await host.start();
  const isMember = async () => (await host.store.get(memberKey('h1'))) !== undefined;
  await waitFor(isMember, { what: 'the member of the host that stayed', deadlineMs: 60_000, intervalMs: 50 });
  await host.stopAgent();
  const container = place.replace(/^container:/, '');
  const name = container.replace(/-1$/, '');
  await docker('network', 'disconnect', name, container);
  const { signal } = cleanup.adopt(new AbortController(), (one) => one.abort());
  // Each host is in a network of its own, whose addresses are not this machine's.
  const addresses = async () => new Set([made, second, third]);
  const runs = { elsewhere: () => undefined };
  const rival = {} as Rival;
  const seen: Rival[] = [];
  const rivals = {
    before: async () => undefined,
    seen: async (one: Rival) => void seen.push(one),
    wasMetLately: () => false,
  };
  const asking = { runs, rivals, log: silentLogger(), signal, absenceMs: 0, patienceMs: 120_000, addresses };
  const told = Promise.all(returning.map((config) => mayMemberStart(config, asking)));
  // Asked once they would have started their members, and with them the store as it was.
  const once = returning.map((config) => mayMemberStart(config, { ...asking, patienceMs: 0 }));
  assert.deepEqual(await Promise.all(once), ['start', 'start']);
  await docker('network', 'connect', `--ip=${made}`, name, container);
  assert.deepEqual(await told, ['left behind', 'left behind']);
  const alone = join(folder, 'alone');
  await mkdir(alone);
  await writeFile(endpointsFile(alone), JSON.stringify([clientUrlOf(made)]));
  // On a copy of the only host's disk, which has another address: who answers at the host's is that one, whose record stands.
  const only = { ...returning[0], FLYNN_HOST_ID: 'h1', FLYNN_ADDRESS: made } as Config;
  const elsewhere = async () => new Set(['10.255.255.1']);
  const record = { put: cellKeys.host('h1'), value: '{}' };
  await host.store.transact({ then: [record] });
  const asked: unknown[] = [];
  const living = { elsewhere: (entry?: Entry) => (asked.push(entry?.value), rival) };
  const copied = { ...asking, addresses: elsewhere, patienceMs: 10_000 };
  assert.equal(await mayMemberStart(only, { ...copied, runs: living }), 'taken');
  assert.deepEqual(new Set(asked), new Set(['{}']));
  assert.deepEqual(new Set(seen), new Set([rival]));
  assert.equal(await mayMemberStart(only, copied), 'start');
  // The host itself asks nobody.
  assert.equal(await mayMemberStart({ ...only, FLYNN_STATE_DIR: alone }, { ...asking, runs: living }), 'start');
});
