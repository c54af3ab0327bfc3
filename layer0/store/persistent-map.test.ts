import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { PersistentMap } from './persistent-map.ts';

const changes = fc.array(fc.tuple(fc.string({ maxLength: 3 }), fc.option(fc.integer(), { nil: undefined })));

test('a persistent map holds what a Map would, and its earlier versions stay as they were', () => {
  fc.assert(
    fc.property(fc.array(changes), (batches) => {
      const model = new Map<string, number>();
      let map = PersistentMap.empty<number>();
      for (const batch of batches) {
        const before = { map, content: new Map(map) };
        map = map.with(batch);
        for (const [key, value] of batch) {
          if (value === undefined) model.delete(key);
          else model.set(key, value);
        }
        assert.deepEqual(new Map(map), model);
        assert.equal(map.size, model.size);
        assert.deepEqual(new Map(before.map), before.content);
        for (const [key, value] of model) assert.ok(map.has(key) && map.get(key) === value);
      }
    }),
  );
});

test('entries that did not change are shared between versions', () => {
  const values = Array.from({ length: 5000 }, (_, i) => [`key-${i}`, { i }] as const);
  const before = PersistentMap.empty<{ i: number }>().with(values);
  const after = before.with([['key-7', { i: -1 }]]);
  assert.equal(after.get('key-8'), before.get('key-8'));
  assert.equal(before.get('key-7')?.i, 7);
  assert.equal(after.get('key-7')?.i, -1);
  assert.deepEqual([...after.keys()].sort(), values.map(([key]) => key).sort());
});
