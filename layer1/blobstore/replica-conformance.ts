/** What every store's copies have to keep to, on a disk, in memory or over HTTP. For tests. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import type { Replica } from './replica.ts';
import { chunks, digestOf, textOf } from './testing.ts';

const page = { after: '', limit: 100 };

export function describeReplica(name: string, open: (t: TestContext) => Promise<Replica>): void {
  describe(name, () => {
    test('a copy keeps when it was last used, and the later of both', async (t) => {
      const replica = await open(t);
      const digest = digestOf('x');
      assert.deepEqual(await replica.copy({ digest, usedAt: 2_000 }, chunks('x')), {
        digest,
        sizeBytes: 1,
        usedAt: 2_000,
      });
      await replica.copy({ digest, usedAt: 1_000 }, chunks('x'));
      assert.equal((await replica.find(digest))?.usedAt, 2_000);
      assert.deepEqual(await replica.use(digest, 1_500), { digest, sizeBytes: 1 });
      assert.equal((await replica.find(digest))?.usedAt, 2_000);
      await replica.use(digest, 3_000);
      assert.deepEqual(await replica.list(page), [{ digest, sizeBytes: 1, usedAt: 3_000 }]);
      assert.equal(await textOf((await replica.open(digest)).body), 'x');
    });

    test('a copy of other bytes is refused', async (t) => {
      const replica = await open(t);
      await assert.rejects(replica.copy({ digest: digestOf('x'), usedAt: 1 }, chunks('y')), (e) =>
        hasCode(e, 'invalid'),
      );
      assert.deepEqual(await replica.list(page), []);
    });

    test('what is not there is neither found nor used nor read', async (t) => {
      const replica = await open(t);
      const digest = digestOf('x');
      assert.equal(await replica.find(digest), undefined);
      assert.equal(await replica.use(digest, 1), undefined);
      await assert.rejects(replica.open(digest), (e) => hasCode(e, 'not_found'));
    });

    test('a removal takes what was used before, for good, and nothing that was used since', async (t) => {
      const replica = await open(t);
      const digest = digestOf('x');
      await replica.copy({ digest, usedAt: 2_000 }, chunks('x'));
      assert.equal(await replica.remove({ digest, before: 2_000 }), false);
      assert.deepEqual(await replica.removals(page), []);
      assert.equal(await replica.remove({ digest, before: 2_001 }), true);
      assert.equal(await replica.find(digest), undefined);
      await assert.rejects(replica.copy({ digest, usedAt: 2_000 }, chunks('x')), (e) => hasCode(e, 'conflict'));
      assert.equal(await replica.remove({ digest, before: 1_000 }), true);
      assert.deepEqual(await replica.removals(page), [{ digest, before: 2_001 }]);
      await replica.copy({ digest, usedAt: 2_001 }, chunks('x'));
      assert.deepEqual(await replica.removals(page), []);
      assert.equal((await replica.find(digest))?.usedAt, 2_001);
    });

    test('a removal of what is not there is remembered', async (t) => {
      const replica = await open(t);
      const digest = digestOf('x');
      assert.equal(await replica.remove({ digest, before: 5_000 }), true);
      await assert.rejects(replica.copy({ digest, usedAt: 4_999 }, chunks('x')), (e) => hasCode(e, 'conflict'));
    });

    test('of two pointers the later counts, whatever comes first; of the same moment always the same', async (t) => {
      const replica = await open(t);
      const [one, two] = [digestOf('1'), digestOf('2')].toSorted();
      assert.ok(one !== undefined && two !== undefined);
      const at = (digest: string | null, changedAt: number) => ({ name: 'a/b', digest, changedAt });
      assert.equal(await replica.pointer('a/b'), undefined);
      await replica.point(at(one, 2_000));
      await replica.point(at(two, 1_000));
      assert.deepEqual(await replica.pointer('a/b'), at(one, 2_000));
      await replica.point(at(two, 2_000));
      await replica.point(at(one, 2_000));
      await replica.point(at(null, 2_000));
      assert.deepEqual(await replica.pointer('a/b'), at(two, 2_000));
      await replica.point(at(null, 3_000));
      assert.deepEqual(await replica.pointers(page), [at(null, 3_000)]);
    });
  });
}
