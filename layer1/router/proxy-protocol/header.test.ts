import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { proxyHeader, readProxyHeader } from './header.ts';

const ends = {
  source: { address: '203.0.113.7', port: 51_234 },
  destination: { address: '198.51.100.1', port: 443 },
};
const of = (text: string) => readProxyHeader(Buffer.from(text, 'latin1'));
const binary = (...bytes: number[]) =>
  readProxyHeader(Buffer.concat([Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1'), Buffer.from(bytes)]));

test('what is written is read again, in every version and family, and the bytes after it are left', () => {
  const address = fc.oneof(fc.ipV4(), fc.constantFrom('::1', '2001:db8::1', 'fe80:1:2:3:4:5:6:7', '::'));
  const end = fc.record({ address, port: fc.nat(65_535) }, { noNullPrototype: true });
  fc.assert(
    fc.property(
      fc.constantFrom('v1', 'v2'),
      end,
      end,
      fc.uint8Array({ maxLength: 40 }),
      (version, source, destination, rest) => {
        const header = proxyHeader(version, { source, destination });
        assert.deepEqual(readProxyHeader(Buffer.concat([header, rest])), {
          length: header.length,
          ends: { source, destination },
        });
        for (let cut = 0; cut < header.length; cut += 1) assert.equal(readProxyHeader(header.subarray(0, cut)), 'more');
      },
    ),
  );
});

test('the forms of the specification', () => {
  assert.equal(proxyHeader('v1', ends).toString(), 'PROXY TCP4 203.0.113.7 198.51.100.1 51234 443\r\n');
  assert.equal(proxyHeader('v2', ends).toString('hex'), '0d0a0d0a000d0a515549540a2111000ccb007107c6336401c82201bb');
  assert.deepEqual(of('PROXY UNKNOWN\r\n'), { length: 15, ends: undefined });
  assert.deepEqual(of('PROXY UNKNOWN ffff::1 what ever\r\nGET'), { length: 33, ends: undefined });
  const mapped = of('PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n');
  assert.ok(typeof mapped === 'object' && mapped.ends?.source.address === '192.0.2.1');
});

test('LOCAL, families we do not know, and what comes with the addresses are taken and passed over', () => {
  assert.deepEqual(binary(0x20, 0, 0, 0), { length: 16, ends: undefined });
  assert.deepEqual(binary(0x21, 0x31, 0, 2, 9, 9), { length: 18, ends: undefined });
  const extra = binary(0x21, 0x11, 0, 15, 192, 0, 2, 1, 192, 0, 2, 2, 0, 1, 0, 2, 4, 0, 0);
  assert.ok(typeof extra === 'object' && extra.length === 31 && extra.ends?.source.address === '192.0.2.1');
});

test('what is not exactly a header is none', () => {
  const wrong = [
    'GET / HTTP/1.1\r\n',
    'PROXY  TCP4 192.0.2.1 192.0.2.2 1 2\r\n',
    'PROXY TCP4 192.0.2.1 192.0.2.2 1 2 \r\n',
    'PROXY TCP4 192.0.2.1 192.0.2.2 01 2\r\n',
    'PROXY TCP4 192.0.2.1 192.0.2.2 1 65536\r\n',
    'PROXY TCP4 192.0.2.1 192.0.2 1 2\r\n',
    'PROXY TCP4 ::1 ::1 1 2\r\n',
    'PROXY TCP6 192.0.2.1 192.0.2.2 1 2\r\n',
    'PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n',
    'PROXY UDP4 192.0.2.1 192.0.2.2 1 2\r\n',
    'PROXY TCP4 192.0.2.1 192.0.2.2 1 2\n\r\n',
    `PROXY ${'x'.repeat(200)}\r\n`,
    `PROXY ${'x'.repeat(101)}`,
    'proxy TCP4 192.0.2.1 192.0.2.2 1 2\r\n',
  ];
  for (const text of wrong) assert.equal(of(text), 'none', text);
  assert.equal(binary(0x11, 0x11, 0, 12), 'none', 'version 1 in binary');
  assert.equal(binary(0x22, 0x11, 0, 12), 'none', 'an unknown command');
  assert.equal(binary(0x21, 0x11, 0, 11), 'none', 'too short for its addresses');
  assert.equal(binary(0x21, 0x11, 255, 255), 'none', 'longer than any');
});

test('whatever is said, it is answered, and no more than a bound is waited for', () => {
  fc.assert(
    fc.property(
      fc.uint8Array({ maxLength: 120 }),
      fc.constantFrom('', 'PROXY ', '\r\n\r\n\0\r\nQUIT\n'),
      (bytes, start) => {
        const said = Buffer.concat([Buffer.from(start, 'latin1'), bytes]);
        readProxyHeader(said);
        assert.notEqual(readProxyHeader(Buffer.concat([said, Buffer.alloc(5_000)])), 'more');
      },
    ),
  );
});
