import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { Cookies, pointFor } from './cookies.ts';

const cookies = new Cookies('the cluster key');
const backend = (address: string, service = 'web') => ({ service, address });
const pair = (setCookie: string) => setCookie.split(';', 1)[0] ?? '';

describe('the cookie of a backend', () => {
  const backends = [backend('10.0.0.1:80'), backend('10.0.0.2:80')];
  const [first, second] = backends;
  assert.ok(first !== undefined && second !== undefined);

  test('leads back to it, at every router of the cluster', () => {
    const cookie = pair(cookies.forBackend(second, { path: '/', isTls: false }));
    const elsewhere = [backend('10.0.0.2:80'), backend('10.0.0.3:80')];
    assert.equal(cookies.backendOf(cookie, backends), second);
    assert.equal(new Cookies('the cluster key').backendOf(`a=b; ${cookie}; c`, elsewhere), elsewhere[0]);
    assert.equal(new Cookies('another key').backendOf(cookie, backends), undefined);
  });

  test('one whose backend left, or that was made up, leads nowhere', () => {
    const gone = pair(cookies.forBackend(backend('10.0.0.9:80'), { path: '/', isTls: false }));
    for (const cookie of [undefined, '', gone, '_flynn_backend=', '_flynn_backend=10.0.0.1:80', 'x_flynn_backend=1']) {
      assert.equal(cookies.backendOf(cookie, backends), undefined);
    }
  });

  test('another of the same name, of a route beside it, does not hide it', () => {
    const others = pair(cookies.forBackend(backend('10.0.0.1:80', 'other'), { path: '/api', isTls: false }));
    const own = pair(cookies.forBackend(first, { path: '/', isTls: false }));
    assert.equal(cookies.backendOf(`${others}; ${own}`, backends), first);
  });

  test('says no address, and is for the browser and this path alone', () => {
    const text = cookies.forBackend(first, { path: '/api', isTls: true });
    assert.match(text, /^_flynn_backend=[\w-]{22}; Path=\/api; HttpOnly; SameSite=Lax; Secure$/);
    assert.ok(!cookies.forBackend(first, { path: '/', isTls: false }).includes('Secure'));
  });
});

describe('the cookie of a release', () => {
  test('keeps its point, and only as it was made', () => {
    const point = fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true });
    fc.assert(
      fc.property(point, (point) => {
        const cookie = pair(cookies.forPoint(point, { path: '/', isTls: false }));
        const read = cookies.pointOf(cookie) ?? NaN;
        assert.ok(Math.abs(read - point) < 1e-9);
        assert.equal(pair(cookies.forPoint(read, { path: '/', isTls: false })), cookie);
        const [name, value = ''] = cookie.split('=');
        const forged = `${name}=${value.startsWith('0') ? '1' : '0'}${value.slice(1)}`;
        assert.equal(cookies.pointOf(forged), undefined);
        assert.equal(cookies.pointOf(`${cookie}x`), undefined);
      }),
    );
  });

  test('is found among others of its name, but only so many are tried', () => {
    const cookie = pair(cookies.forPoint(0.25, { path: '/', isTls: false }));
    const others = (count: number, value: (i: number) => string) =>
      Array.from({ length: count }, (_, i) => `_flynn_release=${value(i)}; `).join('');
    const hex = (i: number) => i.toString(16).padStart(8, '0');
    const made = (i: number) => `${hex(i)}.${'a'.repeat(22)}`;
    assert.equal(cookies.pointOf(`${others(7, made)}${cookie}`), 0.25);
    assert.equal(cookies.pointOf(`${others(8, made)}${cookie}`), undefined);
    // What was never one is passed over at no cost.
    assert.equal(cookies.pointOf(`${others(1_000, hex)}${cookie}`), 0.25);
  });

  test('without it clients lie evenly', () => {
    const counts = Array.from({ length: 10 }, () => 0);
    for (let i = 0; i < 10_000; i += 1) {
      const index = Math.floor(pointFor(`192.0.${i >> 8}.${i & 255}`) * 10);
      counts[index] = (counts[index] ?? 0) + 1;
    }
    for (const count of counts) assert.ok(Math.abs(count - 1_000) < 150, counts.join(' '));
  });
});
