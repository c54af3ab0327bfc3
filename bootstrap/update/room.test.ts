import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HostRoom } from '@flynn/host-agent/update/room';
import { shortOf } from './room.ts';

const mb = 1024 ** 2;
const bundle = {
  version: '2.0.0',
  features: [],
  images: ['flynn/a:1', 'flynn/b:1'],
  fileBytes: 300 * mb,
  unpackedBytes: 400 * mb,
  imagesBytes: 1_000 * mb,
};

/** `free`: in MB, of one disk for all, or of one each. */
function roomOf(free: number | [number, number, number], more: Partial<HostRoom> = {}): HostRoom {
  const of = (index: number, path: string) =>
    typeof free === 'number'
      ? { path, device: 1, freeBytes: free * mb }
      : { path, device: index, freeBytes: (free[index] ?? 0) * mb };
  return {
    programs: of(0, '/opt/flynn'),
    bundles: of(1, '/var/lib/flynn'),
    engine: of(2, '/var/lib/docker'),
    versions: ['1.0.0'],
    images: ['other:1'],
    ...more,
  };
}

const cases: [what: string, room: HostRoom, hasFile: boolean, short: string[]][] = [
  ['one disk with enough', roomOf(2_500), false, []],
  [
    'one disk with too little for all of it at the same time',
    roomOf(2_499),
    false,
    ['2499 MB are free at /opt/flynn and /var/lib/docker, and 2500 MB are needed (programs 400 MB, images 2000 MB)'],
  ],
  [
    'a small disk for what is unpacked, where the bundle lies meanwhile',
    { ...roomOf([700, 700, 9_000]), bundles: { path: '/var/lib/flynn', device: 0, freeBytes: 700 * mb } },
    false,
    [
      '700 MB are free at /opt/flynn and /var/lib/flynn, and 800 MB are needed (programs 400 MB, the bundle until it is unpacked 300 MB)',
    ],
  ],
  ['the host that has the bundle', roomOf([500, 0, 9_000]), true, []],
  [
    'each disk by itself',
    roomOf([499, 399, 2_099]),
    false,
    [
      '499 MB are free at /opt/flynn, and 500 MB are needed (programs 400 MB)',
      '399 MB are free at /var/lib/flynn, and 400 MB are needed (the bundle until it is unpacked 300 MB)',
      '2099 MB are free at /var/lib/docker, and 2100 MB are needed (images 2000 MB)',
    ],
  ],
  ['half of the images', roomOf([500, 400, 1_600], { images: ['flynn/a:1'] }), false, []],
  [
    'a host that has the version and all images',
    roomOf([0, 0, 0], { versions: ['2.0.0'], images: ['flynn/a:1', 'flynn/b:1'] }),
    true,
    [],
  ],
];

for (const [what, room, hasFile, short] of cases) {
  test(`room for another version: ${what}`, () => assert.deepEqual(shortOf(room, bundle, { hasFile }), short));
}
