import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decide, inTheWayOf, parseUpdates } from './updates.ts';

const zero = '0'.repeat(40);
const one = '1'.repeat(40);
const two = '2'.repeat(40);

const shop = { name: 'shop', meta: {} };

function refusalOf(...updates: [string, string, string][]): string {
  const decision = decide(
    updates.map(([before, after, ref]) => ({ before, after, ref })),
    shop,
  );
  return 'refusal' in decision ? decision.refusal.join(' ') : '';
}

test('main and master are deployed, new or moved, forwards or backwards', () => {
  for (const branch of ['main', 'master']) {
    for (const before of [zero, two]) {
      const decision = decide([{ before, after: one, ref: `refs/heads/${branch}` }], shop);
      assert.deepEqual(decision, { deploy: { commit: one, branch } });
    }
  }
});

test('what is not deployed is refused with what to type instead', () => {
  assert.match(refusalOf([zero, one, 'refs/heads/topic/x']), /git push flynn HEAD:main.*git push flynn topic\/x:main/);
  assert.match(refusalOf([zero, one, 'refs/tags/v1']), /Tags are not taken: v1/);
  assert.match(refusalOf([zero, one, 'refs/heads/main'], [zero, one, 'refs/tags/v1']), /Tags/);
  assert.match(refusalOf([one, zero, 'refs/heads/main']), /main cannot be deleted/);
  assert.match(refusalOf([zero, one, 'refs/heads/main'], [zero, two, 'refs/heads/master']), /One branch at a time/);
  assert.match(refusalOf([zero, one, 'refs/heads/main'], [zero, two, 'refs/heads/x']), /Only main/);
  assert.match(refusalOf([zero, one, 'refs/notes/x']), /not notes\/x/);
  assert.match(refusalOf(), /nothing/);
});

test('an app that names a branch has that one deployed and no other', () => {
  const app = { name: 'shop', meta: { 'git.branch': 'production' } };
  const pushed = (branch: string) => decide([{ before: zero, after: one, ref: `refs/heads/${branch}` }], app);
  assert.deepEqual(pushed('production'), { deploy: { commit: one, branch: 'production' } });
  const refused = pushed('main');
  assert.match(
    'refusal' in refused ? refused.refusal.join(' ') : '',
    /Only production is deployed, not main\..*HEAD:production.*main:production.*flynn -a shop meta set git\.branch=main/,
  );
});

test('the lines of the hook are read, whatever the hash', () => {
  const sha256 = 'a'.repeat(64);
  assert.deepEqual(parseUpdates(`${zero} ${one} refs/heads/main\n${sha256} ${sha256} refs/heads/x\n`), [
    { before: zero, after: one, ref: 'refs/heads/main' },
    { before: sha256, after: sha256, ref: 'refs/heads/x' },
  ]);
  assert.deepEqual(parseUpdates('nonsense\n'), []);
  // No space to git: a ref that is overlooked would be moved without being asked about.
  const odd = 'refs/heads/x\u00a0y';
  assert.deepEqual(parseUpdates(`${zero} ${one} ${odd}\n`), [{ before: zero, after: one, ref: odd }]);
});

test('in the way of a branch are those above and below it, and not those whose name only begins the same', () => {
  const others = ['a', 'a/b', 'a/b/c', 'a/bc', 'ab'].map((name) => `refs/heads/${name}`);
  assert.deepEqual(inTheWayOf('refs/heads/a/b', others), ['refs/heads/a', 'refs/heads/a/b/c']);
});
