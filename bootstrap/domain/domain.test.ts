import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAuthority } from '@flynn/kit/tls';
import {
  changeOf,
  checkDrop,
  domainsOf,
  formerDomainsOf,
  moved,
  placeOf,
  twinOf,
  withDomain,
  withoutFormer,
} from './domain.ts';
import { domainText } from './text.ts';
import { imageNames } from '../images/recipes.ts';
import { manifestOf } from '../platform/manifest.ts';
import { made } from '../cluster-fixture.ts';
import { clusterSchema, sharedSchema } from '../settings.ts';

const at = (...domains: string[]) => domains.reduce((cluster, domain) => moved(withDomain(cluster, domain)), made());

test('what a cluster was called stays, the newest first, until it is dropped; going back is a move, too', () => {
  const cluster = withDomain(made(), 'a.example.com');
  assert.deepEqual(domainsOf(cluster), ['a.example.com', 'flynn.localhost']);
  assert.equal(cluster.domains?.isMoving, true);
  assert.deepEqual(domainsOf(at('a.example.com', 'b.example.com')), [
    'b.example.com',
    'a.example.com',
    'flynn.localhost',
  ]);
  assert.deepEqual(domainsOf(at('a.example.com', 'flynn.localhost')), ['flynn.localhost', 'a.example.com']);
  assert.deepEqual(withoutFormer(at('a.example.com'), 'flynn.localhost'), { ...made(), domain: 'a.example.com' });
  assert.deepEqual(formerDomainsOf(withoutFormer(at('a.example.com', 'b.example.com'), 'a.example.com')), [
    'flynn.localhost',
  ]);
  assert.deepEqual(clusterSchema.parse(cluster), cluster);
  assert.equal(sharedSchema.parse(cluster).domain, 'a.example.com');
});

test('what is no domain, the one it has, and what cannot be dropped are refused, and nothing is changed', () => {
  for (const wrong of ['No Such', 'single', '*.example.com', 'a..com', '']) {
    assert.throws(() => withDomain(made(), wrong), { code: 'invalid' }, wrong);
  }
  assert.throws(() => withDomain(made(), 'flynn.localhost'), { code: 'conflict' });
  // What is missing there is added again.
  assert.equal(withDomain(at('a.example.com'), 'a.example.com').domains?.isMoving, true);
  const refused = { code: 'conflict', message: /Nothing was changed$/ };
  assert.throws(() => checkDrop(made(), 'flynn.localhost'), refused);
  assert.throws(() => checkDrop(made(), 'a.example.com'), refused);
  assert.throws(() => checkDrop(at('a.example.com'), 'a.example.com'), refused);
  assert.throws(() => checkDrop(withDomain(made(), 'a.example.com'), 'flynn.localhost'), /not through/);
  checkDrop(at('a.example.com'), 'flynn.localhost');
  assert.deepEqual(changeOf({ domain: 'x' }), { to: 'x' });
  assert.deepEqual(changeOf({ dropDomain: 'x' }), { drop: 'x' });
  assert.equal(changeOf({}), undefined);
});

test('a route has its twin where the cluster is now, with all that it is set to', () => {
  const cluster = at('apps.flynn.localhost', 'b.example.com');
  const cases: [Record<string, unknown>, unknown][] = [
    [
      { domain: 'shop.flynn.localhost', path: '/' },
      { domain: 'shop.b.example.com', path: '/' },
    ],
    [
      { domain: 'shop.apps.flynn.localhost', path: '/a' },
      { domain: 'shop.b.example.com', path: '/a' },
    ],
    [{ domain: '*.shop.flynn.localhost' }, { domain: '*.shop.b.example.com' }],
    [{ domain: 'flynn.localhost' }, { domain: 'b.example.com' }],
    [
      { domain: 'x.flynn.localhost', service: 's', http: { sticky: true, canonicalHost: 'shop.flynn.localhost' } },
      { domain: 'x.b.example.com', service: 's', http: { sticky: true, canonicalHost: 'shop.b.example.com' } },
    ],
    [
      { domain: 'x.flynn.localhost', http: { canonicalHost: 'www.example.org' } },
      { domain: 'x.b.example.com', http: { canonicalHost: 'www.example.org' } },
    ],
    [
      { port: 5432, tcp: { serverName: 'db.flynn.localhost', leader: true } },
      { port: 5432, tcp: { serverName: 'db.b.example.com', leader: true } },
    ],
    [{ domain: 'shop.b.example.com' }, undefined],
    [{ domain: 'www.example.org' }, undefined],
    [{ port: 3000 }, undefined],
  ];
  for (const [spec, twin] of cases) assert.deepEqual(twinOf(spec, cluster), twin, JSON.stringify(spec));
  assert.equal(placeOf({ domain: 'a.b' }), placeOf({ domain: 'a.b', path: '/', service: 's' }));
  assert.notEqual(placeOf({ domain: 'a.b' }), placeOf({ domain: 'a.b', path: '/x' }));
  assert.notEqual(placeOf({ port: 1 }), placeOf({ port: 2 }));
});

test('the controller is told of former domains, and answers at each; once they are dropped that is told, too', () => {
  const controller = (cluster: Parameters<typeof manifestOf>[0]['cluster']) => {
    const images = new Map(imageNames.map((name) => [name, 'i:1']));
    const keys = {
      sshHostKey: 'K',
      sshHostPublicKey: 'P',
      controllerCertificate: { certificate: 'C', privateKey: 'K' },
    };
    const all = manifestOf({ cluster, images, ...keys, builderEnv: {}, hostMemoryBytes: 8e9 });
    return all.find(({ name }) => name === 'controller');
  };
  const now = controller(at('b.example.com'));
  assert.equal(now?.env['FLYNN_DOMAIN'], 'b.example.com');
  assert.equal(now.env['FLYNN_FORMER_DOMAINS'], 'flynn.localhost');
  assert.deepEqual(
    now.routes.map((route) => route.type === 'http' && route.domain),
    ['controller.b.example.com', 'controller.flynn.localhost'],
  );
  assert.equal(controller(made())?.env['FLYNN_FORMER_DOMAINS'], '');
});

test('people are told what to do: at their DNS, with their commands, in clones, and in the end', async () => {
  const authority = await createAuthority('flynn');
  const told = domainText({ ...at('b.example.com'), authority }, ['192.0.2.7', '192.0.2.8']);
  for (const line of [
    'b.example.com. A 192.0.2.7',
    '*.b.example.com. A 192.0.2.8',
    'flynn cluster add flynn https://controller.b.example.com KEY --pin ',
    'git remote set-url flynn ssh://git@b.example.com:2222/APP.git',
    'npm run up -- --drop-domain flynn.localhost',
  ]) {
    assert.equal(told.includes(line), true, line);
  }
  assert.doesNotMatch(domainText({ ...at('b.localhost'), authority }, ['192.0.2.7']), / A 192/);
});
