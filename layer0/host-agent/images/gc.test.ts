import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ImageInfo } from '../engine/engine.ts';
import { unusedImages } from './gc.ts';
import type { ImagesInput } from './gc.ts';

const hourMs = 3_600_000;
const info = (id: string, rest: Partial<ImageInfo> = {}): ImageInfo => ({
  id,
  refs: [],
  labels: {},
  createdAtMs: 0,
  sizeBytes: 1,
  ...rest,
});
const stack = (id: string, layers: string): ImageInfo =>
  info(id, { labels: { 'flynn.cluster': 'c', 'flynn.stack': layers, 'flynn.image': '1' } });
const platform = (ref: string, createdAtMs: number): ImageInfo =>
  info(ref, { refs: [ref], labels: { 'flynn.image': '1' }, createdAtMs });

function unused(images: readonly ImageInfo[], input: Partial<ImagesInput> = {}): string[] {
  const found = unusedImages({
    images,
    containers: [],
    named: new Set(),
    pulled: new Set(),
    cluster: 'c',
    idleMsOf: () => 25 * hourMs,
    graceMs: 24 * hourMs,
    ...input,
  });
  return found.map(({ id }) => id);
}

describe('images nobody needs', () => {
  it('are stacks that no container is made of and no kept stack stands on, the tallest first', () => {
    const images = [
      stack('used', 'node,app'),
      stack('below', 'node'),
      stack('old', 'ruby'),
      stack('older', 'ruby,app'),
    ];
    assert.deepEqual(unused(images, { containers: [{ imageId: 'used' }] }), ['older', 'old']);
  });

  it("are of the platform's own all but the newest of each name", () => {
    const images = [platform('flynn/router:1', 1), platform('flynn/router:2', 2), platform('flynn/builder:1', 1)];
    assert.deepEqual(unused(images), ['flynn/router:1']);
    assert.deepEqual(unused(images, { named: new Set(['flynn/router:1']) }), []);
  });

  it("are pulled ones, never somebody else's", () => {
    const images = [
      info('a', { refs: ['redis:7'] }),
      info('b', { refs: ['postgres:17'] }),
      info('c', { refs: ['redis:6', 'mine:1'] }),
      info('dangling'),
      { ...stack('d', 'x'), labels: { 'flynn.cluster': 'other', 'flynn.stack': 'x' } },
    ];
    assert.deepEqual(unused(images, { pulled: new Set(['redis:7', 'redis:6']) }), ['a']);
  });

  it('are those that builds and the blob store made, of this cluster, whatever they were made on', () => {
    const built = (id: string, ...refs: string[]) => info(id, { refs, labels: { 'flynn.image': '1' } });
    const loaded = (id: string, cluster: string) =>
      info(id, { labels: { 'flynn.cluster': cluster, 'flynn.loaded': 'd' } });
    const images = [
      built('built', 'flynn-c/build:app', 'flynn-c/build:app-0'),
      built('shared', 'flynn-c/build:b', 'mine:1'),
      info('others', { refs: ['flynn-d/build:app'] }),
      loaded('loaded', 'c'),
      loaded('theirs', 'd'),
    ];
    assert.deepEqual(unused(images), ['built', 'loaded']);
    assert.deepEqual(unused(images, { containers: [{ imageId: 'loaded' }] }), ['built']);
  });

  it('are not those needed lately or never heard of', () => {
    const images = [stack('a', 'x'), stack('b', 'y'), stack('c', 'z')];
    const idle = new Map([
      ['a', 23 * hourMs],
      ['b', 30 * hourMs],
    ]);
    assert.deepEqual(unused(images, { idleMsOf: (id) => idle.get(id) }), ['b']);
  });
});
