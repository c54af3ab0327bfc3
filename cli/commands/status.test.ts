import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HealthEvents } from '@flynn/controller/health/events';
import { newId } from '@flynn/kit/ids';
import { freePorts } from '@flynn/kit/testing-ports';
import { loadClusters, saveClusters } from '../clusters/clusters.ts';
import { Desk, openDeskWithController } from '../testing.ts';

const disk = {
  check: 'disks',
  severity: 'critical',
  subject: 'host host1',
  what: 'its disk is 97 % full',
  why: 'builds stop',
  remedy: 'free some',
} as const;
/** A machine that is busy must not have anything unknown. */
const patiently = ['--patience', '20'];

test('what began and ended is in `events`, `audit` and `status`', async () => {
  await using env = await openDeskWithController();
  const { store } = env.controller;
  const events = new HealthEvents({ store, now: Date.now, newId });
  const { signal } = new AbortController();
  await events.record({ findings: [{ ...disk, check: 'hosts', what: 'it is away' }], unknown: [] }, signal);
  await events.record({ findings: [], unknown: [] }, signal);
  const told = await env.desk.run(['events']);
  assert.match(told.stdout, /\n\S+ +ended +- +host host1 +it is away\n\S+ +began +critical +host host1 +it is away\n$/);
  assert.equal((await env.desk.run(['events', '-n', '1', '--json'])).stdout.match(/"what"/g)?.length, 1);
  assert.match((await env.desk.run(['audit'])).stdout, /cluster +- +began host host1: it is away +critical/);
  assert.match((await env.desk.run(['status', ...patiently])).stdout, /\n\S+ +began +host host1: it is away\n$/);
});

test('`status` and `doctor` tell parts, hosts and findings; the exit code is the worst of them', async () => {
  await using env = await openDeskWithController();
  const well = await env.desk.run(['status', ...patiently]);
  assert.equal(well.code, 0, well.stdout + well.stderr);
  assert.match(well.stdout, /^COMPONENT +HEALTHY +VERSION +HOSTS\n/);
  assert.match(well.stdout, /\nhost agent +1\/1 +0\.1\.0 +host[12]\n/);
  assert.match(well.stdout, /\netcd +1\/1 +3\.5 +host[12]\*\n/);
  assert.match(well.stdout, /all is well: test, 1 host\n$/);
  assert.match((await env.desk.run(['doctor', ...patiently])).stdout, /^all is well/);

  for (const host of env.controller.hosts) host.findings = [disk];
  const ill = await env.desk.run(['status', ...patiently]);
  assert.equal(ill.code, 2);
  assert.match(
    ill.stdout,
    /critical: test, 1 host: 1 critical of 1 findings[^]*✗ host host1: its disk is 97 % full\n {4}free some\n$/,
  );
  const told = await env.desk.run(['doctor', ...patiently]);
  assert.equal(told.code, 2);
  assert.match(
    told.stdout,
    /^✗ host host1: its disk is 97 % full\n {2}since {2}\S+ \(\d+\w\)\n {2}why {4}builds stop\n {2}do {5}free some\n/,
  );

  for (const host of env.controller.hosts) host.findings = [{ ...disk, severity: 'warning' }];
  const warned = await env.desk.run(['status', '-o', 'json', ...patiently]);
  assert.equal(warned.code, 1);
  const parsed = JSON.parse(warned.stdout) as { health: string; findings: { what: string }[] };
  assert.deepEqual([parsed.health, parsed.findings.map(({ what }) => what)], ['warning', ['its disk is 97 % full']]);
});

test('a controller that does not answer is critical, and names what is left to ask', async () => {
  await using env = await openDeskWithController();
  const known = await loadClusters(env.desk.configDirectory);
  const [first] = known.clusters;
  assert.ok(first !== undefined);
  const away = { ...first, name: 'away', controllerUrl: await unusedUrl() };
  await saveClusters(env.desk.configDirectory, { ...known, clusters: [first, away] });
  const told = await env.desk.run(['status', '-c', 'away']);
  assert.equal(told.code, 2);
  assert.match(told.stdout, /^✗ controller: [^]*as root: flynn-host status, flynn-host doctor\n$/);
  const json = await env.desk.run(['doctor', '-c', 'away', '-o', 'json']);
  assert.equal((JSON.parse(json.stdout) as { health: string }).health, 'critical');
  const strange = { ...first, name: 'strange', key: 'a-key-of-nobody' };
  await saveClusters(env.desk.configDirectory, { ...known, clusters: [first, strange] });
  const refused = await env.desk.run(['status', '-c', 'strange']);
  assert.equal(refused.code, 2, 'who may not know how it is has not seen it work');
  assert.match(
    refused.stdout,
    /^✗ controller: [^\n]*\n {4}the cluster does not know this key, [^\n]*"flynn cluster add NAME URL KEY" sets another/,
  );
  await using stranger = await Desk.open();
  const unknown = await stranger.run(['status', '-o', 'json']);
  assert.equal(unknown.code, 2, 'nor who knows no cluster');
  assert.match((JSON.parse(unknown.stdout) as { error: string }).error, /no cluster is known here/);
  const wrong = await env.desk.run(['status', '-o', 'yaml']);
  assert.deepEqual([wrong.code, /no output "yaml"/.test(wrong.stderr)], [2, true]);
});

async function unusedUrl(): Promise<string> {
  const [port = 0] = await freePorts(1);
  return `http://127.0.0.1:${port}`;
}
