import assert from 'node:assert/strict';
import { test } from 'node:test';
import { networkText } from './network.ts';
import type { ShownNetwork } from '../network/api.ts';

const seenBy = (host: string, network: Partial<ShownNetwork>) => ({
  host,
  network: { encryption: 'off' as const, hosts: [{ hostId: 'other', way: 'direct' as const }], ...network },
});

test('who reaches whom, by which way; of a change that is through nothing is to be done', () => {
  const through = { hostId: 'h3', way: 'wireguard', through: 'h2', isHeard: true } as const;
  const text = networkText([
    seenBy('h1', { encryption: 'on', hosts: [through] }),
    { host: 'h2', why: 'away' },
    seenBy('h3', { encryption: 'on', hosts: [{ hostId: 'h1', way: 'none', why: 'it has no key' }] }),
  ]);
  assert.match(text, /^encryption: on\n\nHOST +TO +WAY +HEARD\n/);
  assert.match(text, /\nh1 +h3 +wireguard through h2 +yes\nh2 +- +away +-\nh3 +h1 +none: it has no key +-\n/);
});

test('a change that is half-way, and a word that cannot be read, are told with what to type', () => {
  for (const encryption of ['ready', 'sent'] as const) {
    const text = networkText([seenBy('h1', { encryption })]);
    assert.match(
      text,
      /left half-way.*flynn-host network encrypt goes on.*flynn-host network decrypt goes back\n\nHOST/,
    );
  }
  const text = networkText([
    seenBy('h1', { encryption: 'on' }),
    seenBy('h2', { encryption: 'on', isUnreadable: true }),
  ]);
  assert.match(networkText([{ host: 'h1', network: { hosts: [] } }]), /^encryption: no host has carried it out yet\n/);
  assert.match(text, /^encryption: on\n.*cannot be read.*flynn-host network encrypt .*flynn-host network decrypt/);
});
