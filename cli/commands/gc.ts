import { collections } from '@flynn/controller/collection/api';
import { formatCount, formatSize } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

/** For operators: the platform does it by itself. */
export function addCollectCommand(parent: Parent): void {
  addCommand(parent, {
    name: 'gc',
    summary: 'collect now what no app refers to any more: old releases, slugs, blobs nobody used for a day',
    async run(context) {
      const client = await context.client();
      const gone = await context.progress('collecting', () => client.call(collections.run, {}, { timeoutMs: 600_000 }));
      context.show(
        gone,
        () =>
          `collected ${formatCount(gone.releases, 'release')}, ${formatCount(gone.blobs, 'blob')} (${formatSize(gone.bytes)})`,
      );
    },
  });
}
