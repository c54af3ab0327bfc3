/** A resource type and its reconciler, whole: what the package's tests run, and what to copy from. */
import type { Logger } from '@flynn/kit/log';
import { z } from 'zod';
import { holds } from './access.ts';
import { keysOf, runReconciler } from './reconciler.ts';
import type { ResourceService } from './service.ts';
import { defineType } from './type.ts';

/** A shelf wants so many books; the reconciler puts one at a time, and takes them all off before the shelf goes. */
export const shelfType = defineType({
  name: 'shelf',
  group: 'demo',
  version: 1,
  spec: z.strictObject({ name: z.string(), material: z.string().default('oak'), books: z.int().min(0) }),
  status: z.strictObject({ books: z.int() }),
  initialStatus: () => ({ books: 0 }),
  nameField: 'name',
  nameRule: z.string().regex(/^[a-z][a-z0-9-]{0,62}$/, 'one lower-case word'),
  immutable: ['material'],
  mutate: (spec) => ({ ...spec, name: spec.name.trim().toLowerCase() }),
  validate: ({ material, books }) =>
    material === 'pine' && books > 100 ? [{ path: 'books', message: 'a shelf of pine holds 100 books' }] : [],
  authorise: {
    read: (asking, shelf) => holds(asking, 'viewer', shelf.owner),
    list: () => true,
    write: (asking, owner) => holds(asking, 'developer', owner),
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
      if (shelf.deletingSince !== undefined && shelf.status.books === 0) {
        await service.removeFinalizer(shelfType, id, finalizer, { signal });
        return undefined;
      }
      if (shelf.deletingSince === undefined && !shelf.finalizers.includes(finalizer)) {
        await service.addFinalizer(shelfType, id, finalizer, { signal });
        return undefined;
      }
      const books = shelf.status.books + Math.sign(wanted - shelf.status.books);
      const isFull = books === shelf.spec.books;
      const message = `${books} of ${shelf.spec.books} books`;
      const report = {
        status: { books },
        observedGeneration: shelf.generation,
        conditions: [{ type: 'Filled', status: isFull ? 'True' : 'False', reason: 'Counted', message } as const],
        waitingFor: { [finalizer]: `${books} books are still on it` },
      };
      await service.change(shelfType, id, () => report, { expectRevision: shelf.revision, signal });
      return books === wanted ? undefined : { againInMs: 1 };
    },
  });
}
