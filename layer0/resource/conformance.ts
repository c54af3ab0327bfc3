/** What the resource service keeps on whatever store it stands. A store's own test calls it in a few lines. */
import { describe } from 'node:test';
import type { OpenStore } from '@flynn/store/conformance';
import { checkLifecycles } from './conformance-lifecycle.ts';
import { checkReaper } from './conformance-reaper.ts';
import { checkResourceWatches } from './conformance-watch.ts';
import { checkWrites } from './conformance-write.ts';

/** Registers the suite with node:test. */
export function resourceConformance(name: string, open: OpenStore): void {
  describe(`resources on ${name}`, () => {
    checkWrites(open);
    checkLifecycles(open);
    checkReaper(open);
    checkResourceWatches(open);
  });
}
