import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Route, routeSchema } from '@flynn/controller/model';
import { silentLogger } from '@flynn/kit/log';
import * as fc from 'fast-check';
import { Service } from '../backends.ts';
import { RouteBook } from './route-book.ts';

class Holds {
  readonly counts = new Map<string, number>();

  hold(name: string): Service {
    this.counts.set(name, (this.counts.get(name) ?? 0) + 1);
    return new Service(name, Promise.resolve());
  }

  drop(name: string): void {
    const left = (this.counts.get(name) ?? 0) - 1;
    assert.ok(left >= 0, `${name} was dropped more often than held`);
    if (left === 0) this.counts.delete(name);
    else this.counts.set(name, left);
  }
}

function bookOf(holds: Holds): RouteBook {
  const defaults = { dialMs: 1, firstByteMs: 1, idleMs: 1 };
  return new RouteBook({ backends: holds, defaults, now: () => 0, log: silentLogger() });
}

const route: fc.Arbitrary<Route> = fc
  .record({
    id: fc.constantFrom('1', '2', '3', '4', '5'),
    type: fc.constantFrom('http', 'tcp'),
    domain: fc.constantFrom('a.test', '*.a.test', 'b.test'),
    service: fc.constantFrom('web', 'api', 'git'),
    port: fc.constantFrom(2222, 3333),
    sticky: fc.boolean(),
  })
  .map(({ sticky, ...given }) => routeSchema.parse({ ...given, appId: 'a', http: { sticky }, createdAt: given.id }));

const change = fc.oneof(
  fc.record({ does: fc.constant('set' as const), route }),
  fc.record({ does: fc.constant('remove' as const), id: fc.constantFrom('1', '2', '3', '4', '5') }),
  fc.record({
    does: fc.constant('replace' as const),
    routes: fc.uniqueArray(route, { selector: ({ id }) => id, maxLength: 5 }),
  }),
);

describe('the book of routes', () => {
  test('after any changes is what one would be that was told the outcome at once', () => {
    fc.assert(
      fc.property(fc.array(change, { maxLength: 20 }), (changes) => {
        const holds = new Holds();
        const book = bookOf(holds);
        let model = new Map<string, Route>();
        for (const change of changes) {
          if (change.does === 'set') {
            book.set(change.route);
            model.set(change.route.id, change.route);
          } else if (change.does === 'remove') {
            book.remove(change.id);
            model.delete(change.id);
          } else {
            book.replace(change.routes);
            model = new Map(change.routes.map((each) => [each.id, each]));
            assert.ok(book.isKnown);
          }
        }
        const freshHolds = new Holds();
        const fresh = bookOf(freshHolds);
        fresh.replace([...model.values()]);
        assert.deepEqual(holds.counts, freshHolds.counts);
        assert.equal(book.size, model.size);
        for (const host of ['a.test', 'x.a.test', 'b.test', 'c.test']) {
          assert.deepEqual(book.find(host, '/')?.route, fresh.find(host, '/')?.route, host);
        }
        assert.deepEqual([...book.tcp.keys()].toSorted(), [...fresh.tcp.keys()].toSorted());
        for (const { id } of model.values()) book.remove(id);
        assert.equal(holds.counts.size, 0);
      }),
      { numRuns: 300 },
    );
  });

  test('a route that is told again as it was stays the one that it is', () => {
    const book = bookOf(new Holds());
    const told = { id: 'r', appId: 'a', type: 'http', domain: 'a.test', service: 'web', createdAt: '' };
    book.set(routeSchema.parse(told));
    const before = book.get('r');
    book.set(routeSchema.parse(told));
    assert.equal(book.get('r'), before);
  });
});
