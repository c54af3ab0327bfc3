import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { HttpClient } from '@flynn/kit/http-client';
import { roleGate } from '@flynn/kit/http-gate';
import { startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { freePort } from '@flynn/kit/testing-ports';
import { hostRecordSchema } from '@flynn/scheduler/cell';
import { connectEtcd } from '@flynn/store/etcd';
import { routes } from './api.ts';
import { configSchema } from './config.ts';
import { ContainerTable } from './containers/table.ts';
import { doctorRoutes } from './doctor/api.ts';
import { serveEarly } from './early-server.ts';
import type { EarlyServer } from './early-server.ts';
import { jobOf } from './host-fixture.ts';
import { jobLabels, label } from './engine/labels.ts';
import { createMemoryEngine } from './engine/memory.ts';
import { otherMachineFile } from './fencing/other-machine.ts';
import { Rivals, certainMs } from './fencing/rivals.ts';
import { agentRules } from './trust/agent-rules.ts';

const log = silentLogger();
const stop = new AbortController();
const port = await freePort();
const engine = createMemoryEngine();
const containers = new ContainerTable({ engine, log });
const record = hostRecordSchema.parse({
  id: 'h1',
  address: '10.9.9.1',
  apiPort: port,
  capacity: { memoryBytes: 1, cpuMillis: 1 },
  startedAt: 1,
});
// Nobody listens there: of three members none is left.
const endpoints = ['http://127.0.0.1:9', 'http://127.0.0.2:9', 'http://127.0.0.3:9'];
const store = connectEtcd({ endpoints, log });
const gate = roleGate(
  'the-cluster-key',
  agentRules(() => [], 'the-local-key'),
);
const client = new HttpClient({ baseUrl: `http://127.0.0.1:${port}`, key: 'the-local-key', name: 'the agent' });
const stateDir = await mkdtemp(join(tmpdir(), 'flynn-early-'));
const file = otherMachineFile(stateDir, log);
const rivals = new Rivals(log, file);
const bridge = { isThere: true };
let early: EarlyServer;

before(async () => {
  for (const [id, command] of [
    ['web', 'echo said; exec sleep 10000'],
    ['gone', 'exit 3'],
  ] as const) {
    const job = jobOf(id, { command: ['sh', '-c', command] });
    const container = await engine.create({
      name: job.id,
      labels: { ...jobLabels(job), ...(id === 'web' ? { [`${label.metaPrefix}flynn.app_name`]: 'blog' } : {}) },
      imageRef: 'base',
      hostname: 'h',
      command: job.template.command ?? [],
      env: {},
      network: { type: 'host' },
      volumes: [],
      tty: false,
      stdin: false,
      limits: {},
    });
    await engine.start(container);
  }
  void containers.run(stop.signal);
  await waitFor(() => containers.all().some(({ state }) => state === 'exited'), {
    what: 'a job to end',
    deadlineMs: 60_000,
  });
  early = await serveEarly({
    config: configSchema.parse({
      FLYNN_HOST_ID: 'h1',
      FLYNN_KEY: 'the-cluster-key',
      FLYNN_ADDRESS: '10.9.9.1',
      FLYNN_STATE_DIR: tmpdir(),
    }),
    version: '1.2.3',
    engineVersion: '26',
    engineDir: tmpdir(),
    store,
    tls: undefined,
    containers,
    hang: { since: undefined },
    bridge,
    network: { repairedAt: [], problems: [], holders: [], neighbours: [] },
    identity: undefined,
    log,
    engine,
    record,
    rivals,
    port,
    gate,
    signal: stop.signal,
  });
});

after(async () => {
  stop.abort();
  engine.losePower();
  await client[Symbol.asyncDispose]();
  await store.close();
  await rm(stateDir, { recursive: true });
});

describe('an agent that waits for the store', { timeout: 120_000 }, () => {
  it('tells what runs, what ended, and what they said', async () => {
    const jobs = await client.call(routes.jobs, { query: {} });
    assert.deepEqual(
      jobs.map(({ id, state, isFinal, exitCode }) => [id, state, isFinal, exitCode]),
      [
        ['h1-web', 'running', false, undefined],
        ['h1-gone', 'crashed', true, 3],
      ],
    );
    assert.equal(jobs[0]?.meta['flynn.app_name'], 'blog');
    const active = await client.call(routes.jobs, { query: { active: true } });
    assert.deepEqual(
      active.map(({ id }) => id),
      ['h1-web'],
    );
    const stream = await client.stream(routes.log, { params: { job: 'h1-web' }, query: {} });
    assert.match(String(await stream.toArray()), /"message":"said"/);
    const { container } = await client.call(routes.inspect, { params: { job: 'h1-web' } });
    assert.match(JSON.stringify(container), /h1-web/);
  });

  it('says that it waits, and with what etcd is lost for good', async () => {
    const status = await client.call(routes.status, {});
    assert.deepEqual([status.host.id, status.version, status.store.isReachable], ['h1', '1.2.3', false]);
    assert.deepEqual(status.jobs, { running: 1, crashed: 1 });
    assert.match(status.conditions.join(), /waits for the store since it was started/);
    const { findings, etcd, hosts } = await client.call(doctorRoutes.cluster, { query: { patienceMs: 5_000 } });
    assert.equal(etcd.length, 3);
    assert.deepEqual(
      hosts.map(({ id, agent }) => [id, agent?.store.isReachable, agent?.scheduler]),
      [['h1', false, 'off']],
    );
    const etcds = findings.find(({ check }) => check === 'etcd');
    assert.match(`${etcds?.what} ${etcds?.remedy}`, /0 of 3 members do.*flynn-host etcd recover/);
    const agents = findings.find(({ check }) => check === 'agent');
    assert.match(agents?.what ?? '', /has waited for etcd since its agent was started/);
    assert.ok(!findings.some(({ what }) => what.includes('lease is lost')));
  });

  it('says that it waits for the engine, where that does not tell of its network', async () => {
    bridge.isThere = false;
    assert.match((await client.call(routes.status, {})).conditions.join(), /waits for the container engine/);
    await assert.rejects(client.call(routes.hosts, {}), { code: 'unavailable', message: /for its container engine/ });
    bridge.isThere = true;
  });

  it('refuses the rest for the moment, and whoever is not root here', async () => {
    for (const call of [
      () => client.call(routes.host, {}),
      () => client.call(routes.hosts, {}),
      () => client.call(routes.stop, { params: { job: 'h1-web' } }),
    ]) {
      await assert.rejects(call(), { code: 'unavailable', message: /waits for the store.*flynn-host doctor/ });
    }
    await using stranger = new HttpClient({ baseUrl: `http://127.0.0.1:${port}`, key: 'no', name: 'the agent' });
    await assert.rejects(stranger.call(routes.jobs, { query: {} }), { code: 'unauthenticated' });
    await using elsewhere = new HttpClient({
      baseUrl: `http://127.0.0.2:${port}`,
      key: 'the-local-key',
      name: 'the agent',
    });
    await assert.rejects(elsewhere.call(routes.jobs, { query: {} }), { code: 'unavailable' });
  });

  it('says so where it stands aside for a machine that was this host, also without a store', async () => {
    await file.note({ address: '10.9.9.3', seenAt: 1 });
    await rivals.before(new Set());
    const { conditions } = await client.call(routes.status, {});
    assert.match(conditions.join(), /another machine was this host too, at 10\.9\.9\.3 .* flynn-host bootstrap/);
    const { findings } = await client.call(doctorRoutes.host, { query: { patienceMs: 5_000 } });
    assert.ok(findings.some(({ what }) => /another machine was this host too, at 10\.9\.9\.3/.test(what)));
    await file.forget();
    await rivals.before(new Set());
    assert.doesNotMatch((await client.call(routes.status, {})).conditions.join(), /another machine/);
  });

  it('says so where it waits for another machine that is this host, and the doctor knows of it', async () => {
    const met = { lease: 'a', record: { ...record, address: '10.9.9.2' } };
    rivals.met(met, false, performance.now() - certainMs - 1_000);
    rivals.met(met, false, performance.now() - certainMs + 10_000);
    for (let agoMs = certainMs - 20_000; agoMs >= 0; agoMs -= 5_000) rivals.met(met, false, performance.now() - agoMs);
    await assert.rejects(client.call(routes.hosts, {}), {
      code: 'unavailable',
      message: /another machine is host h1 too/,
    });
    const { findings } = await client.call(doctorRoutes.host, { query: { patienceMs: 5_000 } });
    assert.ok(findings.some(({ what }) => /another machine is this host too, at 10\.9\.9\.2/.test(what)));
  });

  it('leaves its port to the whole agent at once, whoever is connected', async () => {
    const followed = await client.stream(routes.log, { params: { job: 'h1-web' }, query: { follow: true } });
    early.close();
    await using whole = await startServer({ name: 'host-agent', handlers: [], log, host: '127.0.0.1', port });
    assert.equal(whole.port, port);
    followed.on('error', () => undefined).destroy();
  });
});
