/** A cluster brought back from its backup, on a machine that has nothing of it. */
import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Checkout } from '../checkout.ts';
import { TestCluster } from '../test-cluster.ts';

/** No other host of the suites has it. */
const otherIndex = 60;

type Described = { kind: string; name: string };

/** All that people made, as files say it, by kind and name. */
async function objectsOf(cluster: TestCluster): Promise<Map<string, unknown>> {
  const { stdout } = await cluster.flynn(['get', 'all', '-o', 'json']);
  return new Map((JSON.parse(stdout) as Described[]).map((one) => [`${one.kind} ${one.name}`, one]));
}

/** Every byte of the slug that an app runs, by their digests. */
async function exportedFrom(cluster: TestCluster, app: string): Promise<string> {
  const folder = join(cluster.directory, 'exported', app);
  await mkdir(folder, { recursive: true });
  const unpack = `${cluster.flynnCommand} -a ${app} export - | tar -xf - -C ${folder}`;
  const { stdout } = await cluster.exec([
    'sh',
    '-ec',
    `${unpack}; cd ${folder}; find layers -type f | sort | xargs sha256sum`,
  ]);
  assert.match(stdout, /^[0-9a-f]{64} +layers\//, 'it has a slug');
  return stdout;
}

async function encryptionOf(cluster: TestCluster): Promise<string | undefined> {
  const { stdout } = await cluster.exec([cluster.hostCommand, 'network']);
  return /^encryption: (.*)$/m.exec(stdout)?.[1];
}

export function describeRestore(theCluster: () => TestCluster): void {
  let app: Checkout;
  let file: string;

  test('a backup of a cluster is one file that is whole', async () => {
    const cluster = theCluster();
    app = await cluster.checkout('static', 'kept');
    await app.push();
    await app.flynn(['env', 'set', 'GREETING=of before ü', 'EMPTY=']);
    await app.flynn(['scale', 'web=2']);
    await app.flynn(['route', 'add', 'http', 'kept.example.com']);
    file = join(cluster.directory, 'cluster.backup');
    await cluster.exec([cluster.hostCommand, 'network', 'encrypt']);
    await cluster.flynn(['cluster', 'backup', '-o', file]);
    await cluster.exec([cluster.hostCommand, 'network', 'decrypt']);
    await cluster.flynn(['cluster', 'backup', 'verify', file]);
  });

  test('on an empty host it is the same cluster again: what people made of it, and apps that answer', async () => {
    const cluster = theCluster();
    await using other = await TestCluster.create(otherIndex);
    const { code, stdout, stderr } = await other.host.tryScript('up', ['--from-backup', file], { env: other.env });
    assert.equal(code, 0, stdout + stderr);
    assert.match(stdout, /is restored as it was at[^]*Between its hosts the cluster is encrypted, as it was/);
    assert.equal(await encryptionOf(other), 'on');
    const [made, restored] = [await objectsOf(cluster), await objectsOf(other)];
    assert.ok(made.has('App kept') && made.has('App hello'), [...made.keys()].join());
    for (const [name, object] of made) assert.deepEqual(restored.get(name), object);
    // Who types there may push from there.
    const more = [...restored.keys()].filter((name) => !made.has(name) && !name.startsWith('Key '));
    assert.deepEqual(more, []);
    assert.equal(await exportedFrom(other, 'kept'), await exportedFrom(cluster, 'kept'));
    assert.equal((await other.flynn(['-a', 'kept', 'env', 'get', 'GREETING'])).stdout, 'of before ü');
    await other.untilRunning('kept', 'web', 2);
    const before = await cluster.get('kept');
    assert.equal(before.status, 200);
    for (const name of ['kept', 'kept.example.com', 'hello']) await other.untilAnswers(name);
    assert.equal((await other.get('kept.example.com')).body, before.body);
    assert.equal(
      (await other.untilAnswers('guestbook')).body,
      (await cluster.get('guestbook')).body,
      'what its database has',
    );
    assert.equal(await other.adminKey(), await cluster.adminKey(), 'the root key that people have');
    // Done again it changes nothing, nor what people have said since.
    await other.exec([other.hostCommand, 'network', 'decrypt']);
    const again = await other.host.tryScript('up', ['--from-backup', file], { env: other.env });
    assert.equal(again.code, 0, again.stdout + again.stderr);
    assert.equal(await encryptionOf(other), 'off');
    await cluster.flynn(['-a', 'kept', 'delete', '-y']);
  });
}
