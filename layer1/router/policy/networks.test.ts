import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { Networks } from './networks.ts';

describe('networks', () => {
  test('hold addresses of both families, alone and by prefix', () => {
    const networks = new Networks(['192.0.2.0/24', ' 198.51.100.7 ', '2001:db8::/32', '::1', '10.0.0.0/8']);
    for (const address of ['192.0.2.1', '198.51.100.7', '2001:db8:1::2', '::1', '10.255.0.1', '10.255.0.1']) {
      assert.equal(networks.has(address), true, address);
    }
    for (const address of ['192.0.3.1', '198.51.100.8', '2001:db9::1', '::2', '', 'x', '11.0.0.1']) {
      assert.equal(networks.has(address), false, address);
    }
    assert.deepEqual(networks.unreadable, []);
  });

  test('name what they cannot read, and hold the rest', () => {
    const bad = ['', 'x', '192.0.2.0/33', '::/129', '192.0.2.0/24/1', '192.0.2.0/', 'fe80::1%eth0', '192.0.2.0/-1'];
    const networks = new Networks([...bad, '192.0.2.9']);
    assert.deepEqual(networks.unreadable, bad);
    assert.ok(networks.has('192.0.2.9'));
    assert.ok(new Networks(bad).isEmpty);
  });

  test('agree with arithmetic', () => {
    const address = fc.nat(0xffff_ffff);
    const text = (value: number) => [24, 16, 8, 0].map((shift) => (value >>> shift) & 255).join('.');
    fc.assert(
      fc.property(address, address, fc.integer({ min: 1, max: 32 }), (a, b, prefix) => {
        const mask = (-1 << (32 - prefix)) >>> 0;
        assert.equal(new Networks([`${text(a)}/${prefix}`]).has(text(b)), ((a ^ b) & mask) >>> 0 === 0);
        assert.equal(new Networks([`${text(a)}/${prefix}`]).has(text(a)), true);
      }),
    );
  });
});
