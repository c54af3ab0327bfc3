import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { changeOf, edited, isEmpty, nameProblem, parseAssignments } from './env-change.ts';

describe('an edit of variables', () => {
  it('tells what is new, changed and gone, by name', () => {
    const change = changeOf({ A: '1', B: '2', C: '3' }, { A: '1', B: '4', C: null, D: '5', E: null });
    assert.deepEqual(change, { added: ['D'], changed: ['B'], removed: ['C'] });
    assert.equal(isEmpty(changeOf({ A: '1' }, { A: '1', X: null })), true);
  });

  it('makes a value of what was a reference', () => {
    const before = { env: { URL: 'postgres://ada@db', USER: 'ada' }, references: { URL: 'postgres://${USER}@db' } };
    assert.deepEqual(edited(before, { URL: 'sqlite:x' }), { env: { URL: 'sqlite:x', USER: 'ada' }, references: {} });
    assert.deepEqual(edited(before, { NEW: '' }).references, before.references);
    assert.deepEqual(edited(before, { URL: null }), { env: { USER: 'ada' }, references: {} });
  });

  it('reads lines of a .env file, and leaves out what is none', () => {
    const text = '# secrets\nexport A=1\nB="x y"\r\nC=a=b\nnot a line\nD=\n';
    assert.deepEqual(parseAssignments(text), { A: '1', B: 'x y', C: 'a=b', D: '' });
  });

  it('says why a name is none', () => {
    assert.equal(nameProblem('DATABASE_URL'), undefined);
    for (const name of ['1A', 'A-B', 'A B', 'Ä']) assert.match(nameProblem(name) ?? '', /letters/);
  });
});
