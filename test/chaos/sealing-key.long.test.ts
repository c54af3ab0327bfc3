/** Three hosts, one of them away for a while: what secrets are sealed under is made anew. */
import assert from 'node:assert/strict';
import { readFile, readdir } from 'node:fs/promises';
import { request } from 'node:https';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import type { ClusterHost } from '@flynn/bootstrap/test-hosts/cluster-host';
import { waitFor } from '@flynn/kit/retry';
import { cellKeys, hostRecordSchema } from '@flynn/scheduler/cell';
import { sealKeyOf } from '@flynn/store/sealing/envelope';
import { readRing, sealedUnder } from '@flynn/store/sealing/ring';
import { type Answer, answerTo } from '../answer.ts';
import { startSteadyLoad } from '../steady-load.ts';
import { TestCluster } from '../test-cluster.ts';

const maxMs = 15 * 60_000;

suite('the sealing key made anew', () => {
  let cluster: TestCluster;
  before(async () => {
    cluster = await TestCluster.create(13, { hosts: 3 });
    await cluster.up();
  });
  after(() => cluster[Symbol.asyncDispose]());

  test('the sealing key is made anew, broken off and gone on with, while nobody is refused; a host that was away has it later', async () => {
    const away = cluster.hosts.at(-1);
    assert.ok(away && cluster.hosts.length === 3);
    const { sealingKey: former } = await fileOf(cluster);
    away.freezeAgent();
    await untilKeys(cluster, away, undefined);
    await cluster.untilHealthy('hello', [cluster.host]);
    await waitFor(async () => (await ask(cluster)).status === 200, { what: 'the API', deadlineMs: 120_000 });
    const loads = [
      startSteadyLoad((signal) => ask(cluster, signal), { lanes: 1, pauseMs: 100, maxMs }),
      startSteadyLoad((signal) => cluster.get('hello', '/', { signal }), { lanes: 1, pauseMs: 100, maxMs }),
    ];
    const begun = up(cluster, ['--rotate-sealing-key']);
    await waitFor(async () => (await told(cluster)).includes('sealing key'), {
      what: 'the change to be told',
      deadlineMs: 240_000,
      intervalMs: 300,
    });
    for (const pid of cluster.host.pids('--rotate-sealing-key')) process.kill(pid, 'SIGKILL');
    await begun;
    const between = await fileOf(cluster);
    assert.ok(between.sealingKeyChange !== undefined);
    const gone = await up(cluster, []);
    assert.equal(gone.code, 0, `${gone.stdout}${gone.stderr}`);
    const { sealingKey, sealingKeyChange } = await fileOf(cluster);
    assert.deepEqual([sealingKey, sealingKeyChange], [between.sealingKeyChange.next, undefined], 'as it was begun');
    for (const load of loads) {
      const { requests, failures } = await load.stop();
      assert.ok(requests > 20, `${requests} requests`);
      assert.deepEqual(failures, []);
    }
    away.thawAgent();
    for (const host of cluster.hosts) await untilKeys(cluster, host, [sealKeyOf(sealingKey).id]);
    await using store = await cluster.store();
    const ring = (await readRing(store))?.ring;
    assert.ok(ring !== undefined && sealedUnder(ring) === sealKeyOf(sealingKey).id && ring.keys.length === 1);
    for (const host of cluster.hosts) assert.deepEqual(await filesWith(host, former), [], host.name);
    const { stdout: releases } = await cluster.flynn(['-a', 'controller', 'release', '--json']);
    assert.ok(!releases.includes(former) && releases.includes(sealingKey));
    const { stdout: audit } = await cluster.flynn(['audit', '-n', '1000']);
    assert.match(audit, /rotate the sealing key on \S+ +done/);
    assert.ok(!(await told(cluster)).includes('sealing key'));
    const [, second] = cluster.hosts;
    const again = await up(cluster, [], second);
    assert.equal(again.code, 0, `${again.stdout}${again.stderr}`);
    assert.equal((await second?.readCluster())?.sealingKey, sealingKey);
  });
});

async function fileOf(cluster: TestCluster) {
  const file = await cluster.host.readCluster();
  assert.ok(file);
  return file;
}

/** Until the host says that it has these, or is gone. */
async function untilKeys(cluster: TestCluster, host: ClusterHost, ids: string[] | undefined): Promise<void> {
  await using store = await cluster.store();
  const what = `${host.name} to ${ids === undefined ? 'be away' : 'have the new key alone'}`;
  await waitFor(
    async () => {
      const entry = await store.get(cellKeys.host(host.name));
      if (ids === undefined) return entry === undefined;
      if (entry === undefined) return false;
      return hostRecordSchema.parse(JSON.parse(entry.value)).sealingKeyIds?.join() === ids.join();
    },
    { what, deadlineMs: 120_000, intervalMs: 300 },
  );
}

/** Of what bootstrap and the agent keep of the cluster. */
async function filesWith(host: ClusterHost, secret: string): Promise<string[]> {
  const files = (await readdir(host.stateDir, { withFileTypes: true })).filter((entry) => entry.isFile());
  const texts = await Promise.all(
    files.map(async ({ name }) => ({ name, text: await readFile(join(host.stateDir, name), 'utf8') })),
  );
  return texts.filter(({ text }) => text.includes(secret)).map(({ name }) => name);
}

function up(cluster: TestCluster, args: readonly string[], host: ClusterHost = cluster.host) {
  return host.tryScript('up', args, host === cluster.host ? { env: cluster.env } : {});
}

async function told(cluster: TestCluster): Promise<string[]> {
  const { status, body } = await ask(cluster, undefined, '/status');
  if (status !== 200) return [];
  const { findings } = JSON.parse(body) as { findings: { subject: string }[] };
  return findings.map(({ subject }) => subject);
}

/** Over TLS, as the flynn command does. */
async function ask(cluster: TestCluster, signal?: AbortSignal, path = '/apps'): Promise<Answer> {
  const { authority, controllerKey } = await fileOf(cluster);
  const name = `controller.${cluster.domain}`;
  const headers = { host: name, authorization: `Bearer ${controllerKey}` };
  const { certificate: ca } = authority;
  const to = { host: cluster.host.address, port: 443, servername: name, ca, agent: false, path, headers };
  return answerTo(request(to), signal);
}
