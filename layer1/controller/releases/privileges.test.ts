import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Process } from '../processes/process.ts';
import { checkPrivileges } from './privileges.ts';

type Wish = Pick<Process, 'hostNetwork' | 'volumes'>;

const spec = { name: 'shop', isSystem: false, hasOwnVolumes: false };
const volume = (name: string, more: { isShared?: boolean } = {}): Wish => ({
  hostNetwork: false,
  volumes: [{ name, path: '/data', ...more }],
});
const ask = (wish: Wish, more: { isSystem?: boolean; hasOwnVolumes?: boolean } = {}) =>
  checkPrivileges({ spec: { ...spec, ...more } }, { web: wish });

test('an app gets neither a path of its host, nor a volume of the platform’s, nor one that is shared, nor the host’s network', () => {
  assert.throws(() => ask(volume('/etc')), {
    code: 'invalid',
    message: /web asks for a volume "\/etc", which is no name/,
  });
  assert.throws(() => ask(volume('blobs')), { code: 'denied', message: /which is not its own/ });
  assert.throws(() => ask(volume('data', { isShared: true })), { code: 'denied', message: /share the volume "data"/ });
  assert.throws(() => ask({ hostNetwork: true, volumes: [] }), { code: 'denied', message: /the host's network/ });
});

test('volumes of its own it gets, by any name where they are told apart; the platform’s own apps get all but a path', () => {
  ask(volume('data'));
  ask(volume('blobs'), { hasOwnVolumes: true });
  ask(volume('blobs', { isShared: true }), { isSystem: true });
  ask({ hostNetwork: true, volumes: [] }, { isSystem: true });
  assert.throws(() => ask(volume('../etc'), { isSystem: true }), { code: 'invalid' });
});
