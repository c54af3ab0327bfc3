import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { pause } from '@flynn/kit/clock';
import { readTextFile } from '@flynn/kit/files';
import { shortId } from '@flynn/kit/ids';
import { silentLogger } from '@flynn/kit/log';
import { TaskGroup } from '@flynn/kit/tasks';
import { createAuthority, issueCertificate } from '@flynn/kit/tls';
import { testLabel } from '@flynn/kit/testing-label';
import { connectEtcd } from '@flynn/store/etcd';
import { startEtcdCluster } from '@flynn/store/etcd-cluster';
import { EtcdMembers } from '@flynn/store/etcd-members';
import { docker } from '@flynn/store/etcd-runner';
import { z } from 'zod';
import { volumeName } from '../engine/labels.ts';
import { backUp } from './backup.ts';
import { clientUrlOf, residentFile, tlsFiles } from './etcd-resident.ts';
import { memberKey, memberPrefix } from './member-keys.ts';
import { endpointsFile, knownEndpoints } from './membership.ts';
import { type SimulatedNetwork, createSimulatedNetwork } from './membership-network.ts';
import { recoverStore } from './recovery.ts';

const image = z.string().parse(process.env['FLYNN_TEST_ETCD_IMAGE']);
const cluster = `t${shortId()}`;
const deadEndpoint = 'https://127.0.0.1:1';
const residentSchema = z.object({
  template: z.object({
    image: z.object({ name: z.string() }),
    command: z.array(z.string()),
    volumes: z.array(z.object({ name: z.string() })),
    meta: z.record(z.string(), z.string()),
  }),
});
let folder: string;
let stateDir: string;
let network: SimulatedNetwork;
const machine = new TaskGroup();
const started: string[] = [];

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'flynn-recovery-'));
  stateDir = join(folder, 'state');
  network = await createSimulatedNetwork(image);
});

after(async () => {
  await machine.stop();
  if (started.length > 0) await docker('rm', '--force', ...started);
  const { stdout } = await docker('volume', 'ls', '-q', '--filter', `label=flynn.cluster=${cluster}`);
  const volumes = stdout.split('\n').filter((name) => name !== '');
  if (volumes.length > 0) await docker('volume', 'rm', ...volumes);
  await network[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

/** Of the host that burns: what it had, and that it was the only member. */
async function saveFormer(file: string): Promise<void> {
  await using former = await startEtcdCluster({ image, members: 1 });
  await using store = connectEtcd({ endpoints: former.endpoints, log: silentLogger() });
  const member = { address: '192.0.2.1', state: 'voter' };
  const app = { put: '/flynn/resource/app/shop', value: '"of before"' };
  await store.transact({ then: [app, { put: memberKey('h1'), value: JSON.stringify(member) }] });
  const environment = { FLYNN_HOST_ID: 'h1', FLYNN_ETCD_ENDPOINTS: former.endpoints.join(',') };
  await backUp({ stateDir: folder, environment }, file);
}

/** What the agent does with a resident that is not `before`: in the host's network, with its volume and its certificates. */
async function runResident(where: string, signal: AbortSignal, before?: string): Promise<void> {
  let text: string | undefined;
  while (!signal.aborted && (text === undefined || text === before)) {
    text = await readTextFile(residentFile(stateDir));
    await pause(50, signal);
  }
  const former = started.splice(0);
  if (former.length > 0) await docker('rm', '--force', ...former);
  if (text === undefined) return;
  const { template } = residentSchema.parse(JSON.parse(text));
  const volume = volumeName(cluster, template.volumes[0]?.name ?? '');
  const mounts = [`--volume=${volume}:/data`, `--volume=${join(stateDir, 'tls')}:/tls:ro`];
  const place = [`--label=${testLabel}`, `--network=${where}`, '--entrypoint=etcd', ...mounts];
  const { stdout } = await docker('run', '--detach', ...place, template.image.name, ...template.command);
  started.push(stdout.trim());
}

test('a host that never had a member makes the store anew of a snapshot; one back from a power cut alone, of what lies on its disk', async () => {
  const address = network.addressOf(1);
  const authority = await createAuthority('flynn test');
  const own = await issueCertificate(authority, { name: 'h2', addresses: ['localhost', address] });
  await mkdir(join(stateDir, 'tls'), { recursive: true });
  const files = [tlsFiles.authority, tlsFiles.certificate, tlsFiles.key].map((name) => join(stateDir, name));
  const [ca = '', certificate = '', key = ''] = files;
  await writeFile(ca, authority.certificate);
  await writeFile(certificate, own.certificate);
  await writeFile(key, own.privateKey, { mode: 0o600 });
  await writeFile(endpointsFile(stateDir), JSON.stringify([deadEndpoint]));
  // One that was begun here before, and broken off before the agent was led to it.
  await writeFile(join(stateDir, 'recovery.json'), JSON.stringify({ memberId: 'never' }));
  const environment = {
    FLYNN_CLUSTER: cluster,
    FLYNN_HOST_ID: 'h2',
    FLYNN_ADDRESS: address,
    FLYNN_STATE_DIR: stateDir,
    FLYNN_ETCD_ENDPOINTS: deadEndpoint,
    FLYNN_ETCD_CA_FILE: ca,
    FLYNN_ETCD_CERT_FILE: certificate,
    FLYNN_ETCD_KEY_FILE: key,
  };
  const snapshot = join(folder, 'former.snapshot');
  await saveFormer(snapshot);
  const lines: string[] = [];
  const recovery = {
    installation: { stateDir, environment },
    report: (line: string) => void lines.push(line),
    signal: machine.signal,
  };
  await assert.rejects(recoverStore(recovery), { code: 'not_found', message: /no member of etcd.*--snapshot FILE/ });

  const where = await network.addHost(1);
  machine.run('resident', (signal) => runResident(where, signal));
  assert.deepEqual(await recoverStore({ ...recovery, snapshot }), ['127.0.0.1']);
  const tls = { ca: authority.certificate, ...own };
  await using store = connectEtcd({ endpoints: [clientUrlOf(address)], tls, log: silentLogger() });
  assert.equal((await store.get('/flynn/resource/app/shop'))?.value, '"of before"');
  const { entries } = await store.list(memberPrefix);
  assert.deepEqual(
    entries.map(({ key: name, value }) => [name, JSON.parse(value).state, JSON.parse(value).address]),
    [[memberKey('h2'), 'voter', address]],
  );
  assert.deepEqual(await knownEndpoints(stateDir, []), [clientUrlOf(address)], 'its agent learns where the store is');
  const { template } = residentSchema.parse(JSON.parse(await readFile(residentFile(stateDir), 'utf8')));
  assert.match(template.image.name, /^flynn\/etcd:/);
  assert.match(
    template.meta['flynn.trusted'] ?? '',
    /^[0-9a-f]{16}$/,
    'it is not started anew for what it trusts already',
  );
  await assert.rejects(recoverStore({ ...recovery, snapshot }), { code: 'conflict' });

  // Back from a power cut without the other member, one that is there serves nobody and gives no snapshot.
  await store.transact({ then: [{ put: '/flynn/resource/app/shop', value: '"of now"' }] });
  const members = new EtcdMembers([clientUrlOf(address)], tls);
  await members.current.client.cluster.memberAdd({ peerURLs: ['https://192.0.2.99:2380'], isLearner: false });
  members.close();
  const before = await readFile(residentFile(stateDir), 'utf8');
  await docker('restart', '--time=0', ...started);
  machine.run('resident of now', (signal) => runResident(where, signal, before));
  await recoverStore(recovery);
  assert.match(lines.join('\n'), /serves nobody: its database is copied/);
  await using again = connectEtcd({ endpoints: [clientUrlOf(address)], tls, log: silentLogger() });
  assert.equal((await again.get('/flynn/resource/app/shop'))?.value, '"of now"');
});
