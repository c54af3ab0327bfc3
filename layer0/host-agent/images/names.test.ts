import assert from 'node:assert/strict';
import { test } from 'node:test';
import { imageNamesOf, isLocalName, listedName, nameNotId } from './names.ts';

test('names are compared as the engine lists them', () => {
  assert.equal(listedName('redis'), 'redis:latest');
  assert.equal(listedName('docker.io/library/redis:7'), 'redis:7');
  assert.equal(listedName('index.docker.io/some/redis:7'), 'some/redis:7');
  assert.equal(listedName('host.example:5000/app'), 'host.example:5000/app:latest');
  const names = imageNamesOf([{ image: { name: 'redis' } }, { image: { base: 'flynn/slug-runner:1', layers: [] } }]);
  assert.deepEqual([...names], ['redis:latest', 'flynn/slug-runner:1']);
});

test('what hosts made of apps is known by its names and ids, however they are written', () => {
  const digest = 'a'.repeat(64);
  const local = [
    'flynn-prod/image:0123',
    'flynn-prod/stack:0123',
    'flynn-prod/build:app',
    `flynn-prod/image@sha256:${digest}`,
    'docker.io/flynn-prod/image:0123',
    'index.docker.io/flynn-prod/image:0123',
    'FLYNN-prod/image:0123',
    `sha256:${digest}`,
    digest,
    '4b',
  ];
  for (const name of local) assert.equal(isLocalName(name, 'prod'), true, name);
  const foreign = ['redis', 'cafe:1', 'flynn/slug-runner:1', 'flynn-other/image:1', 'r.example/flynn-prod/image:1'];
  for (const name of foreign) assert.equal(isLocalName(name, 'prod'), false, name);
  assert.equal(isLocalName('flynn-other/image:1'), true, 'of any cluster');
});

test('a short name that could be the beginning of an id is asked for as a name', () => {
  assert.deepEqual(['cafe', '4b', 'redis', 'cafe:1'].map(nameNotId), ['cafe:latest', '4b:latest', 'redis', 'cafe:1']);
  assert.equal(isLocalName(nameNotId('cafe'), 'prod'), false);
  const id = 'a'.repeat(64);
  for (const name of [id, `sha256:${id}`]) assert.equal(isLocalName(nameNotId(name), 'prod'), true, name);
});
