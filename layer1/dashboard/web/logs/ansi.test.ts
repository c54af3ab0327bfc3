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

  it('of anything else are not there', () => {
    assert.deepEqual(spansOf('\x1b]0;title\x07a\x1b[2Kb\x1b(Bc\x00'), [
      { text: 'a', classes: '' },
      { text: 'b', classes: '' },
      // Of a charset the choice itself is text like any other.
      { text: 'Bc', classes: '' },
    ]);
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
