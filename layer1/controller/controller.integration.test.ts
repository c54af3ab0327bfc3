/** The two processes as they are deployed, against a real etcd; only the hosts are simulated. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { HttpClient } from '@flynn/kit/http-client';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { freePort } from '@flynn/kit/testing-ports';
import { startScheduler } from '@flynn/scheduler/scheduler';
import { connectEtcd } from '@flynn/store/etcd';
import { startEtcdMember } from '@flynn/store/etcd-member';
import type { EtcdMember } from '@flynn/store/etcd-member';
import type { Store } from '@flynn/store/store';
import { apps, deployments, formations, jobs, releases } from './api.ts';
import { routing } from './routes/api.ts';
import { createControllerClient } from './client.ts';
import { SimulatedHost } from './testing/simulated-host.ts';

const keys = { FLYNN_KEY: 'cluster', FLYNN_CONTROLLER_KEY: 'people' };
const log = silentLogger();
const processes: ChildProcess[] = [];
const stop = new AbortController();
let etcd: EtcdMember;
let store: Store;
let host: SimulatedHost;
let client: HttpClient;
let worker: ChildProcess;

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, 'exit');
  child.kill('SIGTERM');
  await exit;
}

function startRole(role: 'web' | 'worker', port = 0): ChildProcess {
  const main = join(import.meta.dirname, 'main.ts');
  const env = { ...keys, FLYNN_ETCD_ENDPOINTS: etcd.endpoint, PORT: String(port) };
  const child = spawn(process.execPath, [main, role], { env, stdio: 'ignore' });
  processes.push(child);
  return child;
}

before(async () => {
  const image = process.env['FLYNN_TEST_ETCD_IMAGE'];
  etcd = await startEtcdMember(image === undefined ? {} : { image });
  store = connectEtcd({ endpoints: [etcd.endpoint], log });
  host = new SimulatedHost({ store, id: 'host1', key: keys.FLYNN_KEY, log, behave: () => ({ is: 'run' }) });
  await host.start();
  await startScheduler({ store, log, signal: stop.signal, id: 'host1' });
  const webPort = await freePort();
  startRole('web', webPort);
  worker = startRole('worker');
  client = createControllerClient({ baseUrl: `http://127.0.0.1:${webPort}`, key: keys.FLYNN_CONTROLLER_KEY });
  await waitFor(() => client.call(apps.list, {}), { what: 'the controller', deadlineMs: 60_000 });
});

after(async () => {
  await client?.close();
  for (const child of processes) await end(child);
  stop.abort();
  await host?.[Symbol.asyncDispose]();
  await store?.close();
  await etcd?.stop();
});

const ofApp = { params: { app: 'shop' } };

async function deploy(releaseId: string) {
  const { id } = await client.call(deployments.create, { ...ofApp, body: { releaseId } });
  return waitFor(
    async () => {
      const deployment = await client.call(deployments.get, { params: { deployment: id } });
      return deployment.endedAt === undefined ? undefined : deployment;
    },
    { what: 'the deployment', deadlineMs: 60_000 },
  );
}

test(
  'an app is deployed, scaled, replaced by another release and deleted, also while the worker is replaced',
  { timeout: 240_000 },
  async () => {
    const app = await client.call(apps.create, { body: { name: 'shop' } });
    const artifact = await client.call(releases.createArtifact, { body: { type: 'image', image: { name: 'x' } } });
    const types = Object.fromEntries(
      ['web', ...Array.from({ length: 19 }, (_, index) => `type${index}`)].map((type) => [type, {}]),
    );
    const first = await client.call(releases.create, { ...ofApp, body: { artifactId: artifact.id, processes: types } });
    assert.equal((await deploy(first.id)).state, 'complete');
    const counts = Object.fromEntries(Object.keys(types).map((type) => [type, 1]));
    await client.call(formations.put, {
      params: { app: 'shop', release: 'v1' },
      body: { processes: { ...counts, web: 6 } },
    });
    await waitFor(
      async () => (await client.call(jobs.list, ofApp)).filter(({ state }) => state === 'running').length === 25,
      { what: '25 jobs', deadlineMs: 60_000 },
    );
    const second = await client.call(releases.create, { ...ofApp, body: { env: { A: '1' } } });
    const deploying = deploy(second.id);
    await end(worker);
    worker = startRole('worker');
    const deployment = await deploying;
    assert.equal(deployment.state, 'complete', deployment.error);
    assert.equal(deployment.progress['web']?.up, 6);
    const routes = await client.call(routing.list, ofApp);
    assert.equal(routes[0]?.domain, 'shop.flynn.localhost');
    const gone = await client.call(apps.remove, ofApp, { timeoutMs: 65_000 });
    assert.equal(gone.releases, 2);
    const { entries } = await store.list('/flynn/');
    assert.deepEqual(
      entries.filter(({ key, value }) => key.includes(app.id) || value.includes(app.id)).map(({ key }) => key),
      [],
    );
  },
);
