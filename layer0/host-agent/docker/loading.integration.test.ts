/** Whole images on a real engine: only what it lacks is fetched, and what arrives is what was asked for. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { zstdCompressSync } from 'node:zlib';
import { hasCode } from '@flynn/kit/errors';
import { type blobs, digestOf, layerWith, withDocker } from './blobs-fixture.ts';
import type { WholeImage } from './loading.ts';
import { label } from '../engine/labels.ts';

function imageOf(store: ReturnType<typeof blobs>, plainLayers: readonly Buffer[], config: object = {}): WholeImage {
  const rootfs = { type: 'layers', diff_ids: plainLayers.map(digestOf) };
  const architecture = process.arch === 'x64' ? 'amd64' : process.arch;
  const json = JSON.stringify({ os: 'linux', architecture, config: { Cmd: ['/none'], ...config }, rootfs });
  return {
    config: store.put(Buffer.from(json)),
    layers: plainLayers.map((layer) => store.put(zstdCompressSync(layer))),
  };
}

test('an image is loaded once, and the next one fetches only the layers that differ', () =>
  withDocker(async ({ engine, cluster }, store) => {
    const [base, one, two] = await Promise.all([
      layerWith('base', cluster),
      layerWith('one', cluster),
      layerWith('two', cluster),
    ]);
    const first = imageOf(store, [base, one], { Labels: { 'flynn.access': 'store' } });
    const [ref, same] = await Promise.all([engine.ensureImage(first), engine.ensureImage(first)]);
    assert.equal(ref, same);
    assert.equal(store.fetched.length, 3, 'configuration and two layers, once each');
    const [listed] = await engine.listImages();
    assert.deepEqual(listed?.labels, { [label.cluster]: cluster, [label.loaded]: first.config.digest });

    store.fetched.length = 0;
    const next = imageOf(store, [base, two]);
    await engine.ensureImage(next);
    assert.deepEqual(store.fetched, [next.config.digest, next.layers[1]?.digest]);
  }));

test('a layer that is damaged, missing or another one fails the image and leaves none', () =>
  withDocker(async ({ engine, cluster }, store) => {
    const layer = await layerWith('file', cluster);
    const image = imageOf(store, [layer]);
    const digest = image.layers[0]?.digest ?? '';
    const whole = store.stored.get(digest) ?? Buffer.alloc(0);
    store.stored.set(digest, whole.subarray(0, -1));
    await assert.rejects(engine.ensureImage(image), (error) => hasCode(error, 'invalid'));
    store.stored.delete(digest);
    await assert.rejects(engine.ensureImage(image), (error) => hasCode(error, 'not_found'));
    const other = store.put(zstdCompressSync(await layerWith('file', 'other')));
    await assert.rejects(engine.ensureImage({ ...image, layers: [other] }), /diffID/i);
    assert.deepEqual(await engine.listImages(), []);
    store.stored.set(digest, whole);
    await engine.ensureImage(image);
    assert.equal((await engine.listImages()).length, 1);
  }));
