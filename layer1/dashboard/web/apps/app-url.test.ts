import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Certificate } from '@flynn/controller/certificates/model';
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
  const certificate = (...domains: string[]): Certificate => ({
    id: domains.join(),
    domains,
    source: 'acme',
    notAfter: '2031-01-31T12:00:00Z',
    state: 'ready',
    why: '',
    createdAt: '',
    updatedAt: '',
  });
  /** `servedFor` is as of a controller that says so. */
  const waiting = (domains: string[], servedFor: string[]): Certificate => {
    const { notAfter, ...rest } = certificate(...domains);
    return { ...rest, state: 'waiting', servedFor, ...(servedFor.length === 0 ? {} : { notAfter }) };
  };

  it('is that of the very name, else that of all names beside it', () => {
    const [wild, exact] = [certificate('*.example.com'), certificate('a.com', 'shop.example.com')];
    assert.equal(certificateOf(someRoute(), [wild, exact]), exact);
    assert.equal(certificateOf(someRoute(), [wild]), wild);
    assert.equal(certificateOf(someRoute({ domain: 'a.shop.example.com' }), [wild]), undefined);
    assert.equal(certificateOf(someRoute({ type: 'tcp' }), [exact]), undefined);
  });

  it('is the one that is shown, before any that is to come', () => {
    const [wild, exact] = [certificate('*.example.com'), certificate('shop.example.com')];
    const failing: Certificate = { ...exact, id: 'failing', state: 'failing' };
    const coming = waiting(['example.com', 'shop.example.com'], []);
    const partly = waiting(['example.com', 'shop.example.com'], ['example.com']);
    for (const later of [coming, partly]) {
      for (const shown of [exact, failing, wild]) assert.equal(certificateOf(someRoute(), [later, shown]), shown);
      assert.equal(certificateOf(someRoute(), [waiting(['*.example.com'], []), later]), later);
    }
    assert.equal(certificateOf(someRoute({ domain: 'example.com' }), [partly]), partly);
    // Of several the one that routers choose, be it over.
    const own: Certificate = { ...exact, id: 'own', source: 'own', notAfter: '2020-01-01T00:00:00Z', state: 'expired' };
    assert.equal(certificateOf(someRoute(), [wild, exact, own]), own);
    const longer = { ...exact, id: 'longer', notAfter: '2032-01-31T12:00:00Z' };
    assert.equal(certificateOf(someRoute(), [exact, longer]), longer);
  });

  it('says that TLS is spoken there, once there is one that has not expired', () => {
    const shown = certificate('shop.example.com');
    const urlWith = (one: Certificate) => urlOf(withTls(someRoute(), [one]), cluster);
    assert.equal(urlWith(shown), 'https://shop.example.com');
    assert.equal(urlWith({ ...shown, state: 'expired' }), 'http://shop.example.com');
    assert.equal(urlWith(certificate('*.example.com')), 'https://shop.example.com');
    assert.equal(urlWith(waiting(['shop.example.com'], [])), 'http://shop.example.com');
    const others = waiting(['example.com', 'shop.example.com'], ['example.com']);
    assert.equal(urlWith(others), 'http://shop.example.com', 'shown for another name alone');
  });
});
