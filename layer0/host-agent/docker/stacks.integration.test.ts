/** Stacks on a real engine: what jobs of it see, and what of its base it keeps. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { zstdCompressSync } from 'node:zlib';
import { hasCode } from '@flynn/kit/errors';
import { testLabels } from '@flynn/kit/testing-label';
import Docker from 'dockerode';
import { collect, endOf, specOf } from '../engine/conformance.ts';
import { label } from '../engine/labels.ts';
import { layerWith, withDocker } from './blobs-fixture.ts';
import { testImage } from './fixture.ts';

const docker = new Docker({ socketPath: '/var/run/docker.sock' });

test('a stack has what its layers add and without what they take away, as its base says it is to run', (t) =>
  withDocker(async ({ engine, cluster, network }, store) => {
    const made = await docker.createContainer({
      Image: testImage,
      Cmd: ['true'],
      Env: ['FROM_BASE=1'],
      User: '1000',
      Labels: { ...testLabels, 'of.base': 'yes' },
    });
    t.after(() => made.remove({ force: true }));
    const [repo, tag] = ['flynn-test/stack-base', cluster];
    await made.commit({ repo, tag, changes: 'ONBUILD RUN exit 1' });
    const base = `${repo}:${tag}`;
    t.after(() => docker.getImage(base).remove({ force: true }));
    const [one, two, without] = await Promise.all([
      layerWith('app/one', cluster),
      layerWith('app/two', cluster),
      layerWith('app/.wh.one', ''),
    ]);
    const [lower, upper, top] = [one, two, without].map((layer) => store.put(zstdCompressSync(layer)));
    assert.ok(lower !== undefined && upper !== undefined && top !== undefined);

    await engine.ensureImage({ base, layers: [lower, upper] });
    const ref = await engine.ensureImage({ base, layers: [lower, upper, top] });
    assert.deepEqual(
      store.fetched,
      [lower, upper, top].map(({ digest }) => digest),
      'what is below is fetched once',
    );
    const { Config, RootFS, Parent } = await docker.getImage(ref).inspect();
    const below = await docker.getImage(base).inspect();
    assert.equal(Parent, '', 'it was loaded, not built');
    assert.deepEqual(Config.Labels, {
      ...below.Config.Labels,
      [label.cluster]: cluster,
      [label.stack]: store.fetched.join(','),
    });
    assert.deepEqual([Config.User, Config.OnBuild ?? null], ['1000', null]);
    assert.ok(Config.Env.includes('FROM_BASE=1'));
    assert.deepEqual(RootFS.Layers?.slice(0, -3), below.RootFS.Layers);

    const subject = { engine, imageName: testImage, network: { type: 'bridge', name: network.name, dns: [] } } as const;
    const spec = await specOf(subject, 'ls -A /app; cat /app/two');
    const id = await engine.create({ ...spec, imageRef: ref });
    await engine.start(id);
    assert.equal((await endOf(engine, id)).exitCode, 0);
    const lines = (await collect(engine.logs(id, { follow: false }))).map(({ message }) => message);
    assert.deepEqual(lines, ['two', cluster]);
  }));

test('a layer that is damaged leaves only what is below it', () =>
  withDocker(async ({ engine, cluster }, store) => {
    const lower = store.put(zstdCompressSync(await layerWith('lower', cluster)));
    const upper = store.put(zstdCompressSync(await layerWith('upper', cluster)));
    const whole = store.stored.get(upper.digest) ?? Buffer.alloc(0);
    store.stored.set(upper.digest, whole.subarray(0, -1));
    const stack = { base: testImage, layers: [lower, upper] };
    await assert.rejects(engine.ensureImage(stack), (error) => hasCode(error, 'invalid'));
    assert.deepEqual(
      (await engine.listImages()).map(({ labels }) => labels[label.stack]),
      [lower.digest],
    );
    store.stored.set(upper.digest, whole);
    await engine.ensureImage(stack);
    assert.equal((await engine.listImages()).length, 2);
  }));
