import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Route, routeSchema } from '@flynn/controller/model';
import * as fc from 'fast-check';
import { buildTable, matchRoute } from './table.ts';

function route(domain: string, path = '/', changes: Partial<Route> = {}): Route {
  const whole = { id: `${domain}${path}`, appId: 'a', type: 'http', domain, path, service: 's', createdAt: '' };
  return routeSchema.parse({ ...whole, ...changes });
}

const label = fc.constantFrom('a', 'b', 'www', 'x');
const domain = fc.array(label, { minLength: 1, maxLength: 3 }).map((labels) => labels.join('.'));
const path = fc.array(fc.constantFrom('a', 'ab', 'b'), { maxLength: 3 }).map((parts) => `/${parts.join('/')}`);

describe('the routing table', () => {
  test('finds what a search through all routes finds', () => {
    const anyRoute = fc
      .record({ domain, path, isWildcard: fc.boolean(), slash: fc.constantFrom('', '/') })
      .map((given) =>
        route(
          given.isWildcard ? `*.${given.domain}` : given.domain,
          given.path + (given.path === '/' ? '' : given.slash),
        ),
      );
    fc.assert(
      fc.property(fc.array(anyRoute, { maxLength: 12 }), domain, path, (routes, host, target) => {
        const fits = (each: Route, name: string) => {
          const prefix = each.path.replace(/\/$/, '');
          return each.domain === name && (target === prefix || `${target}/`.startsWith(`${prefix}/`));
        };
        const rest = host.split('.').slice(1).join('.');
        const longest = (found: Route[]) => Math.max(-1, ...found.map((each) => each.path.replace(/\/$/, '').length));
        const exact = routes.filter((each) => fits(each, host));
        const wild = rest === '' ? [] : routes.filter((each) => fits(each, `*.${rest}`));
        const expected = exact.length > 0 ? exact : wild;
        const actual = matchRoute(buildTable(routes), host, target);
        if (expected.length === 0) assert.equal(actual, undefined);
        else {
          assert.ok(actual !== undefined && expected.includes(actual));
          assert.equal(actual.path.replace(/\/$/, '').length, longest(expected));
        }
      }),
      { numRuns: 500 },
    );
  });

  test('does not care for the order, the case, the port or a final dot', () => {
    fc.assert(
      fc.property(domain, fc.nat(65535), fc.boolean(), (name, port, hasDot) => {
        const table = buildTable([route('other.test'), route(name.toUpperCase()), route('*.other.test')]);
        const host = `${name.toUpperCase()}${hasDot ? '.' : ''}:${port}`;
        assert.equal(matchRoute(table, host, '/')?.domain, name.toUpperCase());
      }),
    );
  });

  test('matches paths at their borders only, whatever the query says', () => {
    const table = buildTable([route('a.test'), route('a.test', '/api'), route('a.test', '/api/v1/')]);
    const pathOf = (target: string) => matchRoute(table, 'a.test', target)?.path;
    assert.equal(pathOf('/api'), '/api');
    assert.equal(pathOf('/api?x=/api/v1'), '/api');
    assert.equal(pathOf('/api/'), '/api');
    assert.equal(pathOf('/apiary'), '/');
    assert.equal(pathOf('/api/v1'), '/api/v1/');
    assert.equal(pathOf('/api/v1x'), '/api');
    assert.equal(pathOf('*'), '/');
  });

  test('a wildcard stands for one label, and for none of its own', () => {
    const table = buildTable([route('*.a.test')]);
    assert.ok(matchRoute(table, 'x.a.test', '/'));
    for (const host of ['a.test', 'x.y.a.test', '.a.test', 'a', '', undefined]) {
      assert.equal(matchRoute(table, host, '/'), undefined, host);
    }
  });

  test('keeps TCP routes by port', () => {
    const tcp = route('', '/', { id: 't', type: 'tcp', domain: undefined, port: 2222 });
    const table = buildTable([tcp, route('a.test')]);
    assert.equal(table.tcp.get(2222), tcp);
    assert.equal(table.tcp.size, 1);
  });
});
