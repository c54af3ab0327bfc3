import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { HostTable, normalHost, prefixOf } from './host-table.ts';
import type { Place } from './host-table.ts';

function place(domain: string, path = '/', changes: Partial<Place> = {}): Place {
  return { id: `${domain}${path}`, domain, path, createdAt: '2026', ...changes };
}

function tableOf(...places: Place[]): HostTable<Place> {
  const table = new HostTable<Place>();
  for (const each of places) table.add(each);
  return table;
}

const label = fc.constantFrom('a', 'b', 'www', 'x');
const host = fc.array(label, { minLength: 1, maxLength: 3 }).map((labels) => labels.join('.'));
const domain = fc.oneof(
  host,
  host.map((name) => `*.${name}`),
  fc.constant('*'),
);
const path = fc.array(fc.constantFrom('a', 'ab', 'b'), { maxLength: 4 }).map((parts) => `/${parts.join('/')}`);
const places = fc.uniqueArray(
  fc
    .record({ domain, path, slash: fc.constantFrom('', '/') })
    .map((given) => place(given.domain, given.path === '/' ? '/' : given.path + given.slash)),
  { maxLength: 16, selector: ({ domain, path }) => `${domain} ${prefixOf(path)}` },
);

/** What a search through all of them finds. */
function search(all: readonly Place[], name: string, target: string): Place | undefined {
  const rest = name.split('.').slice(1).join('.');
  for (const domain of [name, `*.${rest}`, '*']) {
    const fitting = all
      .filter((each) => each.domain === domain && `${target}/`.startsWith(`${each.path.replace(/\/$/, '')}/`))
      .sort((a, b) => b.path.replace(/\/$/, '').length - a.path.replace(/\/$/, '').length);
    if (fitting[0] !== undefined) return fitting[0];
  }
  return undefined;
}

describe('the table of hosts', () => {
  test('finds what a search through all routes finds, whatever came and went before', () => {
    fc.assert(
      fc.property(places, places, host, path, (gone, there, name, target) => {
        const table = tableOf(...gone);
        for (const each of gone) table.remove(each);
        for (const each of there) table.add(each);
        assert.equal(table.find(name, target), search(there, name, target));
        assert.equal(table.find(name, `${target}?/a/b`), search(there, name, target));
        for (const each of there) table.remove(each);
        assert.equal(table.find(name, target), undefined);
      }),
      { numRuns: 1_000 },
    );
  });

  test('matches paths at their borders only, however they are written', () => {
    const table = tableOf(place('a.test'), place('a.test', '/api'), place('a.test', '/api/v1/'), place('a.test', '/é'));
    for (const [target, path] of [
      ['/api', '/api'],
      ['/api?x=/api/v1', '/api'],
      ['/api/', '/api'],
      ['/apiary', '/'],
      ['/api/v1', '/api/v1/'],
      ['/api/v1?', '/api/v1/'],
      ['/api/v1x', '/api'],
      ['/api/../x', '/'],
      ['/x/../api', '/api'],
      ['/x/%2e%2e/api/v1/y', '/api/v1/'],
      ['//api', '/api'],
      ['/%61pi', '/api'],
      ['/%C3%A9/x', '/é'],
      ['*', '/'],
    ]) {
      assert.equal(table.find('a.test', target ?? '')?.path, path, target);
    }
  });

  test('a wildcard stands for one label, and for none of its own; a star alone for every host', () => {
    const table = tableOf(place('*.a.test'));
    assert.ok(table.find('x.a.test', '/'));
    for (const name of ['a.test', 'x.y.a.test', '.a.test', 'a', '']) {
      assert.equal(table.find(name, '/'), undefined, name);
    }
    table.add(place('*'));
    for (const name of ['a.test', 'x.y.a.test', '[::1]', '']) assert.equal(table.find(name, '/')?.domain, '*', name);
    assert.equal(table.find('x.a.test', '/')?.domain, '*.a.test');
  });

  test('an address is a host too', () => {
    const table = tableOf(place('[2001:DB8::1]'), place('192.0.2.1'));
    assert.ok(table.find(normalHost('[2001:db8::1]:8080'), '/'));
    assert.ok(table.find(normalHost('192.0.2.1:80'), '/'));
    assert.ok(table.find('[2001:0db8:0::0:1]', '/'), 'however it is written');
    for (const host of ['[2001:db8::2]', '[', '[x]', '[]']) assert.equal(table.find(host, '/'), undefined, host);
  });

  test('of two at one place the older stands, in whatever order they came', () => {
    const [old, young] = [place('a.test', '/x', { createdAt: '1' }), place('a.test', '/x/', { createdAt: '2' })];
    for (const table of [tableOf(old, young), tableOf(young, old)]) {
      assert.equal(table.find('a.test', '/x'), old);
      table.remove(old);
      assert.equal(table.find('a.test', '/x'), young);
    }
  });
});
