import assert from 'node:assert/strict';
import { test } from 'node:test';
import { authorityFindings } from './authority.ts';

test('a change of the authority is told until it is through, then hosts that took no part in it', () => {
  const [followed, behind, silent] = [{ id: 'h1', authorityRound: 3 }, { id: 'h3', authorityRound: 2 }, { id: 'h2' }];
  const say = (facts: Parameters<typeof authorityFindings>[0]) =>
    authorityFindings(facts).map(({ severity, subject, since }) => [severity, subject, since]);
  const named = { round: 3, issuing: 'the-new-one' };
  assert.deepEqual(say({ named: undefined, hosts: [silent] }), []);
  assert.deepEqual(say({ named, hosts: [followed] }), []);
  assert.deepEqual(say({ named, hosts: [behind, followed, silent] }), [
    ['warning', 'host h2', undefined],
    ['warning', 'host h3', undefined],
  ]);
  const since = '2030-01-01T00:00:00.000Z';
  assert.deepEqual(say({ named: { ...named, since }, hosts: [behind] }), [['warning', 'authority', since]]);
});
