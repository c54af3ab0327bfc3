import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { createMemoryStore } from '@flynn/store/memory';
import * as fc from 'fast-check';
import { shelfType } from './demo.ts';
import { nameKey } from './keys.ts';
import { reap } from './reaper.ts';
import { TypeRegistry } from './registry.ts';
import { ResourceService } from './service.ts';
import type { Draft } from './service.ts';
import { tombstoneType } from './tombstone.ts';

const registry = new TypeRegistry([shelfType]);
const { signal } = new AbortController();
/** Few, so that ids are used again and again. */
const id = fc.constantFrom('a', 'b', 'c', 'd');

const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ do: fc.constant('create' as const), id, owner: fc.option(id, { nil: undefined }) }),
  },
  /** Sees its owner now, and arrives later without looking again. */
  { weight: 3, arbitrary: fc.record({ do: fc.constant('prepare' as const), id, owner: id }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('arrive' as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('delete' as const), id }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('reap' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('wait' as const) }) },
);

test('whatever comes and goes in whatever order, nobody outlives its owner but by two passes, and names stay true', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 40 }), async (steps) => {
      await using store = createMemoryStore();
      let nowMs = 0;
      let ids = 0;
      const now = () => nowMs;
      const service = new ResourceService({ store, now, newId: () => `uid-${(ids += 1)}`, log: silentLogger() });
      const prepared: Draft<unknown, unknown>[] = [];
      const reapAll = async () => {
        const before = await service.list(shelfType);
        for (const tombstone of await service.list(tombstoneType)) {
          await reap({ service, registry, now }, tombstone.id, signal);
        }
        const after = new Set((await service.list(shelfType)).map(({ uid }) => uid));
        const alive = new Set(before.map(({ uid }) => uid));
        for (const { uid, owner, spec } of before) {
          const isOrphan = owner?.uid !== undefined && !alive.has(owner.uid);
          assert.ok(after.has(uid) || isOrphan, `${spec.name} was taken, and its owner is there`);
        }
      };
      const unless =
        (...codes: Parameters<typeof hasCode>[1][]) =>
        (error: unknown) => {
          if (!hasCode(error, ...codes)) throw error;
        };
      for (const one of steps) {
        switch (one.do) {
          case 'create': {
            const owner = one.owner === undefined ? {} : { owner: { type: 'shelf', id: one.owner } };
            await service
              .create(shelfType, { id: one.id, spec: { name: one.id, books: 1 }, ...owner })
              .catch(unless('conflict', 'invalid'));
            break;
          }
          case 'prepare': {
            const owner = await service.find(shelfType, one.owner);
            if (owner === undefined) break;
            const spec = { name: `${one.id}-late`, books: 1 };
            const of = { type: 'shelf', id: owner.id, uid: owner.uid };
            prepared.push(service.draft(shelfType, { id: `${one.id}-late`, spec, owner: of }));
            break;
          }
          case 'arrive': {
            const draft = prepared.shift();
            if (draft !== undefined) await service.commit([draft.piece]).catch(unless('conflict'));
            break;
          }
          case 'delete':
            await service.delete(shelfType, one.id).catch(unless('not_found'));
            break;
          case 'reap':
            await reapAll();
            break;
          case 'wait':
            // Writes that had seen an owner arrive within the time between the passes.
            for (const draft of prepared.splice(0)) await service.commit([draft.piece]).catch(unless('conflict'));
            nowMs += 15_000;
            await reapAll();
            break;
        }
      }
      for (const draft of prepared.splice(0)) await service.commit([draft.piece]).catch(unless('conflict'));
      for (let pass = 0; (await service.list(tombstoneType)).length > 0; pass += 1) {
        assert.ok(pass < 40, 'the reaper comes to an end');
        await reapAll();
        nowMs += 30_000;
      }
      const left = await service.list(shelfType);
      const uids = new Set(left.map(({ uid }) => uid));
      for (const { owner, spec } of left) {
        assert.ok(owner?.uid === undefined || uids.has(owner.uid), `${spec.name} has lost its owner`);
      }
      const names = (await store.list(nameKey('shelf', ''))).entries.map(({ key, value }): [string, string] => [
        key,
        value,
      ]);
      assert.deepEqual(new Map(names), new Map(left.map((one) => [nameKey('shelf', one.spec.name), one.id])));
    }),
    { seed: 11, numRuns: 150 },
  );
});
