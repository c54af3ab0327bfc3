import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { followTokens, takeToken } from './given-token.ts';

/** A window at an address; `open` goes to another one of the same page. */
function windowAt(path: string) {
  const page = Object.assign(new EventTarget(), {
    location: new URL(path, 'https://dashboard.example.com'),
    history: {
      replaceState(_state: unknown, _title: string, to: string) {
        page.location = new URL(to, page.location);
      },
    },
    open(to: string) {
      page.location = new URL(to, page.location);
      page.dispatchEvent(new Event('popstate'));
      page.dispatchEvent(new Event('hashchange'));
    },
  });
  return page;
}

describe('a link to log in with', () => {
  it('is taken out of the address', () => {
    const page = windowAt('/login#flynn_ab');
    assert.equal(takeToken(page), 'flynn_ab');
    assert.equal(page.location.href, 'https://dashboard.example.com/login');
    assert.equal(takeToken(page), undefined);
  });

  it('is heard of once, in a tab that is open already, until nobody listens', () => {
    const page = windowAt('/login');
    const told: string[] = [];
    const stop = followTokens(page, (token) => told.push(token));
    page.open('/login#flynn_first');
    assert.equal(page.location.hash, '');
    page.open('/apps');
    page.open('/login#flynn_second');
    assert.deepEqual(told, ['flynn_first', 'flynn_second']);
    stop();
    page.open('/login#flynn_third');
    assert.equal(told.length, 2);
  });
});
