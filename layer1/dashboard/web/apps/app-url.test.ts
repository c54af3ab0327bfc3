import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { someRoute } from '../world/world-fixture.ts';
import { mainRoute, urlOf } from './app-url.ts';
import { certificateOf, withTls } from './route-certificate.ts';

const cluster = { httpPort: 80, domain: 'flynn.example.com' };

describe('where an app is', () => {
  it('is an address for a browser, or for whatever speaks TCP', () => {
    assert.equal(urlOf(someRoute({ path: '/blog' }), cluster), 'http://shop.example.com/blog');
    assert.equal(urlOf(someRoute({ httpsPort: 443 }), cluster), 'https://shop.example.com');
    const tcp = { type: 'tcp' as const, domain: undefined, port: 5_000 };
    assert.equal(urlOf(someRoute(tcp), cluster), 'tcp://flynn.example.com:5000');
    assert.equal(
      urlOf(someRoute({ ...tcp, tcp: { leader: false, serverName: 'db.example.com' } }), cluster),
      'tls://db.example.com:5000',
    );
  });

  it('is shown by the newest name of its own, if it has one', () => {
    const own = someRoute({ domain: 'shop.flynn.example.com' });
    const named = someRoute({ domain: 'shop.example.org' });
    const all = someRoute({ domain: '*.example.org' });
    assert.equal(mainRoute([own, named, all], cluster.domain), named);
    assert.equal(mainRoute([own, all], cluster.domain), own);
    assert.equal(mainRoute([all], cluster.domain), undefined);
  });
});

describe('the certificate of a route', () => {
  const certificate = (...domains: string[]) => ({
    id: domains.join(),
    domains,
    source: 'acme' as const,
    state: 'ready' as 'ready' | 'waiting' | 'expired',
    why: '',
    createdAt: '',
    updatedAt: '',
  });

  it('is that of the very name, else that of all names beside it', () => {
    const [wild, exact] = [certificate('*.example.com'), certificate('a.com', 'shop.example.com')];
    assert.equal(certificateOf(someRoute(), [wild, exact]), exact);
    assert.equal(certificateOf(someRoute(), [wild]), wild);
    assert.equal(certificateOf(someRoute({ domain: 'a.shop.example.com' }), [wild]), undefined);
    assert.equal(certificateOf(someRoute({ type: 'tcp' }), [exact]), undefined);
    const waiting = { ...certificate('example.com', 'shop.example.com'), state: 'waiting' as const };
    assert.equal(certificateOf(someRoute(), [waiting, exact]), exact);
    assert.equal(certificateOf(someRoute(), [waiting]), waiting);
  });

  it('says that TLS is spoken there, once there is one that has not expired', () => {
    const shown = { ...certificate('shop.example.com'), notAfter: '2031-01-31T12:00:00Z' };
    const urlWith = (one: typeof shown | ReturnType<typeof certificate>) => urlOf(withTls(someRoute(), [one]), cluster);
    assert.equal(urlWith(shown), 'https://shop.example.com');
    assert.equal(urlWith({ ...shown, state: 'expired' }), 'http://shop.example.com');
    assert.equal(urlWith(certificate('shop.example.com')), 'http://shop.example.com');
  });
});
