/** A job with a keyspace, its host's door, and the store behind that. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { runProgram } from '@flynn/bootstrap/program';
import { newId } from '@flynn/kit/ids';
import { waitFor } from '@flynn/kit/retry';
import { newSecret } from '@flynn/kit/secrets';
import { workloadChange, workloadRemoval } from '@flynn/scheduler/evaluations';
import type { TestCluster } from '../test-cluster.ts';

const name = 'keeper';
const prefix = `/flynn/keyspaces/${name}/`;
const base64 = (text: string): string => Buffer.from(text).toString('base64');
const context = () => ({ now: Date.now(), newId });

/** Run in the job's network: each of `asked` in turn, with the token that the first is answered with. */
const program = `
  const { url, asked } = JSON.parse(process.argv[1]);
  let token = '';
  const said = [];
  for (const [path, body] of asked) {
    const headers = { authorization: token, 'content-type': 'application/json' };
    const answer = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body), signal: AbortSignal.timeout(20_000) });
    const told = await answer.json();
    token = told.token ?? token;
    said.push(told.error ?? (told.kvs ?? [told]).map(({ value }) => value ?? 'done').join());
  }
  console.log(JSON.stringify(said));`;

export function describeKeyspaces(theCluster: () => TestCluster): void {
  test('a job with a keyspace has its keys at the door of its host, and nothing else of the store', async () => {
    const cluster = theCluster();
    const password = newSecret();
    const keyDigest = `sha256:${createHash('sha256').update(password).digest('hex')}`;
    await using store = await cluster.store();
    const template = {
      image: { name: await imageOf(cluster) },
      entrypoint: ['/bin/sleep', '1000000'],
      resources: { memoryBytes: 64 * 2 ** 20, cpuMillis: 10 },
      keyspace: { name, keyDigest },
    };
    const workload = { id: name, kind: 'service', count: 1, version: 'v1', template };
    await store.transact({ then: workloadChange(workload, context()) });
    const job = await waitFor(() => jobOf(cluster), { what: 'the job to run', deadlineMs: 120_000, intervalMs: 500 });
    const key = base64(`${prefix}leader`);
    const asked = [
      ['/v3/auth/authenticate', { name, password }],
      ['/v3/kv/put', { key, value: base64('one') }],
      ['/v3/kv/range', { key }],
      ['/v3/kv/range', { key: base64('/flynn/cell/hosts/'), range_end: base64('/flynn/cell/hosts0') }],
      ['/v3/kv/deleterange', { key: base64('/'), range_end: base64('\0') }],
    ];
    const command = [process.execPath, '--input-type=module', '-e', program, JSON.stringify({ url: job.url, asked })];
    // Its rules are there within a second.
    const said = await waitFor(
      () => runProgram('nsenter', [`--net=/proc/${job.pid}/ns/net`, ...command], { timeoutMs: 60_000 }),
      {
        what: 'the door to answer',
        deadlineMs: 120_000,
        intervalMs: 500,
      },
    );
    const denied = 'etcdserver: permission denied';
    assert.deepEqual(JSON.parse(said), ['done', 'done', base64('one'), denied, denied]);
    assert.equal((await store.get(`${prefix}leader`))?.value, 'one');

    await store.transact({ then: [...workloadRemoval(name, context()), { deletePrefix: prefix }] });
  });
}

/** One that every host has. */
async function imageOf(cluster: TestCluster): Promise<string> {
  const { stdout } = await cluster.docker('images', '--format', '{{.Repository}}:{{.Tag}}', 'flynn/node');
  const [image] = stdout.trim().split('\n');
  assert.ok(image);
  return image;
}

async function jobOf(cluster: TestCluster): Promise<{ pid: string; url: string } | undefined> {
  for (const host of cluster.hosts) {
    const filter = ['--filter', `label=flynn.workload=${name}`];
    const id = (await cluster.dockerOf(host, 'ps', '-q', ...filter)).stdout.trim();
    if (id === '') continue;
    const format = '{{.State.Pid}}{{range .Config.Env}}\n{{.}}{{end}}';
    const [pid = '', ...env] = (await cluster.dockerOf(host, 'inspect', '-f', format, id)).stdout.trim().split('\n');
    const start = 'FLYNN_KEYSPACE_URL=';
    return { pid, url: env.find((line) => line.startsWith(start))?.slice(start.length) ?? '' };
  }
  return undefined;
}
