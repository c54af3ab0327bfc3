import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from 'fast-check';
import { spansOf } from './ansi.ts';

describe('escape sequences', () => {
  it('of colours become classes', () => {
    assert.deepEqual(spansOf('\x1b[1;31mno\x1b[0m yes'), [
      { text: 'no', classes: 'ansi-red ansi-bold' },
      { text: ' yes', classes: '' },
    ]);
    assert.deepEqual(spansOf('\x1b[44m\x1b[92mx\x1b[39;49my'), [
      { text: 'x', classes: 'ansi-green ansi-on-blue' },
      { text: 'y', classes: '' },
    ]);
    assert.deepEqual(spansOf('\x1b[38;5;9mx\x1b[38;2;1;2;3;4my'), [
      { text: 'x', classes: 'ansi-red' },
      { text: 'y', classes: 'ansi-red ansi-underlined' },
    ]);
  });

  it('with colons are one code with its parts', () => {
    const classesOf = (codes: string) => spansOf(`\x1b[${codes}mx`)[0]?.classes;
    assert.equal(classesOf('38:2::1:31:3'), '');
    assert.equal(classesOf('38:2:1:31:3;1'), 'ansi-bold');
    assert.equal(classesOf('48:2::4:1:3;31'), 'ansi-red');
    assert.equal(classesOf('38:5:9;4'), 'ansi-red ansi-underlined');
    assert.equal(classesOf('4:3'), 'ansi-underlined');
    assert.equal(classesOf('4;4:0'), '');
    // Of what underlines, a colour is not shown.
    assert.equal(classesOf('4:3;58:2::1:31:3'), 'ansi-underlined');
    assert.equal(classesOf('58;5;1'), '');
    assert.equal(classesOf('58;2;1;31;4'), '');
  });

  it('of anything else are not there', () => {
    const line = '\x1b]0;title\x07a\x1b[2Kb\x1b(Bc\x00\x1b[>4;2md\x1b[?25le\x1b[1 qf';
    assert.deepEqual(
      spansOf(line),
      Array.from('abcdef', (text) => ({ text, classes: '' })),
    );
    assert.deepEqual(spansOf('10 %\r100 %\r'), [{ text: '100 %', classes: '' }]);
  });

  it('never make a class of what a line says', () => {
    const known = /^(?:ansi-(?:on-)?[a-z]+ ?)*$/;
    const piece = fc.oneof(fc.string(), fc.constantFrom('\x1b[', 'm', ';', '38', '5', '31', '"', '<', '\x1b]'));
    fc.assert(
      fc.property(fc.array(piece), (pieces) => {
        for (const { text, classes } of spansOf(pieces.join(''))) {
          assert.match(classes, known);
          assert.doesNotMatch(text, /[\x00-\x08\x0b-\x1f\x7f]/);
        }
      }),
    );
  });
});
