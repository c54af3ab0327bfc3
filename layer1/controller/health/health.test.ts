import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import { Metrics } from '@flynn/kit/metrics';
import { waitFor } from '@flynn/kit/retry';
import { formations } from '../api.ts';
import { startTestController } from '../testing.ts';
import { health } from './api.ts';
import type { ClusterHealth } from './api.ts';
import { HealthWatch } from './health.ts';
import { clusterMetrics } from './metrics.ts';

const service = { ports: [{ port: 8080, service: { name: 'router' } }] };

test('the platform’s parts are told with instances, versions and hosts, and what hosts found beside them', async () => {
  await using world = await startTestController();
  await world.deployApp('router', { app: { ...service, omni: true } }, { isSystem: true });
  await world.deployApp('shop', { web: { ports: [{ port: 8080 }] } });
  const look = () => world.client.call(health.get, { query: { patienceMs: 10_000 } });
  const scale = await waitFor(
    async () => {
      const seen = await look();
      return seen.components.some(({ name }) => name === 'router app') ? seen : undefined;
    },
    { what: 'the router to be seen', deadlineMs: 60_000, intervalMs: 20 },
  );
  // Nobody wants it yet.
  const idle = scale.components.find(({ name }) => name === 'router app');
  assert.deepEqual([idle?.wanted, idle?.healthy], [0, 0]);
  const finding = scale.findings.find(({ subject }) => subject === 'router app');
  assert.equal(finding?.severity, 'critical');
  assert.match(`${finding.what}; ${finding.remedy}`, /none of it is wanted; flynn -a router scale app=1/);
  assert.equal(scale.health, 'critical');
  assert.ok(!scale.components.some(({ app }) => app === 'shop'));
  const names = new Set(scale.components.map(({ name }) => name));
  for (const name of ['etcd', 'host agent', 'scheduler', 'container engine']) assert.ok(names.has(name), name);
});

test('what an agent found is told, with since when it was first seen', async () => {
  await using world = await startTestController({ hosts: 1 });
  const disk = {
    check: 'disks',
    severity: 'warning',
    subject: 'host host1',
    what: 'its disk is 90 % full',
    why: 'w',
    remedy: 'r',
  } as const;
  const [host] = world.hosts;
  if (host === undefined) throw new FlynnError('internal', 'there is no host');
  host.findings = [disk];
  const { signal } = new AbortController();
  const first = await world.web.health.watch(signal);
  const seen = first.findings.find(({ check }) => check === 'disks');
  assert.equal(seen?.what, disk.what);
  assert.ok(Date.parse(seen.since ?? '') > 0);
  host.findings = [{ ...disk, what: 'its disk is 91 % full' }];
  const second = await world.client.call(health.get, { query: { patienceMs: 10_000 } });
  assert.equal(second.findings.find(({ check }) => check === 'disks')?.since, seen.since);
});

test('that nobody leads the worker is told at the second look of every minute, and no more once somebody does', async () => {
  await using world = await startTestController({ hosts: 1 });
  await world.stopWorker();
  const { signal } = new AbortController();
  const looked = async () => {
    const { findings } = await world.web.health.watch(signal);
    return findings.filter(({ check }) => check === 'worker').map(({ severity }) => severity);
  };
  assert.deepEqual(await looked(), []);
  assert.deepEqual(await looked(), ['critical']);
  await world.restartWorker();
  const isLed = async () => (await looked()).length === 0;
  await waitFor(isLed, { what: 'a worker that leads', deadlineMs: 30_000, intervalMs: 20 });
});

test('a host whose agent is away is told by what the cell knows, within the patience', async () => {
  await using world = await startTestController({ hosts: 1 });
  const watch = new HealthWatch(
    { ...world.deps, hosts: { ...world.deps.hosts, examine: () => new Promise(() => undefined) } },
    { checks: [{ name: 'backups', find: () => [] }] },
  );
  const seen = await watch.look(200, new AbortController().signal);
  assert.deepEqual(
    seen.hosts.map(({ id, state }) => [id, state]),
    [['host1', 'silent']],
  );
  assert.ok(seen.unknown.some(({ check }) => check === 'hosts'));
});

test('whoever asks with little patience changes neither the figures nor since when something is so', async () => {
  await using world = await startTestController({ hosts: 1 });
  const { signal } = new AbortController();
  const [host] = world.hosts;
  if (host === undefined) throw new FlynnError('internal', 'there is no host');
  host.findings = [
    { check: 'disks', severity: 'critical', subject: 'host host1', what: 'it is full', why: 'w', remedy: 'r' },
  ];
  const { hosts } = world.deps;
  type Args = Parameters<typeof hosts.examine>;
  let isSlow = false;
  let nowMs = Date.now();
  const slow = {
    examine: (...args: Args) => (isSlow ? new Promise<never>(() => undefined) : hosts.examine(...args)),
  };
  const watch = new HealthWatch({ ...world.deps, hosts: { ...hosts, ...slow }, now: () => nowMs });
  const sinceOf = (seen: typeof watch.last) => seen?.findings.find(({ check }) => check === 'disks')?.since;
  const first = await watch.watch(signal);
  assert.ok(sinceOf(first));
  nowMs += 60_000;
  isSlow = true;
  const hasty = await watch.look(200, signal);
  assert.deepEqual([sinceOf(hasty), watch.last], [undefined, first]);
  isSlow = false;
  assert.equal(sinceOf(await watch.look(10_000, signal)), sinceOf(first));
  assert.equal(sinceOf(await watch.watch(signal)), sinceOf(first));
});

test('jobs that wait for a place are told with their app and the reason', async () => {
  await using world = await startTestController({ hosts: 1, memoryBytes: 1024 ** 3 });
  await world.deployApp('shop', { web: { ports: [{ port: 8080 }], memoryBytes: 1024 ** 3 } });
  const params = { app: 'shop', release: 'v1' };
  await world.client.call(formations.put, { params, body: { processes: { web: 50 } } });
  const watch = new HealthWatch({ ...world.deps, now: () => Date.now() + 120_000 });
  const waits = await waitFor(
    async () => {
      const { findings } = await watch.look(10_000, new AbortController().signal);
      // Evaluations may be heard of after the workload: until then nobody seems to look for a place.
      return findings.find(
        ({ subject, check, severity }) => check === 'work' && subject === 'app shop' && severity === 'warning',
      );
    },
    { what: 'the app to wait', deadlineMs: 60_000, intervalMs: 20 },
  );
  assert.match(waits.what, /^jobs of it wait for a place: .*memory/);
});

test('what cannot be looked at for ten minutes is a finding: critical where no agent answers, until it can be', async () => {
  await using world = await startTestController({ hosts: 1 });
  const { signal } = new AbortController();
  let nowMs = Date.now();
  let isBroken = true;
  const { hosts } = world.deps;
  type Args = Parameters<typeof hosts.examine>;
  const broken = (...args: Args) =>
    isBroken ? Promise.reject(new Error('connect ECONNREFUSED')) : hosts.examine(...args);
  const find = () => {
    if (isBroken) throw new Error('a record cannot be read');
    return [];
  };
  const watch = new HealthWatch(
    { ...world.deps, hosts: { ...hosts, examine: broken }, now: () => nowMs },
    { checks: [{ name: 'backups', find }] },
  );
  const metrics = new Metrics();
  clusterMetrics(metrics, world.deps, watch);
  const figures = async () => (await metrics.text()).match(/^flynn_cluster_unknown.*$/gm);
  const unseen = ({ findings }: ClusterHealth) =>
    findings.flatMap(({ severity, subject, matter, what, since }) =>
      matter === 'unseen' ? [[severity, subject, what, since]] : [],
    );
  assert.equal(await figures(), null);
  const since = new Date(nowMs).toISOString();
  assert.deepEqual(unseen(await watch.watch(signal)), []);
  assert.deepEqual(await figures(), [
    'flynn_cluster_unknown{check="hosts"} 1',
    'flynn_cluster_unknown{check="backups"} 1',
  ]);
  nowMs += 10 * 60_000 - 1;
  assert.deepEqual(unseen(await watch.watch(signal)), []);
  nowMs += 1;
  const expected = [
    ['critical', 'the cluster', "no host's agent tells how the hosts are: connect ECONNREFUSED", since],
    ['warning', 'the cluster', 'the check backups fails: a record cannot be read', since],
  ];
  assert.deepEqual(unseen(await watch.watch(signal)), expected);
  assert.deepEqual(unseen(await watch.look(10_000, signal)), expected, 'whoever asks is told the same');
  isBroken = false;
  assert.deepEqual(unseen(await watch.watch(signal)), []);
  assert.deepEqual(await figures(), ['flynn_cluster_unknown{check="any"} 0']);
  isBroken = true;
  nowMs += 60_000;
  assert.deepEqual(unseen(await watch.watch(signal)), [], 'it was known in between');
});
