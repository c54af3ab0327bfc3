import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseDocuments } from './documents.ts';

const file = `# apps
kind: App
name: shop
spec:
  env:
    A.B: one
    C: two
  routes:
    - domain: a.example.com
    - domain: b.example.com
      path: /x
---
---
{"kind": "demo/v1/Counter", "name": "peas", "spec": {"target": 3}}
`;

test('documents are read one by one, and every field knows its line', () => {
  const { documents, faults } = parseDocuments(file, 'all.yaml');
  assert.deepEqual(faults, []);
  const [shop, peas] = documents;
  assert.deepEqual([shop?.object.kind, peas?.object.spec], ['App', { target: 3 }]);
  const lines: [string, number][] = [
    ['', 2],
    ['name', 3],
    ['spec.env', 5],
    ['spec.env.A.B', 6],
    ['spec.env.C', 7],
    ['spec.routes.1', 10],
    ['spec.routes.1.path', 11],
    ['spec.routes.7.path', 8],
    ['spec.nothing.here', 4],
    ['owner', 2],
  ];
  for (const [path, line] of lines) assert.equal(shop?.whereIs(path), `all.yaml:${line}`, path);
  assert.equal(peas?.whereIs('spec.target'), 'all.yaml:14');
});

const wrong: [string, string, RegExp][] = [
  ['what is no YAML', 'kind: App\n  name: [', /^x.yaml:\d+ /],
  ['a field twice', 'kind: App\nname: a\nname: b', /^x.yaml:3 Map keys must be unique/],
  ['no kind', 'name: a', /^x.yaml:1 kind: say what it is/],
  ['an unknown field', 'kind: App\nname: a\nspecs: {}', /^x.yaml:3 specs: .*did you mean spec\?/],
  ['a list', '- a', /^x.yaml:1 an object is written as fields/],
  ['a word', 'hello', /^x.yaml:1 an object is written as fields/],
  ['a label that is no text', 'kind: App\nlabels:\n  a: 1', /^x.yaml:3 labels.a: .*string/],
  ['a name that is a number', 'kind: App\nname: 7', /^x.yaml:2 name: .*string/],
];
for (const [what, text, pattern] of wrong) {
  test(`${what} is told with its line`, () => {
    const { documents, faults } = parseDocuments(text, 'x.yaml');
    assert.deepEqual(documents, []);
    assert.match(faults.map(({ where, message }) => `${where} ${message}`).join('\n'), pattern);
  });
}

test('of several mistakes each is told, and what "get" tells beside is not looked at', () => {
  const text =
    'kind: App\nnam: a\nspce: {}\n---\nkind: App\nname: b\nstatus: {x: 1}\nmetadata: {revision: 3}\noutlook: ready';
  const { documents, faults } = parseDocuments(text, 'x.yaml');
  assert.deepEqual(
    faults.map(({ where }) => where),
    ['x.yaml:2', 'x.yaml:3'],
  );
  assert.deepEqual(
    documents.map(({ object }) => object),
    [{ kind: 'App', name: 'b', spec: {} }],
  );
});

test('a bomb of aliases is refused', () => {
  const levels = Array.from({ length: 12 }, (_, i) => `l${i + 1}: &l${i + 1} [${`*l${i},`.repeat(9)}]`);
  const text = `kind: App\nname: a\nspec:\n  l0: &l0 [x]\n${levels.map((line) => `  ${line}\n`).join('')}`;
  assert.throws(() => parseDocuments(text, 'x.yaml'), /alias/);
});
