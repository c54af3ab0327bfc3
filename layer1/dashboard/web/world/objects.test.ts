import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Objects } from './objects.ts';

type Thing = { id: string; app?: string; at: number };

test('those of an app are those of all that have it, in their order, whatever was put, moved and deleted', () => {
  const id = fc.constantFrom('a', 'b', 'c', 'd');
  const app = fc.constantFrom('x', 'y', undefined);
  const steps = fc.array(fc.record({ id, app, isDelete: fc.boolean() }), { maxLength: 30 });
  fc.assert(
    fc.property(steps, (all) => {
      const objects = new Objects<Thing>((thing) => thing.app);
      for (const [at, step] of all.entries()) {
        if (step.isDelete) objects.delete(step.id);
        else objects.put(step.id, { id: step.id, at, ...(step.app === undefined ? {} : { app: step.app }) });
        for (const one of ['x', 'y']) {
          assert.deepEqual(
            objects.of(one),
            objects.all().filter((thing) => thing.app === one),
          );
        }
        assert.deepEqual(
          objects.ids(),
          objects.all().map((thing) => thing.id),
        );
        assert.deepEqual(objects.get(step.id)?.at, step.isDelete ? undefined : at);
      }
    }),
  );
});

test('of an app that has one only that one is looked at, however many others have', () => {
  let looked = 0;
  const objects = new Objects<Thing>((thing) => {
    looked += 1;
    return thing.app;
  });
  for (let at = 0; at < 1_000; at += 1) objects.put(`t${at}`, { id: `t${at}`, at, app: `app${at}` });
  looked = 0;
  assert.deepEqual(
    objects.of('app500').map((thing) => thing.at),
    [500],
  );
  assert.equal(looked, 0);
});
