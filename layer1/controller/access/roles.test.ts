import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import {
  clusterLevel,
  highestLevel,
  isAtLeast,
  isReduced,
  levelOn,
  levelOnDatastore,
  narrowed,
  roles,
} from './roles.ts';
import type { Level, Limits, Standing } from './roles.ts';

const level = fc.constantFrom<Level>('none', ...roles);
const role = fc.constantFrom(...roles);
const appId = fc.constantFrom('a', 'b', 'c');
const standing: fc.Arbitrary<Standing> = fc
  .tuple(level, fc.dictionary(appId, role))
  .map(([cluster, apps]) => ({ cluster, apps: new Map(Object.entries(apps)) }));
const limits: fc.Arbitrary<Limits> = fc
  .tuple(role, fc.option(fc.uniqueArray(appId), { nil: undefined }))
  .map(([most, appIds]) => ({ role: most, appIds }));
const app = fc.tuple(appId, fc.boolean()).map(([id, isSystem]) => ({ id, isSystem }));

test('a token never gives more than its scope, nor more than its owner has', () => {
  fc.assert(
    fc.property(standing, limits, app, (own, scope, one) => {
      const given = levelOn(one, own, scope);
      assert.ok(isAtLeast(scope.role, given));
      assert.ok(isAtLeast(levelOn(one, own, { role: 'admin' }), given));
      if (scope.appIds?.includes(one.id) === false) assert.equal(given, 'none');
      if (scope.appIds !== undefined) assert.equal(clusterLevel(own, scope), 'none');
      assert.ok(isAtLeast(highestLevel(own, scope), one.isSystem ? 'none' : given));
    }),
  );
});

test("on the platform's own apps nothing counts but a role on the cluster", () => {
  fc.assert(
    fc.property(standing, limits, appId, (own, scope, id) => {
      const given = levelOn({ id, isSystem: true }, own, scope);
      if (own.cluster !== 'admin') assert.ok(isAtLeast('viewer', given));
      if (own.cluster === 'none') assert.equal(given, 'none');
    }),
  );
});

test('a token made with a token is good for nothing that the first was not good for', () => {
  fc.assert(
    fc.property(standing, limits, limits, app, (own, outer, asked, one) => {
      const inner = narrowed(outer, asked);
      if (inner === undefined) return;
      assert.ok(isAtLeast(levelOn(one, own, outer), levelOn(one, own, inner)));
      assert.ok(isAtLeast(clusterLevel(own, outer), clusterLevel(own, inner)));
    }),
  );
});

test('who lost something is told apart from who did not', () => {
  fc.assert(
    fc.property(standing, standing, (before, after) => {
      const all = ['a', 'b', 'c'].map((id) => ({ id, isSystem: false }));
      const everything = { role: 'admin' } as const;
      const isLess = all.some((one) => !isAtLeast(levelOn(one, after, everything), levelOn(one, before, everything)));
      assert.equal(isReduced(before, after), isLess || !isAtLeast(after.cluster, before.cluster));
    }),
  );
});

test('on a datastore somebody is what they are on the app where they are most, as far as developers go', () => {
  fc.assert(
    fc.property(standing, limits, fc.array(app, { maxLength: 3 }), (own, scope, having) => {
      const one = { id: 'datastore', isSystem: false };
      const given = levelOnDatastore(one, having, own, scope);
      const levels = having.map((each) => levelOn(each, own, scope));
      assert.ok(isAtLeast(given, levelOn(one, own, scope)), 'a role on the cluster counts as on any app');
      for (const each of levels) assert.ok(isAtLeast(given, each === 'admin' ? 'developer' : each));
      if (given === 'admin') assert.equal(own.cluster, 'admin');
      if (given !== 'none') assert.ok(own.cluster !== 'none' || levels.some((each) => each !== 'none'));
      assert.ok(isAtLeast(scope.role, given));
    }),
  );
});
