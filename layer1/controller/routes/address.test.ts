import assert from 'node:assert/strict';
import { test } from 'node:test';
import { zoneOf } from './address.ts';

test('a name is of the longest domain it is within', () => {
  const domains = ['example.com', 'apps.example.com'];
  assert.equal(zoneOf('shop.apps.example.com', domains), 'apps.example.com');
  assert.equal(zoneOf('apps.example.com', domains), 'apps.example.com');
  assert.equal(zoneOf('shop.example.com', domains), 'example.com');
  assert.equal(zoneOf('notexample.com', domains), undefined);
});
