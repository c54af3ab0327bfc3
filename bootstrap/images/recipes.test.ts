/** What is changed in the programs of an image and what these are told go together. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { recipes } from './recipes.ts';

test('a primary that cannot read the store has asked the other members before its lead is another’s', () => {
  const told = readFileSync(join(import.meta.dirname, '../../layer1/appliances/postgres/flynn-postgres'), 'utf8');
  const setting = (name: string) => Number(new RegExp(`^${name}: (\\d+)$`, 'm').exec(told)?.[1]);
  const changed = /grep -q "request\(member, 'post', endpoint, data, timeout=(\d+), retries=(\d+)\)"/;
  const [, timeout, retries] = changed.exec(recipes.postgres.setup ?? '') ?? [];
  const asksFor = Number(timeout) * (1 + Number(retries));
  assert.ok(setting('loop_wait') + setting('retry_timeout') + asksFor < setting('ttl'));
});
