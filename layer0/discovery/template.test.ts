import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DiscoveryEvent, Instance } from './api.ts';
import { KnownServices } from './service-state.ts';
import { compileTemplate } from './template.ts';

const instance = (service: string, id: string, more: Partial<Instance> = {}): Instance => ({
  id,
  service,
  address: '10.0.0.1:80',
  attributes: {},
  createdRevision: 1,
  ...more,
});

function fill(text: string, events: DiscoveryEvent[] = [], env: Record<string, string> = {}): string {
  const known = new KnownServices();
  for (const event of events) known.apply(event);
  return compileTemplate(text, 't.hbs')(known.services, env);
}
const up = (one: Instance): DiscoveryEvent => ({ event: 'up', instance: one });

test('instances come sorted by id, whatever their age, with what a configuration needs of them', () => {
  const events = [
    up(instance('web', 'b', { attributes: { zone: 'x' } })),
    up(instance('web', 'a', { address: '[fd00::1]:81', createdRevision: 9 })),
    up(instance('db', 'd')),
  ];
  const line = '{{#each (instances "web")}}{{id}} {{host}} {{port}} {{address}} {{lookup attributes "zone"}};{{/each}}';
  assert.equal(fill(line, events), 'a fd00::1 81 [fd00::1]:81 ;b 10.0.0.1 80 10.0.0.1:80 x;');
  assert.equal(fill('{{#each (instances "web" zone="x")}}{{id}}{{/each}}', events), 'b');
  assert.equal(fill('{{#each (instances "none")}}{{id}}{{else}}-{{/each}}', events), '-');
  assert.equal(fill('{{#each (services)}}{{this}} {{/each}}', events), 'db web ');
});

test('a service may have a leader and a document, or not', () => {
  const events: DiscoveryEvent[] = [
    { event: 'leader', service: 'db', instance: instance('db', 'd') },
    { event: 'meta', service: 'db', meta: { data: { users: ['a', 'b'] }, version: 3 } },
  ];
  const text = '{{#with (leader "db")}}{{id}}{{else}}nobody{{/with}} {{#with (meta "db")}}{{json users}}{{/with}}';
  assert.equal(fill(text, events), 'd ["a","b"]');
  assert.equal(fill(text), 'nobody ');
});

test('nothing is escaped: a configuration is not HTML', () => {
  assert.equal(fill('{{env "A"}}', [], { A: `<"&'>` }), `<"&'>`);
});

test('what does not exist is an error that names the template, not an empty place', () => {
  const events = [up(instance('web', 'a'))];
  const wrong = (text: string, about: RegExp) =>
    assert.throws(() => fill(text, events), { code: 'invalid', message: about });
  wrong('{{#each (instances "web")}}{{prot}}{{/each}}', /t\.hbs: .*prot/);
  wrong('{{#each (instances "web")}}{{attributes.zone}}{{/each}}', /t\.hbs: .*zone/);
  wrong('{{instanses "web"}}', /instanses/);
  wrong('{{#each (instances)}}{{/each}}', /takes a name/);
  wrong('{{env "NOT_SET"}}', /NOT_SET is not set/);
  assert.equal(fill('{{env "NOT_SET" default="x"}}'), 'x');
});

test('a template that is none is refused when it is compiled', () => {
  assert.throws(() => compileTemplate('{{#each', 't.hbs'), { code: 'invalid', message: /^t\.hbs: Parse error/ });
});
