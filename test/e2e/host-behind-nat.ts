/** A host behind NAT is a host like any other, though nobody reaches it. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { ClusterHost } from '@flynn/bootstrap/test-hosts/cluster-host';
import { waitFor } from '@flynn/kit/retry';
import type { TestCluster } from '../test-cluster.ts';

/** Of a cluster of two: the first has an address of its own and is up, the second is behind NAT and leaves in the end. */
export function describeHostBehindNat(theCluster: () => TestCluster): void {
  let cluster: TestCluster;
  let outside: ClusterHost;
  let inside: ClusterHost;
  before(() => {
    cluster = theCluster();
    const [first, second] = cluster.hosts;
    assert.ok(first && second);
    [outside, inside] = [first, second];
  });

  /** Until the app's one job is on that host, and answers through the router outside. */
  async function untilAnswersFrom(app: string, host: ClusterHost): Promise<void> {
    await waitFor(
      async () => {
        const running = (await cluster.jobs(app)).filter(({ type, state }) => type === 'web' && state === 'running');
        return running.length === 1 && running[0]?.id.startsWith(`${host.name}-`) === true;
      },
      { what: `${app} to be on ${host.name} alone`, deadlineMs: 180_000, intervalMs: 300 },
    );
    await cluster.untilAnswers(app);
  }

  test('it is refused as long as it does not say so, and told how; nothing is left of it in the cluster', async () => {
    const token = (await outside.up(['--token'])).trim();
    const { stderr } = await cluster.join(inside, token, { code: 1 });
    assert.match(stderr, /does not reach this machine at 192\.0\.2\.242:1113.*--behind-nat/);
    assert.ok(!(await cluster.storeKeys()).includes(`/flynn/network/hosts/${inside.name}`));
  });

  test('it joins by connections that it opens itself, and takes jobs', async () => {
    await cluster.joinOthers();
    const { stdout } = await cluster.flynn(['host', 'show', inside.name]);
    assert.match(stdout, new RegExp(`^attribute behind-nat +${inside.name}$`, 'm'));
    // It has no router, for nobody would come in by it.
    assert.equal((await cluster.containers('router', 'web', inside)).length, 0);
    await cluster.flynn(['-a', 'hello', 'constraint', 'set', 'web', `behind-nat=${inside.name}`]);
    await untilAnswersFrom('hello', inside);
  });

  test('its jobs are logged, entered and run like any', async () => {
    await cluster.get('hello', '/said-at-home');
    const search = ['-a', 'hello', 'log', '--raw', '--search', 'said-at-home'];
    await waitFor(async () => (await cluster.flynn(search, { code: 'any' })).stdout.includes('GET /said-at-home'), {
      what: 'what it wrote to be in the log',
      deadlineMs: 180_000,
      intervalMs: 500,
    });
    const { stdout } = await cluster.flynn(['-a', 'hello', 'exec', 'sh', '-c', 'echo $FLYNN_HOST_ID']);
    assert.equal(stdout.trim(), inside.name);
    const run = ['-a', 'hello', 'run', 'sh', '-c', 'cat; exit 7'];
    assert.equal((await cluster.flynn(run, { input: 'one\ntwo\n', code: 7 })).stdout, 'one\ntwo\n');
  });

  test('a host that lost power there is back by itself, and so is what runs on it', async () => {
    await inside.cutPower();
    await waitFor(async () => (await cluster.get('hello')).status >= 500, {
      what: 'its app to be gone',
      deadlineMs: 180_000,
      intervalMs: 500,
    });
    await inside.boot();
    await untilAnswersFrom('hello', inside);
  });

  test('it leaves, and its jobs go elsewhere', async () => {
    await cluster.flynn(['-a', 'hello', 'constraint', 'set', 'web', 'behind-nat=']);
    await cluster.flynn(['host', 'drain', inside.name, '--deadline', '30s']);
    await untilAnswersFrom('hello', outside);
    await cluster.down({ host: inside });
    assert.deepEqual(await leftOn(inside), []);
    assert.ok(!(await cluster.storeKeys()).includes(`/flynn/network/hosts/${inside.name}`));
  });
}
/** Of the cluster's network. */
async function leftOn(host: ClusterHost): Promise<string[]> {
  const { stdout } = await host.exec(['ip', '-o', 'link', 'show']);
  return stdout.split('\n').flatMap((line) => /^\d+: ((?:flynn|flwg)[^:@]*)/.exec(line)?.[1] ?? []);
}
