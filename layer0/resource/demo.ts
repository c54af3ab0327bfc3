/** A resource type and its reconciler, whole: what the package's tests run, and what to copy from. */
import { FlynnError } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { z } from 'zod';
import { keysOf, runReconciler } from './reconciler.ts';
import type { ResourceService } from './service.ts';
import { defineType } from './type.ts';

/** A shelf wants so many books; the reconciler puts one at a time, and takes them all off before the shelf goes. */
export const shelfType = defineType({
  name: 'shelf',
  version: 1,
  spec: z.strictObject({ name: z.string(), material: z.string().default('oak'), books: z.int().min(0) }),
  status: z.strictObject({ books: z.int(), seenGeneration: z.int() }),
  initialStatus: () => ({ books: 0, seenGeneration: 0 }),
  nameOf: (spec) => spec.name,
  validateUpdate(before, after) {
    if (before.material !== after.material) {
      throw new FlynnError('invalid', 'the material of a shelf cannot change: make a new shelf');
    }
  },
});

const finalizer = 'librarian';

export async function runLibrarian(options: {
  service: ResourceService;
  log: Logger;
  signal: AbortSignal;
}): Promise<void> {
  const { service, log, signal } = options;
  await using shelves = await service.mirror(shelfType, { signal });
  await runReconciler({
    name: 'librarian',
    sources: [keysOf(shelves)],
    log,
    signal,
    async reconcile(id, { signal }) {
      const shelf = await service.find(shelfType, id, { signal });
      if (shelf === undefined) return undefined;
      const wanted = shelf.deletingSince === undefined ? shelf.spec.books : 0;
      const { books } = shelf.status;
      if (shelf.deletingSince !== undefined && books === 0) {
        await service.removeFinalizer(shelfType, id, finalizer, { signal });
        return undefined;
      }
      if (shelf.deletingSince === undefined && !shelf.finalizers.includes(finalizer)) {
        await service.addFinalizer(shelfType, id, finalizer, { signal });
        return undefined;
      }
      const next = { books: books + Math.sign(wanted - books), seenGeneration: shelf.generation };
      await service.updateStatus(shelfType, id, () => next, { expectRevision: shelf.revision, signal });
      return next.books === wanted ? undefined : { againInMs: 1 };
    },
  });
}
