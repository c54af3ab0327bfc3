import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addressBytes, elementsIn, integer, objectId, octets, sequence, text, time } from './der.ts';
import { hasCode } from './errors.ts';

const hex = (element: Buffer): string => element.toString('hex');

test('numbers have their shortest form, and are never taken for negative ones', () => {
  assert.equal(hex(integer(Buffer.from([0, 0, 0x7f]))), '02017f');
  assert.equal(hex(integer(Buffer.from([0x80]))), '02020080');
  assert.equal(hex(integer(Buffer.from([0, 0]))), '020100');
});

test('ids are written seven bits at a time', () => {
  assert.equal(hex(objectId('1.2.840.10045.4.3.2')), '06082a8648ce3d040302');
  assert.equal(hex(objectId('2.5.29.35')), '0603551d23');
});

test('what is longer than 127 bytes says by how many bytes it says how long it is', () => {
  assert.equal(hex(octets(Buffer.alloc(127))).slice(0, 4), '047f');
  assert.equal(hex(octets(Buffer.alloc(128))).slice(0, 6), '048180');
  assert.equal(hex(octets(Buffer.alloc(65_536))).slice(0, 10), '0483010000');
});

test('texts are of the type that can say them', () => {
  assert.equal(hex(text('h1: a')), `1305${Buffer.from('h1: a').toString('hex')}`);
  assert.equal(hex(text('a_b')).slice(0, 4), '0c03');
  assert.equal(hex(text('ö')), '0c02c3b6');
});

test('times from 2050 on have four digits for their year', () => {
  assert.equal(time(new Date('2049-12-31T23:59:59.900Z')).subarray(2).toString(), '491231235959Z');
  assert.equal(time(new Date('2050-01-01T00:00:00Z')).subarray(2).toString(), '20500101000000Z');
  assert.deepEqual([...time(new Date('2049-12-31T23:59:59Z'))].slice(0, 2), [0x17, 13]);
  assert.deepEqual([...time(new Date('2050-01-01T00:00:00Z'))].slice(0, 2), [0x18, 15]);
});

test('addresses are 4 bytes or 16', () => {
  assert.equal(hex(addressBytes('192.0.2.1')), 'c0000201');
  assert.equal(hex(addressBytes('::')), '0'.repeat(32));
  assert.equal(hex(addressBytes('2001:db8::1')), '20010db8000000000000000000000001');
  assert.equal(hex(addressBytes('1:2:3:4:5:6:7:8')), '00010002000300040005000600070008');
  assert.equal(hex(addressBytes('::ffff:1.2.3.4')), '00000000000000000000ffff01020304');
});

test('elements are read one after the other, and what is cut off is invalid', () => {
  const parts = [text('a'), octets(Buffer.alloc(300)), sequence()];
  const [whole] = elementsIn(sequence(...parts));
  assert.deepEqual(
    elementsIn(whole?.content ?? Buffer.alloc(0)).map((one) => one.whole),
    parts,
  );
  const cut = sequence(...parts).subarray(0, -1);
  assert.throws(
    () => elementsIn(cut),
    (error) => hasCode(error, 'invalid'),
  );
});
