import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from 'fast-check';
import { appTabs, clusterTabs, type Page, pageAt, pathOf } from './routing.ts';

describe('addresses', () => {
  it('lead to their pages', () => {
    assert.deepEqual(pageAt('/'), { is: 'apps' });
    assert.deepEqual(pageAt('/apps/'), { is: 'apps' });
    assert.deepEqual(pageAt('/apps/shop'), { is: 'app', name: 'shop', tab: '' });
    assert.deepEqual(pageAt('/apps/shop/deployments/d1'), { is: 'app', name: 'shop', tab: 'deployments', item: 'd1' });
    assert.deepEqual(pageAt('/cluster/hosts/h1/'), { is: 'cluster', tab: 'hosts', item: 'h1' });
  });

  it('that nothing is at are unknown', () => {
    for (const path of [
      '/nothing',
      '/apps/shop/nothing',
      '/apps/shop/env/X',
      '/apps/%E0%A4%A',
      '/cluster/hosts/a/b',
      '/login/x',
    ]) {
      assert.deepEqual(pageAt(path), { is: 'unknown', path });
    }
  });

  it('of a page lead back to it', () => {
    const name = fc.string({ minLength: 1 });
    const pages: fc.Arbitrary<Page> = fc.oneof(
      fc.record({ is: fc.constant('app' as const), name, tab: fc.constantFrom(...appTabs) }),
      fc.record({
        is: fc.constant('app' as const),
        name,
        tab: fc.constantFrom('deployments' as const, 'builds' as const),
        item: name,
      }),
      fc.record({ is: fc.constant('cluster' as const), tab: fc.constantFrom(...clusterTabs) }),
    );
    fc.assert(fc.property(pages, (page) => assert.deepEqual(pageAt(pathOf(page)), { ...page })));
  });
});
