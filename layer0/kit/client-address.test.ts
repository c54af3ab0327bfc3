import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addressIn, clientOf } from './client-address.ts';

test('one client is an IPv4 address, or an IPv6 network of 64 bits', () => {
  for (const [address, client] of [
    ['192.0.2.1', '192.0.2.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
    ['2001:0db8:0001:2::6', '2001:db8:1:2'],
    ['2001:db8::6', '2001:db8:0:0'],
    ['::1', '0:0:0:0'],
    ['::', '0:0:0:0'],
    ['64:ff9b::192.0.2.1', '64:ff9b:0:0'],
  ]) {
    assert.equal(clientOf(address ?? ''), client);
  }
});

test('an address is read in all the ways that fields write it', () => {
  for (const [text, address] of [
    ['192.0.2.1', '192.0.2.1'],
    [' 192.0.2.1:8080 ', '192.0.2.1'],
    ['2001:db8::1', '2001:db8::1'],
    ['[2001:db8::1]:80', '2001:db8::1'],
    ['"[2001:db8::1]"', '2001:db8::1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['unknown', undefined],
    ['', undefined],
    ['_hidden', undefined],
  ]) {
    assert.equal(addressIn(text ?? ''), address, text);
  }
});
