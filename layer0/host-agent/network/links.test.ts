import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Lease } from './lease.ts';
import { type Link, linksOf, relayFor } from './links.ts';
import type { Backend } from './state.ts';

const host = (hostId: string, index: number, more: Partial<Lease> = {}): Lease => ({
  hostId,
  address: more.site === undefined ? `192.0.2.${index}` : `100.100.${index}.1`,
  subnet: `100.100.${index}.0/24`,
  joinedAt: index,
  tunnelKey: `key-of-${hostId}`,
  ...more,
});
const near = host('near', 2);
const far = host('far', 3);
const mate = host('mate', 4, { site: 'home', localAddress: '192.0.2.130' });
const silentMate = host('silent', 5, { site: 'home' });
const elsewhere = host('elsewhere', 6, { site: 'office', localAddress: '192.0.2.146' });
const keyless = host('keyless', 7, { tunnelKey: undefined });
const keylessAway = host('keylessaway', 8, { tunnelKey: undefined, site: 'shed' });
const all = [near, far, mate, silentMate, elsewhere, keyless, keylessAway];

/** As `direct`, `wireguard`, or `wireguard by relay`. */
function ways(self: { site?: string; localAddress?: string; backend: Backend }, others = all): Record<string, string> {
  const links = linksOf({
    self: { hostId: 'self', ...self },
    others,
    isNeighbour: (address) => address === near.address || address === mate.localAddress,
    unheard: [],
  });
  return Object.fromEntries(links.map((link) => [link.lease.hostId, wayOf(link)]));
}

function wayOf(link: Link): string {
  if (link.way === 'direct') return `direct ${link.via}`;
  if (link.way === 'wireguard' && link.through !== link.lease.hostId) return `relay`;
  return link.way;
}

const behind = { site: 'home', localAddress: '192.0.2.129' };
const betweenPublic: Record<Backend, Record<string, string>> = {
  auto: { near: 'direct 192.0.2.2', far: 'vxlan', keyless: 'vxlan' },
  direct: { near: 'direct 192.0.2.2', far: 'direct 192.0.2.3', keyless: 'direct 192.0.2.7' },
  vxlan: { near: 'vxlan', far: 'vxlan', keyless: 'vxlan' },
  // Never in clear, even if that is no way at all.
  wireguard: { near: 'wireguard', far: 'wireguard', keyless: 'none' },
};
const backends: Backend[] = ['auto', 'direct', 'vxlan', 'wireguard'];
for (const backend of backends) {
  test(`from a host that all reach, backend ${backend}: hosts behind NAT by WireGuard, the others by the backend`, () => {
    const behindNat = { mate: 'wireguard', silent: 'wireguard', elsewhere: 'wireguard', keylessaway: 'none' };
    assert.deepEqual(ways({ backend }), { ...betweenPublic[backend], ...behindNat });
  });

  test(`from a host behind NAT, backend ${backend}: public hosts by WireGuard, its own site by the shortest way, others by a relay`, () => {
    assert.deepEqual(ways({ backend, ...behind }), {
      near: 'wireguard',
      far: 'wireguard',
      // Where addresses of containers are dropped they are so in there, too.
      mate: backend === 'wireguard' || backend === 'vxlan' ? 'wireguard' : 'direct 192.0.2.130',
      // Nobody knows where it is in there.
      silent: 'relay',
      elsewhere: 'relay',
      keyless: 'none',
      keylessaway: 'none',
    });
  });
}

test('a host of a site that does not say where it is there is reached by relays, as it reaches others', () => {
  assert.equal(ways({ backend: 'auto', site: 'home' })['mate'], 'relay');
});

test('hosts behind NAT need a host between them that all reach; without one, people are told what to do', () => {
  const [link] = linksOf({
    self: { hostId: 'self', backend: 'auto', ...behind },
    others: [elsewhere, keyless],
    isNeighbour: () => false,
    unheard: [],
  });
  assert.ok(link?.way === 'none');
  assert.match(link.why, /let such a host join/);
});

test('both ends of a pair choose the same relay, whichever of them does not hear one', () => {
  const relays = ['r1', 'r2', 'r3'];
  const chosen = relayFor(['a', 'b'], relays, new Set());
  assert.equal(relayFor(['b', 'a'], relays.toReversed(), new Set()), chosen);
  const through = (self: Lease, other: Lease): string | undefined => {
    const others = [...relays.map((id, index) => host(id, 20 + index)), other];
    const links = linksOf({
      self: { hostId: self.hostId, backend: 'auto', site: self.site ?? '' },
      others,
      isNeighbour: () => false,
      unheard: self.unheard ?? [],
    });
    const link = links.find(({ lease }) => lease === other);
    return link?.way === 'wireguard' ? link.through : undefined;
  };
  const a = host('a', 10, { site: 'home', unheard: [chosen ?? ''] });
  const b = host('b', 11, { site: 'office' });
  const instead = through(a, b);
  assert.ok(instead !== undefined && instead !== chosen);
  assert.equal(through(b, a), instead);
  // Where none is heard, the first one will do: it may come back.
  assert.equal(relayFor(['a', 'b'], relays, new Set(relays)), chosen);
  assert.equal(relayFor(['a', 'b'], [], new Set()), undefined);
});

test('pairs spread over relays, and one that goes moves its own pairs only', () => {
  const relays = ['r1', 'r2', 'r3', 'r4'];
  const pairs = Array.from({ length: 400 }, (_, index): [string, string] => [`a${index}`, `b${index}`]);
  const before = pairs.map((pair) => relayFor(pair, relays, new Set()));
  for (const relay of relays) assert.ok(before.filter((one) => one === relay).length > 60, relay);
  const after = pairs.map((pair) => relayFor(pair, relays, new Set(['r2'])));
  for (const [index, relay] of before.entries()) if (relay !== 'r2') assert.equal(after[index], relay);
});

test('hosts of one site that are in different networks there reach each other by WireGuard, through its router', () => {
  const upstairs = host('upstairs', 9, { site: 'home', localAddress: '192.0.2.66' });
  assert.deepEqual(ways({ backend: 'auto', ...behind }, [upstairs]), { upstairs: 'wireguard' });
});
