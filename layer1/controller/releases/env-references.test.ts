import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { resolveReferences } from './env-references.ts';

const env = { USER: 'ada', PASSWORD: 'p$a${USER}$$', HOST: 'db' };

test('references come to what others hold, through several; what they hold is not read as one', () => {
  const references = { AT: '${USER}@${HOST}', URL: 'postgres://${AT}/x?p=${PASSWORD}', SAME: '${URL}' };
  assert.deepEqual(resolveReferences(env, references), {
    ...env,
    AT: 'ada@db',
    URL: 'postgres://ada@db/x?p=p$a${USER}$$',
    SAME: 'postgres://ada@db/x?p=p$a${USER}$$',
  });
});

test('without references nothing is read as one', () => {
  assert.deepEqual(resolveReferences(env, {}), env);
  const strange = { A: '${', B: '${A}', C: '$${A}', D: '${no name}', E: "$'\\$&$`" };
  assert.deepEqual(resolveReferences(strange, {}), strange);
});

test('only ${ begins one, and $${ is ${', () => {
  const cases: [string, string][] = [
    ['$', '$'],
    ['$USER', '$USER'],
    ['$$', '$$'],
    ['$${USER}', '${USER}'],
    ['$$${USER}', '$${USER}'],
    ['${USER}$', 'ada$'],
    ['a${USER}b}', 'aadab}'],
    ['', ''],
  ];
  for (const [template, value] of cases) assert.equal(resolveReferences(env, { X: template })['X'], value, template);
});

test('what a variable held before does not count once it refers to others', () => {
  assert.equal(resolveReferences({ A: 'old', B: '1' }, { A: '${B}' })['A'], '1');
});

test('what comes to nothing is told, without what variables hold', () => {
  const many = Object.fromEntries(
    Array.from({ length: 40 }, (_, index) => [`V${index}`, index === 0 ? 'x' : `\${V${index - 1}}\${V${index - 1}}`]),
  );
  const deep = Object.fromEntries(Array.from({ length: 60 }, (_, index) => [`D${index}`, `\${D${index + 1}}`]));
  for (const [references, pattern] of [
    [{ A: '${GONE}' }, /^A refers to \$\{GONE\}, and the app has no variable GONE: set it too, or set A anew$/],
    [{ A: '${B}', B: '${GONE}' }, /^B refers to \$\{GONE\}/],
    [{ A: '${A}' }, /in a circle: A → A$/],
    [{ Z: '${A}', A: '${B}', B: '${C}', C: '${A}' }, /in a circle: A → B → C → A$/],
    [{ A: 'secret ${no name}' }, /^A has a \$\{ that names no variable: write \$\{NAME\}, and \$\$\{/],
    [{ A: 'secret ${' }, /^A has a \$\{/],
    [{ A: 'secret ${USER' }, /^A has a \$\{/],
    [{ A: '${constructor}' }, /^A refers to \$\{constructor\}/],
    [deep, /^D0 refers to others through more than 50 variables/],
    [many, /^V\d+ comes to more than 128 KiB/],
  ] as const) {
    assert.throws(
      () => resolveReferences(env, references),
      (error) => {
        assert.ok(hasCode(error, 'invalid') && error instanceof Error);
        assert.match(error.message, pattern);
        assert.doesNotMatch(error.message, /secret/);
        return true;
      },
    );
  }
});
