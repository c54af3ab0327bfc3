import assert from 'node:assert/strict';
import { test } from 'node:test';
import { neighboursOf } from './neighbours.ts';

test('of each host the addresses in its part of the range, each once, without its own and what is nobody’s', () => {
  const leases = [
    { hostId: 'k3', subnet: '100.100.3.0/24' },
    { hostId: 'k2', subnet: '100.100.2.0/25' },
    { hostId: 'k9', subnet: '100.100.9.0/24' },
  ];
  const addresses = [
    '100.100.2.1',
    '100.100.2.2',
    '100.100.2.2',
    '100.100.2.128',
    '100.100.3.255',
    '192.0.2.7',
    '9.9.9.9',
  ];
  assert.deepEqual(neighboursOf(leases, addresses), [
    { hostId: 'k2', addresses: ['100.100.2.2'] },
    { hostId: 'k3', addresses: ['100.100.3.255'] },
    { hostId: 'k9', addresses: [] },
  ]);
  assert.deepEqual(neighboursOf([], addresses), []);
});

test('of thousands of hosts too it is known before an agent would miss what else it has to do', () => {
  const leases = Array.from({ length: 4_000 }, (_, at) => ({
    hostId: `k${at}`,
    subnet: `10.${at >> 8}.${at & 255}.0/24`,
  }));
  const addresses = leases.flatMap(({ subnet }) => [2, 3, 4, 5, 6].map((last) => subnet.replace('0/24', `${last}`)));
  const begunMs = performance.now();
  const found = neighboursOf(leases, addresses);
  assert.ok(performance.now() - begunMs < 20_000, 'a comparison of all with all takes a minute');
  assert.deepEqual(found[3_999], { hostId: 'k3999', addresses: [2, 3, 4, 5, 6].map((last) => `10.15.159.${last}`) });
});
