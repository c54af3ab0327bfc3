import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DiscoveryEvent, Instance } from '@flynn/discovery/api';
import { label } from '../engine/labels.ts';
import { Places } from './places.ts';

const instance = (address: string, attributes: Record<string, string>): Instance => ({
  service: 'web',
  id: 'a',
  address,
  attributes,
  createdRevision: 1,
});
const up = (one: Instance): DiscoveryEvent => ({ event: 'up', instance: one });
const update = (one: Instance): DiscoveryEvent => ({ event: 'update', instance: one });
const here = instance('192.0.2.1:80', { [label.group]: 'g', use: '5' });

test('who comes, goes, moves or changes its group counts; what else it tells does not', () => {
  const places = new Places();
  assert.equal(places.follow([up(here)]), true);
  assert.equal(places.follow([update({ ...here, attributes: { [label.group]: 'g', use: '10' } })]), false);
  assert.equal(places.follow([update({ ...here, attributes: { [label.group]: 'h' } })]), true);
  assert.equal(places.follow([update(here), update(here)]), true);
  assert.equal(places.follow([update(instance('192.0.2.2:80', here.attributes))]), true);
  assert.equal(places.follow([{ event: 'down', instance: here }]), true);
  assert.equal(places.follow([up(here)]), true, 'it came back');
  assert.equal(places.follow([{ event: 'leader', service: 'web', instance: here }]), false);
});
