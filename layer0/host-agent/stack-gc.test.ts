import assert from 'node:assert/strict';
import { test } from 'node:test';
import { unusedStacks } from './stack-gc.ts';

const hourMs = 3_600_000;
const image = (
  id: string,
  createdAtMs: number,
  labels: Record<string, string> = { 'flynn.stack': `sha256:${id}` },
) => ({
  id,
  refs: [],
  labels,
  createdAtMs,
  sizeBytes: 1,
});

test('a stack goes an hour after it was built if no container, and no stack that stays, is made of it', () => {
  const images = [
    image('used', 0, { 'flynn.stack': 'sha256:node,sha256:app' }),
    image('below', 0, { 'flynn.stack': 'sha256:node' }),
    image('old', 0),
    image('new', 2 * hourMs - 1),
    image('other', 0, {}),
  ];
  const container = {
    id: 'c',
    name: 'c',
    labels: {},
    state: 'exited' as const,
    imageId: 'used',
    tty: false,
    createdAtMs: 0,
    isOutOfMemory: false,
  };
  const unused = unusedStacks({ images, containers: [container], now: 2 * hourMs });
  assert.deepEqual(
    unused.map(({ id }) => id),
    ['old'],
  );
});
