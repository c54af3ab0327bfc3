/** Four hosts under load, one without etcd: who signs all certificates of the cluster is made anew. */
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { request } from 'node:https';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import type { ClusterHost } from '@flynn/bootstrap/test-hosts/cluster-host';
import { certificatesIn, fingerprintOf, parseCertificate } from '@flynn/kit/certificate';
import { waitFor } from '@flynn/kit/retry';
import { type Answer, answerTo } from '../answer.ts';
import { startSteadyLoad } from '../steady-load.ts';
import { TestCluster } from '../test-cluster.ts';

const maxMs = 25 * 60_000;

suite('the authority made anew', () => {
  let cluster: TestCluster;
  before(async () => {
    cluster = await TestCluster.create(13, { hosts: 4 });
    await cluster.up();
  });
  after(() => cluster[Symbol.asyncDispose]());

  test('the authority is made anew, broken off and gone on with, while nobody is refused, whoever knows the former included', async () => {
    const { authority: former, controllerKey } = await fileOf(cluster);
    const url = `https://controller.${cluster.domain}`;
    const pin = ['--pin', fingerprintOf(former.certificate)];
    await elsewhere(cluster, ['cluster', 'add', 'home', url, controllerKey, ...pin]);
    const loads = [
      startSteadyLoad((signal) => ask(cluster, former.certificate, signal), { lanes: 1, pauseMs: 100, maxMs }),
      startSteadyLoad((signal) => cluster.get('hello', '/', { signal }), { lanes: 1, pauseMs: 100, maxMs }),
    ];
    const begun = up(cluster, ['--rotate-authority']);
    await waitFor(async () => (await fileOf(cluster)).authorityChange?.phase === 'issuing', {
      what: 'the new one to issue',
      deadlineMs: 10 * 60_000,
      intervalMs: 300,
    });
    for (const pid of cluster.host.pids('--rotate-authority')) process.kill(pid, 'SIGKILL');
    await begun;
    const between = await fileOf(cluster);
    const doctor = await elsewhere(cluster, ['doctor']);
    assert.match(`${doctor.stdout}${doctor.stderr}`, /authority: it is being made anew/);
    assert.equal(between.authorityChange?.phase, 'issuing');
    const gone = await up(cluster, []);
    assert.equal(gone.code, 0, `${gone.stdout}${gone.stderr}`);
    const { authority, authorityChange, alsoTrusted } = await fileOf(cluster);
    assert.deepEqual([authority, authorityChange, alsoTrusted], [between.authority, undefined, undefined]);
    assert.notEqual(fingerprintOf(authority.certificate), fingerprintOf(former.certificate));
    for (const load of loads) {
      const { requests, failures } = await load.stop();
      assert.ok(requests > 20, `${requests} requests`);
      assert.deepEqual(failures, []);
    }
    const wanted = fingerprintOf(authority.certificate);
    for (const host of cluster.hosts) {
      const [trusted, own] = await Promise.all(
        ['tls/authority.pem', 'tls/host.pem'].map((file) => readFile(join(host.stateDir, file), 'utf8')),
      );
      assert.deepEqual(certificatesIn(trusted ?? '').map(fingerprintOf), [wanted], host.name);
      assert.ok(parseCertificate(own ?? '').verify(parseCertificate(authority.certificate).publicKey), host.name);
      assert.deepEqual(await filesWith(host, former.privateKey), [], host.name);
    }
    await cluster.untilHealthy();
    assert.ok(!(await elsewhere(cluster, ['doctor'])).stdout.includes('authority'));
    const { stdout: known } = await elsewhere(cluster, ['cluster', '--json']);
    assert.match(known, new RegExp(`"authority": "${wanted}"`));
    const { stdout: releases } = await cluster.flynn(['-a', 'controller', 'release', '--json']);
    assert.ok(!releases.includes(JSON.stringify(former.certificate).slice(40, 140)));
    const { stdout: audit } = await cluster.flynn(['audit', '-n', '1000']);
    assert.match(audit, /rotate the authority on \S+ +done/);
    const checkout = await cluster.checkout('express', 'after');
    const [, second] = cluster.hosts;
    const again = await up(cluster, [], second);
    assert.equal(again.code, 0, `${again.stdout}${again.stderr}`);
    assert.ok(checkout !== undefined);
  });

  test('a host that was away meanwhile knows nobody, says so, and is one again with a token', async () => {
    const away = cluster.hosts.find((host) => !host.hasStore());
    assert.ok(away);
    const { authority: former, authorityRound: round = 0 } = await fileOf(cluster);
    const before = await away.readCluster();
    const { stdout: formerToken } = await up(cluster, ['--token']);
    const changing = up(cluster, ['--rotate-authority']);
    await waitFor(async () => (await fileOf(cluster)).authorityRound === round + 1, {
      what: 'the change to begin',
      deadlineMs: 5 * 60_000,
      intervalMs: 300,
    });
    await away.cutPower();
    const changed = await changing;
    assert.equal(changed.code, 0, `${changed.stdout}${changed.stderr}`);
    await away.boot();
    const alone = await up(cluster, [], away);
    assert.equal(alone.code, 1, alone.stdout);
    assert.match(alone.stderr, /made anew[^]*--token[^]*--join/);
    const { stdout: token } = await up(cluster, ['--token']);
    await cluster.join(away, token.trim());
    await cluster.untilHealthy();
    const { authority } = await fileOf(cluster);
    const after = await away.readCluster();
    assert.deepEqual(after?.authority, authority);
    assert.deepEqual([after?.hostId, after?.subnet, after?.hasPlatform], [before?.hostId, before?.subnet, false]);
    assert.deepEqual(await filesWith(away, former.privateKey), []);
    const late = await cluster.join(away, formerToken.trim(), { code: 1 });
    assert.match(late.stderr, /another authority by now/);
  });
});

async function fileOf(cluster: TestCluster) {
  const file = await cluster.host.readCluster();
  assert.ok(file);
  return file;
}

/** As on another computer, which was told of the cluster before. */
function elsewhere(cluster: TestCluster, args: readonly string[]) {
  return cluster.flynn(args, { code: 'any', env: { FLYNN_CONFIG_DIR: join(cluster.directory, 'elsewhere') } });
}

/** Of what bootstrap and the agent keep of the cluster. */
async function filesWith(host: ClusterHost, privateKey: string): Promise<string[]> {
  const [, , line = privateKey] = privateKey.split('\n');
  const files = (await readdir(host.stateDir, { withFileTypes: true, recursive: true })).filter((entry) =>
    entry.isFile(),
  );
  const found = await Promise.all(
    files.map(async ({ parentPath, name }) => {
      const path = join(parentPath, name);
      return (await readFile(path, 'latin1').catch(() => '')).includes(line) ? [path] : [];
    }),
  );
  return found.flat();
}

function up(cluster: TestCluster, args: readonly string[], host: ClusterHost = cluster.host) {
  return host.tryScript('up', args, host === cluster.host ? { env: cluster.env } : {});
}

/** Over TLS, as a flynn command does that knows this authority. */
async function ask(cluster: TestCluster, ca: string, signal?: AbortSignal): Promise<Answer> {
  const { controllerKey } = await fileOf(cluster);
  const name = `controller.${cluster.domain}`;
  const headers = { host: name, authorization: `Bearer ${controllerKey}` };
  const to = { host: cluster.host.address, port: 443, servername: name, ca, agent: false, path: '/apps', headers };
  return answerTo(request(to), signal);
}
