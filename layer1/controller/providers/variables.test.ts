import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { merged, namesHolding, renewed, taken } from './variables.ts';

const name = fc.constantFrom('A', 'B', 'C', 'D');
const values = fc.dictionary(name, fc.constantFrom('1', '2'));

test('what is put in and taken out again leaves everything else as it was', () => {
  fc.assert(
    fc.property(values, values, (env, given) => {
      const { after, taken: names } = merged({ env, references: {}, links: [] }, { env: given, links: [] });
      for (const [one, value] of Object.entries(given)) assert.equal(after.env[one], value);
      const back = taken(after, { env: given, links: [] }).after.env;
      for (const [one, value] of Object.entries(env)) if (!(one in given)) assert.equal(back[one], value);
      assert.deepEqual(
        Object.keys(back).filter((one) => one in given),
        [],
      );
      assert.deepEqual(
        names,
        Object.keys(given)
          .filter((one) => env[one] !== undefined && env[one] !== given[one])
          .toSorted(),
      );
    }),
  );
});

test('what the app has already with the same value is no change, and what it changed since is its own', () => {
  const before = { env: { A: '1', B: '2' }, references: {}, links: [] };
  const given = (env: Record<string, string>) => ({ env, links: [] });
  assert.equal(merged(before, given({ A: '1' })).isChanged, false);
  assert.deepEqual(taken(before, given({ A: '1', B: 'other' })), {
    after: { env: { B: '2' }, references: {}, links: [] },
    isChanged: true,
  });
  assert.equal(taken(before, given({ C: '3' })).isChanged, false);
});

test('a reference that is replaced is none any more, and one that happens to hold the same value stays', () => {
  const before = { env: { A: 'x', B: 'x' }, references: { B: '${A}' }, links: [] };
  const after = { env: { A: 'x', B: 'y' }, references: {}, links: [] };
  assert.deepEqual(merged(before, { env: { B: 'y' }, links: [] }).after, after);
  assert.deepEqual(taken(before, { env: { B: 'x' }, links: [] }).after, before);
});

test('what it leads to is reached with it, and with what else leads there no longer', () => {
  const before = { env: {}, references: {}, links: ['cache'] };
  const given = { env: { URL: 'db' }, links: ['db-primary', 'db-replica'] };
  const { after } = merged(before, given);
  assert.deepEqual(after.links, ['cache', 'db-primary', 'db-replica']);
  assert.equal(merged(after, given).isChanged, false);
  // Its variables are there, what it reaches is not: of a release from before there was such a thing.
  assert.equal(merged({ ...after, links: ['cache'] }, given).isChanged, true);
  assert.deepEqual(taken(after, given).after, before);
  assert.equal(taken({ ...after, env: {} }, given).isChanged, true);
});

const givenAs = (user: string, password: string) => ({
  login: { name: user, password },
  env: { URL: `db://${user}:${password}@host/app`, USER: user, PASSWORD: password, HOST: 'host' },
});
const change = { former: givenAs('app', 'old1'), next: givenAs('app_1', 'new2') };
const renew = (env: Record<string, string>, references: Record<string, string> = {}) =>
  renewed({ env, references, links: ['host'] }, change);

test('another password takes the place of the one that was given, also in addresses that somebody made of it', () => {
  const { after, isChanged } = renew({ ...change.former.env, OWN: 'db://app:old1@host/app?pool=5', A: 'app' });
  assert.deepEqual(after.env, { ...change.next.env, OWN: 'db://app_1:new2@host/app?pool=5', A: 'app' });
  assert.deepEqual([after.links, isChanged], [['host'], true]);
  assert.equal(renew(after.env).isChanged, false);
});

test('what refers to others is left as it was written, and another database of the app’s own as it is', () => {
  assert.equal(renew({ B: 'db://app:old1@host' }, { B: 'db://${USER}:${PASSWORD}@host' }).isChanged, false);
  const own = { USER: 'app', PASSWORD: 'other', HOST: 'host' };
  assert.deepEqual(renew({ ...own, SHOP: change.former.env.URL }).after.env, { ...own, SHOP: change.next.env.URL });
});

test('where a password still is, is told by names', () => {
  const processes = { web: { env: { DB: 'x-old1-y' } }, clock: { env: {} } };
  assert.deepEqual(namesHolding('old1', { env: { C: 'old1', A: 'old', B: '"old1"' }, processes }), [
    'B',
    'C',
    'DB of web',
  ]);
});
