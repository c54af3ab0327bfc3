import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ownerOf } from './docker-volume-owner.ts';

const passwords = 'root:x:0:0:root:/root:/bin/bash\nnode:x:1000:1001::/home/node:/bin/bash\n';

void test('a user is a number, or a name that the image knows', () => {
  const cases = [
    ['5000', { uid: 5000, gid: 0 }],
    ['5000:6000', { uid: 5000, gid: 6000 }],
    ['node', { uid: 1000, gid: 1001 }],
    ['node:6000', { uid: 1000, gid: 6000 }],
    ['root', { uid: 0, gid: 0 }],
    ['nod', undefined],
    ['', undefined],
  ] as const;
  for (const [user, owner] of cases) assert.deepEqual(ownerOf(user, passwords), owner, user);
});
