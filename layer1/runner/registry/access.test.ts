import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { accessTo } from './access.ts';

const login = { username: 'me', password: 'secret' };
const place = '10.0.0.5:5000';
const logins = { [place]: login };
const [none, any] = [{}, { plain: [], only: undefined, logins: {} }];
const isDenied = (pattern: RegExp) => (error: unknown) => hasCode(error, 'denied') && pattern.test(error.message);

test('a login of the runner’s own goes without TLS only where the runner was started with that, or to itself', () => {
  const saysPlain = { logins: none, plain: [place, 'localhost:5000', '127.0.0.1:5000', '127.example.com'] };
  assert.throws(
    () => accessTo(place, saysPlain, { ...any, logins }),
    isDenied(/only the cluster says .*: if that is so, start the runner with FLYNN_PLAIN_REGISTRIES=10\.0\.0\.5:5000/),
  );
  const saysItself = { ...any, plain: [place], logins };
  for (const cluster of [saysPlain, { logins: none, plain: [] }]) {
    assert.equal(accessTo(place, cluster, saysItself).isPlain, true);
  }
  for (const registry of ['localhost:5000', '127.0.0.1:5000']) {
    assert.equal(accessTo(registry, saysPlain, { ...any, logins: { [registry]: login } }).isPlain, true, registry);
  }
  assert.throws(
    () => accessTo('127.example.com', saysPlain, { ...any, logins: { '127.example.com': login } }),
    isDenied(/TLS/),
  );
  assert.equal(accessTo(place, { logins: none, plain: [] }, { ...any, logins }).isPlain, false);
  assert.equal(accessTo(place, { logins, plain: [place] }, any).isPlain, true, 'with a login that the cluster keeps');
});

test('a runner that fetches from some alone is led by none of them, and refuses others with what to do', () => {
  const cluster = { logins, plain: [] };
  const own = { ...any, only: ['registry.example.com'] };
  assert.throws(
    () => accessTo(place, cluster, own),
    isDenied(/no images from 10\.0\.0\.5:5000.*FLYNN_RUNNER_REGISTRIES/),
  );
  assert.equal(accessTo('registry.example.com', cluster, own).isConfined, true);
  const access = accessTo(place, cluster, { ...own, logins: { [place]: { ...login, password: 'own' } } });
  assert.deepEqual(access.logins[place], { ...login, password: 'own', isOwn: true });
  assert.equal(accessTo(place, cluster, any).isConfined, false);
});
