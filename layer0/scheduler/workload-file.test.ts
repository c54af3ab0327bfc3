import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parseWorkloadFile } from './workload-file.ts';

const template = { image: { name: 'nginx' }, resources: { memoryBytes: 2 ** 26, cpuMillis: 100 } };
const parse = (value: unknown) => parseWorkloadFile(JSON.stringify(value), 'web.json');

describe('a workload file', () => {
  it('says what is special; the rest is filled in, the version from the template', () => {
    const web = parse({ id: 'web', template });
    assert.deepEqual([web.kind, web.count, web.priority, web.template.restart], ['service', 1, 50, 'always']);
    assert.match(web.version, /^[0-9a-f]{16}$/);
    const { image, resources } = template;
    assert.equal(parse({ id: 'other', count: 5, template: { resources, image } }).version, web.version);
    assert.notEqual(parse({ id: 'web', template: { ...template, env: { A: '1' } } }).version, web.version);
    assert.equal(parse({ id: 'web', version: 'v7', template }).version, 'v7');
  });

  const mistakes: [what: string, text: string, message: RegExp][] = [
    ['no JSON', '{ id: web }', /web\.json is no JSON: Expected/],
    ['no object', '[]', /web\.json is no workload:\n.*expected object, received array/],
    ['without what it needs', '{"id":"web","template":{"image":{"name":"x"}}}', /at template\.resources/],
    ['an id that is none', JSON.stringify({ id: 'Web/1', template }), /lower-case letters.*\n.*at id/],
    ['a number that is none', JSON.stringify({ id: 'web', count: -1, template }), /at count/],
    ['a name mistyped', JSON.stringify({ id: 'web', cuont: 3, template }), /it has no "cuont", did you mean count\?/],
    [
      'a name mistyped inside',
      JSON.stringify({ id: 'web', template: { ...template, comand: ['x'] } }),
      /it has no "template\.comand", did you mean command\?/,
    ],
    [
      'a name mistyped in a list',
      JSON.stringify({ id: 'web', template: { ...template, ports: [{ port: 80, servce: {} }] } }),
      /it has no "template\.ports\.0\.servce"/,
    ],
    [
      'labels of the platform',
      JSON.stringify({ id: 'web', template: { ...template, meta: { 'flynn.app': 'x' } } }),
      /begin with "flynn\." are the platform’s own\n.*at template\.meta/,
    ],
  ];
  for (const [what, text, message] of mistakes) {
    it(`is refused by what is wrong with it: ${what}`, () => {
      assert.throws(() => parseWorkloadFile(text, 'web.json'), message);
    });
  }
});
