import assert from 'node:assert/strict';
import { request } from 'node:https';
import { join } from 'node:path';
import { test } from 'node:test';
import { commonRootKey } from '@flynn/bootstrap/rotation/rotation';
import type { Cluster } from '@flynn/bootstrap/settings';
import type { ClusterHost } from '@flynn/bootstrap/test-hosts/cluster-host';
import { waitFor } from '@flynn/kit/retry';
import { type Answer, answerTo } from '../answer.ts';
import { startSteadyLoad } from '../steady-load.ts';
import type { TestCluster } from '../test-cluster.ts';

const maxMs = 15 * 60_000;

export function describeRotation(theCluster: () => TestCluster): void {
  test('the root key is made anew, broken off and gone on with, while nobody who has the right one is refused', async () => {
    const cluster = theCluster();
    const { controllerKey: former } = await fileOf(cluster);
    const loads = [() => keyOfSteps(cluster), () => cluster.adminKey()].map((keyNow) => asking(cluster, keyNow));
    const begun = up(cluster, '--rotate-root-key');
    await waitFor(async () => (await findings(cluster)).includes('root-key'), {
      what: 'the change to be told',
      deadlineMs: 480_000,
      intervalMs: 300,
    });
    for (const pid of cluster.host.pids('--rotate-root-key')) process.kill(pid, 'SIGKILL');
    await begun;
    const between = await fileOf(cluster);
    assert.ok(between.rootKeyChange !== undefined && between.controllerKey !== former);
    // A controller of before, which knows of nothing, may be asked for a moment more.
    const told = async () => (await cluster.flynn(['doctor'], { code: 'any' })).stdout;
    await waitFor(async () => /root key[^]*former one is still good/.test(await told()), {
      what: 'doctor to tell of it',
      deadlineMs: 240_000,
      intervalMs: 500,
    });

    const { code, stdout, stderr } = await up(cluster);
    assert.equal(code, 0, `${stdout}${stderr}`);
    const { controllerKey, rootKeyChange } = await fileOf(cluster);
    assert.deepEqual([controllerKey, rootKeyChange], [between.controllerKey, undefined], 'the key that was begun with');
    assert.ok(stdout.includes(`flynn cluster add ${between.name} https://`) && stdout.includes(` ${controllerKey} `));
    for (const load of loads) {
      const { requests, failures } = await load.stop();
      assert.ok(requests > 20, `${requests} requests`);
      assert.deepEqual(failures, []);
    }
    const refused = await ask(cluster, former);
    assert.equal(refused.status, 401);
    assert.match(refused.body, /not the root key of this cluster, or not any more/);
    assert.equal((await ask(cluster, controllerKey)).status, 200);
  });

  test('afterwards everything goes on, no release has the former key, and the audit trail has it', async () => {
    const cluster = theCluster();
    const { controllerKey } = await fileOf(cluster);
    assert.ok(!(await findings(cluster)).includes('root-key'));
    const releases = (await cluster.flynn(['-a', 'controller', 'release', '--json'])).stdout;
    const keys = [...releases.matchAll(/"FLYNN_CONTROLLER_KEY": ?"([^"]*)"/g)].map((match) => match[1]);
    assert.deepEqual(new Set(keys), new Set([controllerKey]));
    const { stdout: audit } = await cluster.flynn(['audit', '-n', '1000']);
    assert.match(audit, /rotate the root key on \S+ +done/);
    assert.ok(!audit.includes(controllerKey));
    const { stdout } = await up(cluster);
    assert.ok(!stdout.includes(controllerKey), 'it is shown once');
    const checkout = await cluster.checkout('express', 'rotated');
    await checkout.push();
    await checkout.untilAnswers();
    await checkout.flynn(['delete', '--yes']);
  });
}

/** Where other hosts are. */
export function describeRotationElsewhere(theCluster: () => TestCluster): void {
  test('hosts that joined hear of a root key that was made anew by their own `up`, and are told where it is made', async () => {
    const cluster = theCluster();
    const [, second] = cluster.hosts;
    assert.ok(second);
    const there = await up(cluster, '--rotate-root-key', second);
    assert.notEqual(there.code, 0);
    assert.match(
      there.stderr,
      /another host keeps the platform of [^]*: the root key is made anew on the host that keeps it/,
    );
    const rotated = await up(cluster, '--rotate-root-key');
    assert.equal(rotated.code, 0, `${rotated.stdout}${rotated.stderr}`);
    const { controllerKey } = await fileOf(cluster);
    const env = { FLYNN_CONFIG_DIR: join(second.directory, 'config'), HOME: second.directory };
    const refused = await cluster.flynn(['apps'], { host: second, env, code: 1 });
    assert.match(refused.stderr, /not any more: .*npm run up/);
    const again = await up(cluster, undefined, second);
    assert.equal(again.code, 0, `${again.stdout}${again.stderr}`);
    await cluster.flynn(['apps'], { host: second, env });
    assert.equal((await second.readCluster())?.controllerKey, controllerKey);
  });
}

function up(cluster: TestCluster, flag?: string, host: ClusterHost = cluster.host) {
  const env = host === cluster.host ? { env: cluster.env } : {};
  return host.tryScript('up', flag === undefined ? [] : [flag], env);
}

async function fileOf(cluster: TestCluster): Promise<Cluster> {
  const file = await cluster.host.readCluster();
  assert.ok(file);
  return file;
}

async function keyOfSteps(cluster: TestCluster): Promise<string> {
  return commonRootKey(await fileOf(cluster));
}

function asking(cluster: TestCluster, keyNow: () => Promise<string>) {
  const get = async (signal: AbortSignal): Promise<Answer> => {
    const key = await keyNow();
    const answer = await ask(cluster, key, signal);
    // One that another took the place of meanwhile says nothing.
    return (await keyNow()) === key ? answer : { ...answer, status: 200 };
  };
  return startSteadyLoad(get, { lanes: 1, pauseMs: 100, maxMs });
}

async function findings(cluster: TestCluster): Promise<string[]> {
  const { status, body } = await ask(cluster, await keyOfSteps(cluster), undefined, '/status');
  if (status !== 200) return [];
  const told = JSON.parse(body) as { findings: { check: string }[] };
  return told.findings.map(({ check }) => check);
}

/** Over TLS, as the flynn command does. */
async function ask(cluster: TestCluster, key: string, signal?: AbortSignal, path = '/apps'): Promise<Answer> {
  const { authority } = await fileOf(cluster);
  const name = `controller.${cluster.domain}`;
  return answerTo(
    request({
      host: cluster.host.address,
      port: 443,
      servername: name,
      ca: authority.certificate,
      agent: false,
      path,
      headers: { host: name, authorization: `Bearer ${key}` },
    }),
    signal,
  );
}
