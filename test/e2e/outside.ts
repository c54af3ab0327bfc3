/**
 * A person and a runner in an office behind NAT, and a cluster that keeps no logins of registries, end to end: what is claimed of
 * connections and of secrets is of whole processes, networks and disks, so kernels and memories are asked.
 */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { cp } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { runProgram } from '@flynn/bootstrap/machine/program';
import { waitFor } from '@flynn/kit/retry';
import { ConnectionWatch } from '../connection-watch.ts';
import type { TestCluster } from '../test-cluster.ts';
import { Office } from './office.ts';
import { imageWith } from './registry-image.ts';

const login = { username: 'deployer', password: 'correct-horse-battery-staple' };
const encoded = Buffer.from(`${login.username}:${login.password}`).toString('base64');
const samples = resolve(import.meta.dirname, '../apps');
const memorySearch = join(import.meta.dirname, 'memory-search.ts');

/** Of a cluster of one host, which is up. `index` is of the office's machine: see `TestHost`. */
export function describeOutside(theCluster: () => TestCluster, index: number): void {
  let cluster: TestCluster;
  let office: Office;
  let watch: ConnectionWatch;
  before(async () => {
    cluster = theCluster();
    office = await Office.open(cluster, index);
    watch = await ConnectionWatch.on(cluster.host);
  });
  after(async () => {
    await watch?.[Symbol.asyncDispose]();
    await office?.[Symbol.asyncDispose]();
  });

  test('the person comes in with one line and starts a runner there, which is all that carries operations out', async () => {
    const key = join(office.directory, 'id_ed25519');
    await office.run(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', key]);
    const added = await cluster.flynn(['user', 'add', 'ann', '--role', 'admin']);
    const [, line = ''] = /flynn (cluster add \S+ \S+ \S+ --pin \S+)/.exec(added.stdout) ?? [];
    await office.flynn(line.split(' '));
    await office.flynn(['key', 'add', `${key}.pub`]);
    await office.flynn(['-a', 'controller', 'env', 'set', 'FLYNN_REGISTRY_LOGINS_KEPT=refused']);
    const refused = await office.flynn(['registry', 'login', office.registry, '-u', login.username], { code: 1 });
    assert.match(refused.stderr, /keeps no logins of registries .*: flynn runner add ID/);
    const { stdout } = await office.flynn(['runner', 'add', 'office', '--labels', 'registry=team']);
    await office.startRunner(stdout, login);
    await office.flynn(['-a', 'runner', 'scale', 'runner=0']);
    await waitFor(async () => (await office.runnerLog()).includes('"registered"'), {
      what: 'the runner to be let in',
      deadlineMs: 60_000,
      intervalMs: 200,
    });
  });

  test('a push from there is built, released and deployed by it; log, run and exec tell of the app', async () => {
    const directory = join(office.directory, 'dockerfile');
    await cp(join(samples, 'dockerfile'), directory, { recursive: true });
    const git = (...args: string[]) => office.run(['git', ...args], { cwd: directory });
    await git('init', '--quiet', '--initial-branch=main');
    await git('add', '--all');
    await git('commit', '--quiet', '-m', 'first');
    await office.flynn(['create', 'dockerfile'], { cwd: directory });
    const pushed = await git('push', 'flynn', 'main');
    assert.match(pushed.stderr, /Step 4\/10 : RUN node --check[\s\S]*=====> Application deployed/);
    assert.equal((await cluster.untilAnswers('dockerfile')).body, 'Hello from a Dockerfile\n');
    const inApp = (...args: string[]) => office.flynn(['-a', 'dockerfile', ...args]);
    const operations = JSON.parse((await inApp('op', 'list', '--json')).stdout) as {
      state: string;
      runnerId: string;
    }[];
    assert.deepEqual(
      operations.map(({ state, runnerId }) => `${state} by ${runnerId}`),
      Array.from({ length: 3 }, () => 'complete by office'),
    );
    const ran = await office.flynn(['-a', 'dockerfile', 'run', 'sh', '-c', 'cat; exit 7'], { input: 'hi\n', code: 7 });
    assert.equal(ran.stdout, 'hi\n');
    const inside = await inApp('exec', 'sh', '-c', 'cat greeting');
    assert.equal(inside.stdout, 'Hello from a Dockerfile\n');
    await inApp('run', '--detached', 'echo', 'from within');
    await waitFor(async () => (await inApp('log', '-n', '20')).stdout.includes('from within'), {
      what: 'the line in the log',
      deadlineMs: 60_000,
      intervalMs: 500,
    });
  });

  test("an image of the office's own registry, which no host reaches, is deployed by the login that its runner has", async () => {
    const files = await imageWith(cluster, 'dockerfile', 'srv/greeting', 'Hello from a private registry\n');
    await office.startRegistry(files, login);
    const image = `${office.registry}/team/app:1.4`;
    // To the app that has the layers: those of others this runner comes by in the registry alone, which has none of them here.
    const deployed = await office.flynn(['-a', 'dockerfile', 'deploy', '--image', image, '--runner', 'registry=team']);
    assert.match(deployed.stdout, /layer of \S+ MB: there already[\s\S]*=====> Application deployed/);
    await waitFor(async () => (await cluster.get('dockerfile')).body === 'Hello from a private registry\n', {
      what: 'the image to answer',
      deadlineMs: 60_000,
      intervalMs: 200,
    });
  });

  test('nobody in the cluster has opened a connection to the office, the controller least of all', async () => {
    const controllers = await addressesOf('controller');
    const all = await watch.opened();
    const within = new Set([cluster.host.address, cluster.gateway, '127.0.0.1']);
    const isInside = (address: string): boolean => within.has(address) || address.startsWith('100.100.');
    assert.ok(
      all.some(({ from, to, port }) => from === office.outerAddress && to === cluster.host.address && port === 443),
    );
    const byController = all.filter(({ from }) => controllers.includes(from));
    assert.ok(byController.length > 0, 'the controller opens connections to others');
    assert.deepEqual(
      byController.filter(({ to }) => !isInside(to)),
      [],
    );
    const toOffice = async () => (await watch.opened()).filter(({ to }) => office.addresses.includes(to));
    assert.deepEqual(await toOffice(), []);
    // Had one been opened it would have been seen; and would have led to nothing.
    const [container = ''] = await cluster.containers('controller', 'web');
    const knock = `require('net').connect({ host: '${office.outerAddress}', port: 5000, timeout: 2000 }).on('connect', () => process.exit(0)).on('timeout', () => process.exit(1)).on('error', () => process.exit(1))`;
    const knocked = await cluster.exec(
      ['docker', '-H', `unix://${cluster.host.dockerSocket}`, 'exec', container, 'node', '-e', knock],
      { code: 'any' },
    );
    assert.equal(knocked.code, 1, knocked.stderr);
    const seen = await waitFor(
      async () => {
        const found = await toOffice();
        return found.length > 0 && found;
      },
      { what: 'the kernel to tell of it', deadlineMs: 60_000 },
    );
    assert.deepEqual(
      seen.map(({ from, port }) => [controllers.includes(from), port]),
      [[true, 5_000]],
    );
  });

  test('the login is in no place of the cluster: not in the store, opened; in no log; not in the memory of a controller', async () => {
    const isThere = (text: string): boolean => text.includes(login.password) || text.includes(encoded);
    await using store = await cluster.store();
    const { entries } = await store.list('/');
    const opened = entries.map(({ key, value }) => `${key} ${value}`);
    assert.ok(opened.some((entry) => entry.includes(office.registry)) && opened.some((entry) => entry.includes('ann')));
    assert.deepEqual(opened.filter(isThere), []);
    for (const app of ['controller', 'runner', 'blobstore', 'log-aggregator', 'git-receiver', 'router', 'dashboard']) {
      assert.ok(!isThere((await cluster.flynn(['-a', app, 'log', '-n', '10000'])).stdout), app);
    }
    assert.ok(!isThere((await cluster.flynn(['audit', '--json'])).stdout));
    assert.ok(!isThere(await office.runnerLog()));
    const { key = '' } = (await cluster.host.readCluster()) ?? {};
    let searched = 0;
    for (const type of ['web', 'worker']) {
      for (const container of await cluster.containers('controller', type)) {
        const { stdout } = await cluster.docker('top', container, '-eo', 'pid');
        for (const pid of stdout.match(/\d+/g) ?? []) {
          const found = await inMemory(pid, [key, login.password, encoded]).catch((error: unknown): string[] => {
            // One that ended meanwhile has no memory.
            if (existsSync(`/proc/${pid}`)) throw error;
            return [];
          });
          assert.ok(!found.includes(login.password) && !found.includes(encoded), `process ${pid} of the ${type}`);
          // Its init has nothing of anything.
          if (found.includes(key)) searched += 1;
        }
      }
    }
    assert.ok(searched >= 2, 'what a controller has is found');
  });

  async function addressesOf(app: string): Promise<string[]> {
    const { stdout } = await cluster.flynn(['-a', app, 'ps', '--json']);
    const jobs = JSON.parse(stdout) as { state: string; address?: string }[];
    return jobs.flatMap(({ address }) => address ?? []);
  }
}

async function inMemory(pid: string, texts: readonly string[]): Promise<string[]> {
  const input = JSON.stringify(texts);
  return JSON.parse(await runProgram(process.execPath, [memorySearch, pid], { input, timeoutMs: 120_000 })) as string[];
}
