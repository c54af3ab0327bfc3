import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseProcfile } from './procfile.ts';

const good: [string, string, Record<string, string>][] = [
  ['one type', 'web: node server.js', { web: 'node server.js' }],
  [
    'several types, comments and blank lines',
    '# all\n\nweb: a\nworker_2:   b --x: y\n',
    { web: 'a', worker_2: 'b --x: y' },
  ],
  ['Windows line ends and a byte order mark', '\uFEFFweb: a\r\nworker: b\r\n', { web: 'a', worker: 'b' }],
  ['no space after the colon', 'web:a', { web: 'a' }],
  ['nothing', '\n# nothing\n', {}],
];
for (const [name, text, expected] of good) {
  test(`a Procfile with ${name} is read`, () => assert.deepEqual(parseProcfile(text), expected));
}

const bad: [string, string, RegExp][] = [
  ['a line without a colon', 'web: a\nnode server.js', /line 2 is not "name: command"/],
  ['a name with capitals', 'Web: a', /line 1 has an unusable name/],
  ['a name with a dot', 'a.b: c', /line 1 has an unusable name/],
  ['no command', '\nweb:   ', /line 2 names web but no command/],
  ['the same type twice', 'web: a\nworker: b\nweb: c', /line 3 declares web again: line 1/],
];
for (const [name, text, expected] of bad) {
  test(`a Procfile with ${name} is refused, naming the line`, () => {
    assert.throws(() => parseProcfile(text), { code: 'invalid', message: expected });
  });
}
