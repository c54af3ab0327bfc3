import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Cluster } from '@flynn/cli/clusters/clusters';
import { createAuthority } from '@flynn/kit/tls';
import { configuredText, isNameOf, knownAs } from './known-as.ts';

const [own = '', next = '', others = ''] = (
  await Promise.all(['flynn', 'flynn', 'flynn'].map((name) => createAuthority(name)))
).map(({ certificate }) => certificate);

const cluster = {
  name: 'flynn',
  controllerUrl: 'https://controller.example.com',
  key: 'root',
  ca: own,
  gitUrl: 'ssh://git@example.com:2222',
  domain: 'example.com',
  httpPort: 80,
};
const token = 'flynn_abcdefghijkl_of_ann';
const list = (...clusters: Cluster[]) => ({ clusters });

test('somebody’s own token for the cluster stays, with what else is known of it brought up to date', () => {
  const personal = { ...cluster, key: token, httpPort: 8080, colour: 'red' };
  const kept = { ...cluster, key: token, colour: 'red' };
  assert.deepEqual(knownAs(list(personal), cluster), { entry: kept, isByToken: true });
  const both = { ...cluster, ca: `${next}${own}` };
  assert.deepEqual(knownAs(list(personal), both).entry, { ...kept, ca: both.ca }, 'while its authority is made anew');
  const open = { ...cluster, controllerUrl: 'http://controller.example.com', ca: undefined };
  assert.deepEqual(knownAs(list(personal), open).entry, kept, 'while no certificate is seen');
  const unpinned = { ...personal, ca: undefined };
  const moved = { ...cluster, ca: undefined, controllerUrl: 'https://controller.example.net', domain: 'example.net' };
  const { entry, isByToken } = knownAs(list(unpinned), moved, { domains: ['example.com'] });
  assert.deepEqual(
    [entry.key, entry.controllerUrl, isByToken],
    [token, moved.controllerUrl, true],
    'at its new domain',
  );
  assert.equal(
    configuredText('/home', { entry, isByToken }),
    'configured in /home, where flynn keeps the token that it has',
  );
});

test('another cluster of the name keeps its entry, and this one has another, the next time too', () => {
  const trial = { ...cluster, controllerUrl: 'http://controller.10.0.0.1.nip.io', key: 'root of test', ca: undefined };
  const first = knownAs(list(cluster), trial);
  assert.deepEqual(first, { entry: { ...trial, name: 'flynn-2' }, isByToken: false, other: cluster });
  const again = knownAs(list(cluster, first.entry), { ...trial, httpPort: 8080 });
  assert.deepEqual(again.entry, { ...trial, name: 'flynn-2', httpPort: 8080 });
  const personal = knownAs(list(cluster, { ...first.entry, key: token }), trial);
  assert.deepEqual([personal.entry.name, personal.entry.key], ['flynn-2', token]);
  assert.equal(
    configuredText('/home', first),
    'configured in /home as flynn-2, for flynn is another cluster there, https://controller.example.com: flynn -c flynn-2',
  );
  assert.deepEqual(
    ['flynn', 'flynn-2', 'flynn-x', 'flynn-', 'other'].map((name) => isNameOf('flynn', name)),
    [true, true, false, false, false],
  );
});

test('what was at the address before is none any more, whatever is known of it', () => {
  for (const key of ['root of before', token]) {
    const before = { ...cluster, key, ca: others, colour: 'red' };
    assert.deepEqual(knownAs(list(before), cluster), { entry: cluster, isByToken: false });
  }
  const root = { ...cluster, key: 'root of before', ca: others };
  assert.deepEqual(knownAs(list(root), { ...cluster, ca: undefined }).entry.ca, undefined);
});

test('by a root key that it had it is the same, with the new one', () => {
  const before = { ...cluster, key: 'former', colour: 'red' };
  const known = knownAs(list(before), cluster, { keys: ['root', 'former'] });
  assert.deepEqual(known, { entry: { ...cluster, colour: 'red' }, isByToken: false });
});
