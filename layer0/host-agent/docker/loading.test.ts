import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { ownConfig } from './loading.ts';

const digest = (letter: string): string => `sha256:${letter.repeat(64)}`;
const image = { config: { digest: digest('c'), sizeBytes: 1 }, layers: [{ digest: digest('a'), sizeBytes: 1 }] };
const architecture = process.arch === 'x64' ? 'amd64' : process.arch;
const rootfs = { type: 'layers', diff_ids: [digest('d')] };
const configWith = (more: object): string => JSON.stringify({ os: 'linux', architecture, rootfs, ...more });

test('an image says nothing in the platform’s name: its containers would be believed', () => {
  const labels = { 'flynn.access': 'store', 'flynn.singleton': '1', 'flynn.cluster': 'other', maintainer: 'me' };
  const { text, diffIds } = ownConfig(
    configWith({ config: { Labels: labels, Cmd: ['/x'] }, history: [] }),
    image,
    'c1',
  );
  assert.deepEqual(JSON.parse(text), {
    os: 'linux',
    architecture,
    rootfs,
    history: [],
    config: {
      Cmd: ['/x'],
      OnBuild: null,
      Labels: { maintainer: 'me', 'flynn.cluster': 'c1', 'flynn.loaded': digest('c') },
    },
  });
  assert.deepEqual(diffIds, [digest('d')]);
});

test('an image whose configuration is not that of its layers, or of another machine, is refused', () => {
  const refused: [string, RegExp][] = [
    ['{', /no JSON/],
    ['{}', /not as it should be/],
    [configWith({ rootfs: { type: 'layers', diff_ids: [] } }), /names 0 layers, and there are 1/],
    [configWith({ rootfs: { type: 'layers', diff_ids: ['../../etc/passwd'] } }), /not as it should be/],
    [configWith({ architecture: 's390x' }), /made for s390x/],
  ];
  for (const [json, pattern] of refused) {
    assert.throws(
      () => ownConfig(json, image, 'c1'),
      (error) => hasCode(error, 'invalid') && pattern.test(error.message),
      json,
    );
  }
});
