import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import {
  areInside,
  confineDeleteRange,
  confinePut,
  confineRange,
  confineTxn,
  confineWatch,
  wholeOf,
} from './confinement.ts';
import { base64, keysOf } from './keyspaces-fixture.ts';
import { Refusal } from './refusal.ts';

const prefix = '/flynn/keyspaces/shop/';
const { at, below } = keysOf(prefix);
const isRefused = (kind: Refusal['kind']) => (error: unknown) => error instanceof Refusal && error.kind === kind;
const end = (bytes: readonly number[]) => Buffer.from(bytes).toString('base64');

const inside: readonly [string, object][] = [
  ['a key', { key: at('a') }],
  ['all there is', wholeOf(prefix)],
  ['all below a key', below('pg/')],
  ['an end that is none', { key: at('a'), range_end: '' }],
  ['up to the last key there can be', { key: at(''), range_end: end([...Buffer.from(prefix), 0xff, 0xff]) }],
];
for (const [what, place] of inside) {
  test(`inside: ${what}`, () => {
    const { range_end: given, ...rest } = { range_end: '', ...place };
    assert.deepEqual(confineRange(place, prefix).body, { ...rest, ...(given === '' ? {} : { range_end: given }) });
    assert.deepEqual(confineDeleteRange(place, prefix).body, confineRange(place, prefix).body);
    assert.deepEqual(confineWatch({ create_request: place }, prefix).body, {
      create_request: confineRange(place, prefix).body,
    });
  });
}

const outside: readonly [string, object][] = [
  ['the prefix without its slash', { key: base64('/flynn/keyspaces/shop') }],
  ['a keyspace whose name begins alike', { key: base64('/flynn/keyspaces/shop-2/a') }],
  ['the store', { key: base64('/flynn/cell/hosts/h1') }],
  ['nothing', { key: '' }],
  ['a zero byte, which is the first key of all', { key: end([0]), range_end: end([0]) }],
  ['from the key on, up to the end of all', { key: at('a'), range_end: end([0]) }],
  ['an end behind the keyspace', { key: at('a'), range_end: base64('/flynn/keyspaces/shop1') }],
  ['an end just behind it', { key: at('a'), range_end: end([...Buffer.from('/flynn/keyspaces/shop0'), 0]) }],
  ['an end of 0xff', { key: at('a'), range_end: end([0xff]) }],
  ['an end that is the key', { key: at('a'), range_end: at('a') }],
  ['an end before the key', { key: at('b'), range_end: at('a') }],
  ['from the key before', { key: base64('/flynn/keyspaces/shop.'), range_end: wholeOf(prefix).range_end }],
];
for (const [what, place] of outside) {
  test(`outside: ${what}`, () => {
    const compare = { ...place, target: 'MOD', mod_revision: '1' };
    const within = (operation: object) => () => confineTxn({ success: [{ request_put: put }, operation] }, prefix);
    const put = { key: at('a'), value: '' };
    const asked = [
      () => confineRange(place, prefix),
      () => confineDeleteRange(place, prefix),
      () => confineWatch({ create_request: place }, prefix),
      () => confineTxn({ compare: [{ ...compare, key: at('a'), range_end: '' }, compare] }, prefix),
      within({ request_range: place }),
      within({ request_delete_range: place }),
      within({ request_txn: { compare: [compare] } }),
      within({ request_txn: { failure: [{ request_txn: { success: [{ request_range: place }] } }] } }),
    ];
    for (const ask of asked) assert.throws(ask, isRefused('outside'));
  });
}

const strange: readonly [string, object][] = [
  ['base64 without its padding', { key: at('a').replace(/=+$/, '') }],
  [
    'base64 of URLs',
    {
      key: end([...Buffer.from(prefix), 0xfb, 0xff])
        .replaceAll('+', '-')
        .replaceAll('/', '_'),
    },
  ],
  ['base64 with line breaks', { key: `${at('abc').slice(0, 8)}\r\n${at('abc').slice(8)}` }],
  ['base64 with bits that say nothing', { key: at('a').replace(/E=$/, 'F=') }],
  ['a key that is no text', { key: 7 }],
  ['no key', { range_end: at('b') }],
  ['a key of more than it may have', { key: at('a'.repeat(2_000)) }],
  ['a field that is not known', { key: at('a'), max_mod_revision: '1' }],
  ['a field by its other name', { key: at('a'), rangeEnd: base64('/') }],
  ['a revision below 0', { key: at('a'), revision: '-1' }],
  ['a revision that is no whole number', { key: at('a'), revision: 1.5 }],
  ['a revision that JSON does not carry', { key: at('a'), revision: 2 ** 60 }],
  ['a revision beyond what etcd has', { key: at('a'), revision: '9223372036854775808' }],
  ['a revision in hexadecimals', { key: at('a'), revision: '0x10' }],
  ['an order that there is not', { key: at('a'), sort_order: 7 }],
  ['text for a yes', { key: at('a'), serializable: 'true' }],
];
for (const [what, place] of strange) {
  test(`not as it should be: ${what}`, () => {
    assert.throws(() => confineRange(place, prefix), isRefused('invalid'));
    assert.throws(() => confineTxn({ success: [{ request_range: place }] }, prefix), isRefused('invalid'));
  });
}

test('numbers come as text or as numbers, and go as text', () => {
  const asked = { key: at('a'), limit: 10, revision: '9223372036854775807' };
  assert.deepEqual(confineRange(asked, prefix).body, { ...asked, limit: '10' });
  assert.deepEqual(confineRange({ key: at('a'), limit: '007' }, prefix).body, { key: at('a'), limit: '7' });
});

test('what is put is told: its leases, 0 of which is none, how many keys and how much it may be', () => {
  const put = { key: at('a'), value: base64('four'), lease: '7' };
  const keyBytes = prefix.length + 1;
  assert.deepEqual(confinePut(put, prefix), { body: put, leases: ['7'], keys: 1, bytes: keyBytes + 4 });
  const bare = { key: at('a'), lease: 0 };
  assert.deepEqual(confinePut(bare, prefix), { body: { ...bare, lease: '0' }, leases: [], keys: 1, bytes: keyBytes });
  const twice = confineTxn(
    {
      success: [{ request_put: put }],
      failure: [{ request_txn: { success: [{ request_put: { ...put, lease: 8 } }, { request_put: put }] } }],
    },
    prefix,
  );
  assert.deepEqual([twice.leases, twice.keys, twice.bytes], [['7', '8'], 3, 3 * (keyBytes + 4)]);
});

test('a transaction goes as it came, with nothing in it that is not known', () => {
  const put = { request_put: { key: at('leader'), value: base64('one'), lease: '7' } };
  const txn = {
    compare: [{ key: at('leader'), target: 'VALUE', value: base64('one'), result: 'EQUAL' }],
    success: [put],
    failure: [
      {
        request_txn: {
          compare: [{ key: at('leader'), target: 'CREATE', create_revision: '0' }],
          success: [put],
          failure: [],
        },
      },
    ],
  };
  assert.deepEqual(confineTxn(txn, prefix).body, txn);
  for (const more of [
    { ...txn, extra: 1 },
    { ...txn, compare: [{ ...txn.compare[0], lease: '7' }] },
    { ...txn, compare: [{ ...txn.compare[0], target: 'LEASE' }] },
    { ...txn, success: [{ ...put, request_range: { key: at('a') } }] },
    { ...txn, success: [{}] },
    { ...txn, success: [{ request_put: { ...put.request_put, ignore_lease: true } }] },
  ]) {
    assert.throws(() => confineTxn(more, prefix), isRefused('invalid'));
  }
});

test('a watch begins, and is told nothing else', () => {
  for (const asked of [
    { cancel_request: { watch_id: '1' } },
    { progress_request: {} },
    { create_request: { key: at('a'), watch_id: '1' } },
    { create_request: { key: at('a') }, cancel_request: { watch_id: '1' } },
    {},
  ]) {
    assert.throws(() => confineWatch(asked, prefix), isRefused('invalid'));
  }
});

test('sizes are bounded: values, operations in all, transactions within transactions', () => {
  const value = Buffer.alloc(512 * 1024).toString('base64');
  assert.equal(confinePut({ key: at('a'), value }, prefix).bytes, 512 * 1024 + prefix.length + 1);
  const larger = Buffer.alloc(512 * 1024 + 1).toString('base64');
  assert.throws(() => confinePut({ key: at('a'), value: larger }, prefix), isRefused('invalid'));
  const gets = (count: number) => Array.from({ length: count }, () => ({ request_range: { key: at('a') } }));
  assert.ok(confineTxn({ success: gets(64), failure: gets(64) }, prefix));
  assert.throws(() => confineTxn({ success: gets(64), failure: gets(65) }, prefix), isRefused('invalid'));
  let nested: object = { success: gets(1) };
  for (let depth = 0; depth < 3; depth += 1) nested = { success: [{ request_txn: nested }] };
  assert.ok(confineTxn(nested, prefix));
  assert.throws(() => confineTxn({ success: [{ request_txn: nested }] }, prefix), isRefused('invalid'));
});

test('whatever bytes a range has, what gets through lies inside', () => {
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 30 }).map((array) => Buffer.from(array)),
    fc.uint8Array({ maxLength: 3 }).map((array) => Buffer.concat([Buffer.from(prefix), array])),
    fc.uint8Array({ maxLength: 3 }).map((array) => Buffer.concat([Buffer.from(prefix.slice(0, -1)), array])),
  );
  const [first, behind] = [Buffer.from(prefix), Buffer.from('/flynn/keyspaces/shop0')];
  fc.assert(
    fc.property(bytes, bytes, (key, rangeEnd) => {
      const place = { key: key.toString('base64'), range_end: rangeEnd.toString('base64') };
      try {
        confineRange(place, prefix);
      } catch (error) {
        return error instanceof Refusal && error.kind === 'outside';
      }
      const last = rangeEnd.length === 0 ? Buffer.concat([key, Buffer.from([0])]) : rangeEnd;
      return Buffer.compare(key, first) >= 0 && Buffer.compare(last, behind) <= 0 && Buffer.compare(key, last) < 0;
    }),
    { numRuns: 2_000 },
  );
});

test("a lease's keys are told apart likewise", () => {
  assert.equal(areInside([at('a'), at('')], prefix), true);
  assert.equal(areInside([at('a'), base64('/flynn/keyspaces/shop')], prefix), false);
});
