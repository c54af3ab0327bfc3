/** Apps that are images: built from a Dockerfile, or pushed as they are. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import type { Checkout } from '../checkout.ts';
import type { TestCluster } from '../test-cluster.ts';

export function describeImages(theCluster: () => TestCluster): void {
  let app: Checkout;

  /** What builds make and nobody keeps: steps, and networks of theirs. */
  async function assertNothingBuilds(): Promise<void> {
    const cluster = theCluster();
    const networks = await cluster.docker('network', 'ls', '-q', '--filter', 'label=flynn.build');
    assert.equal(networks.stdout, '');
    const { stdout } = await cluster.docker('ps', '-a', '--format', '{{.Names}}');
    assert.deepEqual(
      stdout.split('\n').filter((name) => name !== '' && !name.startsWith('flynn-')),
      [],
    );
  }

  test('a pushed Dockerfile is built in stages, and listens where it says', async () => {
    app = await theCluster().checkout('dockerfile');
    const { stderr } = await app.push();
    assert.match(stderr, /-----> Dockerfile app detected/);
    assert.match(stderr, /Step 4\/10 : RUN node --check/);
    assert.match(stderr, /=====> Application deployed/);
    assert.equal((await app.untilAnswers()).body, 'Hello from a Dockerfile\n');
    await app.flynn(['env', 'set', 'GREETING=Hello, again']);
    await app.commit('the same, with an argument');
    const again = await app.push();
    assert.match(again.stderr, /---> Using cache/);
    assert.match(again.stderr, /layer of \S+: there already/);
    await app.untilSays('Hello, again\n');
    await assertNothingBuilds();
  });

  test('a step that fails is told with its last lines, and the old release keeps serving', async () => {
    const good = await app.read('Dockerfile');
    await app.write('Dockerfile', good.replace('USER nobody', 'RUN echo the last words; exit 3'));
    await app.commit('a step that fails');
    const failed = await app.push({ code: 1 });
    assert.match(failed.stderr, /the last words/);
    assert.match(failed.stderr, /non-zero code: 3/);
    await app.write('Dockerfile', good);
    await app.commit('as it was');
    assert.equal((await app.get()).body, 'Hello, again\n');
    await assertNothingBuilds();
  });

  test('a build that is cancelled ends, and leaves nothing behind', async () => {
    const good = await app.read('Dockerfile');
    await app.write('Dockerfile', good.replace('USER nobody', 'RUN echo waiting; sleep 3600'));
    await app.commit('a step that waits');
    const pushing = app.push({ code: 'any' });
    const building = await waitFor(
      async () => {
        const { stdout } = await app.flynn(['op', 'list', '--live', '--json']);
        const live = JSON.parse(stdout) as { id: string; kind: string; state: string }[];
        const found = live.find(({ kind, state }) => kind === 'build' && state === 'running');
        const { stdout: log } = found === undefined ? { stdout: '' } : await app.flynn(['op', 'log', found.id]);
        return /^ +waiting$/m.test(log) ? found : undefined;
      },
      { what: 'the step to wait', deadlineMs: 240_000, intervalMs: 500 },
    );
    await app.flynn(['op', 'cancel', building.id]);
    const pushed = await pushing;
    assert.notEqual(pushed.code, 0);
    assert.match(pushed.stderr, /The build was cancelled/);
    await waitFor(() => assertNothingBuilds().then(() => true), { what: 'the build to be gone', deadlineMs: 60_000 });
    await app.write('Dockerfile', good);
    await app.commit('as it was');
    assert.equal((await app.get()).body, 'Hello, again\n');
  });

  test('an image is pushed without a registry, its layers once, and gone back to', async () => {
    const cluster = theCluster();
    const { stdout: ref } = await cluster.docker('images', '--format', '{{.Repository}}:{{.Tag}}', 'flynn-*/build');
    const built = ref.split('\n').find((line) => line !== '' && !/-\d+$/.test(line)) ?? '';
    await app.flynn(['create', 'pushed', '-r', '']);
    const env = { DOCKER_HOST: `unix://${cluster.host.dockerSocket}` };
    const pushed = await app.flynn(['-a', 'pushed', 'image', 'push', built], { env });
    assert.match(pushed.stdout, /layer 1\/\d+ .* there already/);
    assert.match(pushed.stdout, /=====> Application deployed/);
    assert.match((await cluster.untilAnswers('pushed')).body, /^Hello/);
    const digest = /^image (sha256:\S+)$/m.exec(pushed.stdout)?.[1] ?? '';
    const line = `worker=echo working; exec sleep 600`;
    await app.flynn(['-a', 'pushed', 'image', 'push', built, '-p', line], { env });
    await app.flynn(['-a', 'pushed', 'scale', 'worker=1']);
    await cluster.untilRunning('pushed', 'worker', 1);
    await app.flynn(['-a', 'pushed', 'rollback']);
    assert.match((await cluster.untilAnswers('pushed')).body, /^Hello/);
    const deployed = await app.flynn(['-a', 'pushed', 'deploy', '--image', digest]);
    assert.match(deployed.stdout, /v3 created[\s\S]*=====> Application deployed/);
  });
}
