import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { instructionsOf } from './instructions.ts';
import { type Expanded, type ImageEnvs, expand, walkVariables } from './variables.ts';

/** What stands in `LABEL` lines, by what is before each. */
function told(dockerfile: string, given: Record<string, string> = {}, bases: ImageEnvs = new Map()): Expanded[] {
  const found: Expanded[] = [];
  walkVariables(instructionsOf(dockerfile), { given, bases }, ({ name, text }, valueOf) => {
    if (name === 'LABEL') found.push(expand(text.slice('LABEL '.length), valueOf, { quotes: 'enclose' }));
  });
  return found;
}

const values: Record<string, string> = { A: 'a', EMPTY: '', SPACED: 'x y', ÄB: 'letters' };
const valueOf = (name: string): string | undefined => (Object.hasOwn(values, name) ? values[name] : undefined);

const words: [given: string, enclosed: string, stays: string][] = [
  ['plain', 'plain', 'plain'],
  ['$A-${A}b$Ab', 'a-ab', 'a-ab'],
  ['${NO:-x}${EMPTY:-y}${EMPTY-z}${A:-z}${NO-$A}', 'xyaa', 'xyaa'],
  ['${A:+x}${EMPTY:+y}${EMPTY+z}${NO+w}', 'xz', 'xz'],
  ['${NO:-${EMPTY:-$SPACED}}', 'x y', 'x y'],
  [`'$A' "$A \\" \\$A \\x" \\$A \\'`, `$A a " $A \\x $A '`, `'a' "a " $A x" $A '`],
  ['${NO:-"x}"}', 'x}', '"x"}'],
  ['$ $. $$ $1 $@ $ÄB 5$', '$ $.    letters 5$', '$ $.    letters 5$'],
  ['one\\', 'one', 'one'],
];
for (const [given, enclosed, stays] of words) {
  test(`${given} is read as the engine reads words, and BuildKit here-documents`, () => {
    assert.equal(expand(given, valueOf, { quotes: 'enclose' }).text, enclosed);
    assert.equal(expand(given, valueOf, { quotes: 'stay' }).text, stays);
  });
}

test('what nothing sets is told', () => {
  const { unset } = expand('$A $uri ${NO:-$A} ${NO:+$x} ${A:-$y} $uri', valueOf, { quotes: 'stay' });
  assert.deepEqual(unset, ['uri']);
});

for (const bad of [
  '${A',
  '${}',
  '${A%x}',
  '${A:?x}',
  '${A:x}',
  '"$A',
  "'x",
  '${A:-"}',
  `${'${A+'.repeat(30)}${'}'.repeat(30)}`,
]) {
  test(`${bad} is told not to be understood`, () =>
    assert.throws(
      () => expand(bad, valueOf, { quotes: 'enclose' }),
      (error) => hasCode(error, 'invalid') && / is not understood: /.test(error.message),
    ));
}

test('what grows without end has one', () => {
  const doubling = `FROM scratch\nENV A=xxxxxxxxxx\n${'ENV A=$A$A\n'.repeat(60)}LABEL x\nLABEL $A\n`;
  assert.deepEqual(
    told(doubling).map(({ unknown }) => unknown),
    [[], ['A']],
  );
  const long = 'x'.repeat(1024 ** 2);
  assert.throws(() => expand('$L$L', () => long, { quotes: 'stay' }), /larger than a megabyte/);
});

const dockerfiles: [what: string, dockerfile: string, texts: string[], given?: Record<string, string>][] = [
  [
    'ARG has what is given, else its default, else that of before the first FROM',
    'ARG A=1 B=2\nFROM scratch\nLABEL $A$B\nARG A\nARG B=3\nARG C=4 D\nLABEL $A$B$C$D',
    ['', '1g4'],
    { B: 'g' },
  ],
  [
    'ENV counts before ARG, and each of a line means what was before it',
    'FROM scratch\nARG A=1\nENV A=2 B=$A\nARG A=3\nENV C $A  "and $B"\nENV D=\'$A\' E="$A b" F=x\\ y\nLABEL $A$B|$C|$D|$E|$F',
    ['21|2  and 1|$A|2 b|x y'],
  ],
  [
    'a stage has the ENV of the one that it begins with, and not its ARG',
    'FROM scratch AS One\nENV A=1\nARG B=2\nFROM scratch\nLABEL $A\nFROM one\nLABEL $A$B',
    ['', '1'],
  ],
];
for (const [what, dockerfile, texts, given] of dockerfiles) {
  test(what, () => {
    const found = told(dockerfile, given);
    assert.deepEqual(
      found.map(({ text }) => text),
      texts,
    );
    assert.ok(found.every(({ unknown }) => unknown.length === 0));
  });
}

test('what an image may set is unknown, and what is made of it', () => {
  const dockerfile =
    'FROM debian AS one\nENV PATH=/x:$PATH A=1\nARG HOME\nFROM one\nLABEL $PATH $A $HOME $1 ${A:-$NO} ${NO:-1} ${PATH:+$A}';
  assert.deepEqual(told(dockerfile), [{ text: ' 1   1  ', unknown: ['PATH', 'HOME', 'NO'], unset: ['1'] }]);
});

test('what is known of an image counts before ARG, and nothing else of it is set', () => {
  const dockerfile = 'FROM debian AS one\nENV PATH=/x:$PATH\nFROM one\nARG V=1\nARG W=2\nLABEL $PATH $V $W $NO';
  const bases = new Map([['debian', { PATH: '/bin', V: 'of the image' }]]);
  assert.deepEqual(told(dockerfile, { V: '3', W: '4' }, bases), [
    { text: '/x:/bin of the image 4 ', unknown: [], unset: ['NO'] },
  ]);
});
