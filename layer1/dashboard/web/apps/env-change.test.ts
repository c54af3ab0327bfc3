import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  changeOf,
  drafted,
  edited,
  isEmpty,
  nameProblem,
  noDraft,
  overtaken,
  pastedOf,
  takenBack,
} from './env-change.ts';

describe('an edit of variables', () => {
  it('tells what is new, changed and gone, by name', () => {
    const change = changeOf({ A: '1', B: '2', C: '3' }, { A: '1', B: '4', C: null, D: '5', E: null });
    assert.deepEqual(change, { added: ['D'], changed: ['B'], removed: ['C'] });
    assert.equal(isEmpty(changeOf({ A: '1' }, { A: '1', X: null })), true);
  });

  it('knows what somebody else has changed since it began', () => {
    const before = { A: '1', B: '2' };
    let draft = drafted(noDraft, before, { A: 'mine', B: null, C: 'new' });
    assert.deepEqual(overtaken(draft, before), []);
    assert.deepEqual(overtaken(draft, { ...before, D: 'theirs' }), []);
    const theirs = { A: 'theirs', B: '3', C: 'theirs' };
    assert.deepEqual(overtaken(draft, theirs), ['A', 'B', 'C']);
    assert.deepEqual(overtaken(draft, { A: 'mine', C: 'new' }), [], 'they made it what it is to be');
    draft = drafted(draft, theirs, { A: 'mine still' });
    assert.deepEqual(overtaken(draft, theirs), ['A', 'B', 'C'], 'to go on with it is not to have seen theirs');
    draft = drafted(takenBack(draft, 'A'), theirs, { A: 'mine' });
    assert.deepEqual(overtaken(draft, theirs), ['B', 'C']);
    assert.deepEqual(overtaken(drafted(noDraft, before, { toString: 'x' }), before), []);
  });

  it('makes a value of what was a reference', () => {
    const before = { env: { URL: 'postgres://ada@db', USER: 'ada' }, references: { URL: 'postgres://${USER}@db' } };
    assert.deepEqual(edited(before, { URL: 'sqlite:x' }), { env: { URL: 'sqlite:x', USER: 'ada' }, references: {} });
    assert.deepEqual(edited(before, { NEW: '' }).references, before.references);
    assert.deepEqual(edited(before, { URL: null }), { env: { USER: 'ada' }, references: {} });
  });

  it('takes what is pasted for a .env file where it has more than a name, and reads it as the command line does', () => {
    const key = '-----BEGIN KEY-----\nMIIEabc\nZZZZ09=\n-----END KEY-----\n';
    const text = `# secrets\nexport A=1 # note\r\nKEY="${key}"\nB="x\\ny"\nC=a=b\nD=\n`;
    const values = { A: '1', KEY: key, B: 'x\ny', C: 'a=b', D: '' };
    assert.deepEqual(pastedOf(text), { is: 'read', values });
    for (const name of ['DATABASE_URL', ' DATABASE_URL\n', '1A']) assert.deepEqual(pastedOf(name), { is: 'name' });
  });

  it('takes nothing of what is pasted where a line of it sets nothing, and tells no value', () => {
    for (const text of ['A=1\nnot a line\nB=2', 'A=1\nKEY="-----BEGIN KEY-----\nMIIEabc', 'one\ntwo']) {
      const pasted = pastedOf(text);
      assert.ok(pasted.is === 'wrong', text);
      assert.match(pasted.problem, /^line [12] .*sets nothing: (?!.*(?:not a|BEGIN|one|two))/);
    }
  });

  it('says why a name is none', () => {
    assert.equal(nameProblem('DATABASE_URL'), undefined);
    for (const name of ['1A', 'A-B', 'A B', 'Ä']) assert.match(nameProblem(name) ?? '', /letters/);
  });
});
