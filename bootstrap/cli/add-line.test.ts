import assert from 'node:assert/strict';
import { stripVTControlCharacters } from 'node:util';
import { test } from 'node:test';
import { fingerprintOf } from '@flynn/kit/certificate';
import { createAuthority } from '@flynn/kit/tls';
import { addLine } from './add-line.ts';
import { farewell } from '../bring-up/farewell.ts';
import { readOptions, settle } from '../settings.ts';

const cluster = settle(readOptions({}), undefined, {
  hostname: 'h1',
  address: '192.0.2.7',
  now: new Date(0),
  newSecret: () => 'the-root-key',
  authority: await createAuthority('flynn'),
});
const url = 'https://controller.flynn.localhost';
const pinned = `flynn cluster add flynn ${url} the-root-key --pin ${fingerprintOf(cluster.authority.certificate)}`;
const known = { name: 'flynn', key: 'the-root-key', gitUrl: 'g', domain: 'd', httpPort: 80, controllerUrl: url };

test('another computer pins the certificate, unless it is one that machines trust anyway', () => {
  assert.equal(addLine(cluster, []), pinned);
  assert.equal(addLine(cluster, [{ ...known, ca: 'pinned' }]), pinned);
  assert.equal(addLine(cluster, [known]), `flynn cluster add flynn ${url} the-root-key`);
  assert.equal(
    addLine(cluster, [{ ...known, key: 'flynn_of_somebody' }]),
    `flynn cluster add flynn ${url} the-root-key`,
  );
  assert.equal(addLine(cluster, [{ ...known, controllerUrl: 'https://controller.example.com' }]), pinned);
});

test('the root key is shown when it is made, for the first time or anew, and never else', () => {
  const shown = (rootKey: 'first' | 'new' | 'known') => stripVTControlCharacters(farewell(cluster, rootKey));
  assert.ok(shown('first').includes(`with its root key, which is shown this once`) && shown('first').includes(pinned));
  assert.match(shown('new'), /made anew, and the former one opens nothing.*on other hosts[^]*npm run up\n/);
  assert.ok(shown('new').includes(pinned));
  assert.doesNotMatch(shown('first'), /anew/);
  assert.doesNotMatch(shown('known'), /the-root-key|anew/);
});
