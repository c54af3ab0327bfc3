import { collections } from '@flynn/controller/collection/api';
import { confirmByTyping } from '../confirmation.ts';
import { formatCount, formatSize } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

/** For operators: the platform does it by itself. */
export function addCollectCommand(parent: Parent): void {
  addCommand<{ forget?: string; yes?: boolean }>(parent, {
    name: 'gc',
    summary: 'collect now what no app refers to any more: old releases, slugs, blobs nobody used for a day',
    options: {
      forget: [
        '--forget <key>',
        'collect nothing; delete this record for good, which cannot be read: flynn status has it, or the app that waits for it',
      ],
      yes: ['-y, --yes', 'do not ask'],
    },
    async run(context, { forget, yes = false }) {
      const client = await context.client();
      if (forget !== undefined) {
        const doing = `deleting ${forget} for good, with what it alone refers to: the next flynn gc takes its blobs`;
        const word = forget.slice(forget.lastIndexOf('/') + 1);
        if (!yes) await confirmByTyping(context.io, { doing, word, called: 'its id', kept: 'nothing was deleted' });
        await client.call(collections.forget, { body: { key: forget } });
        context.show({ forgotten: forget }, () => `${forget} is deleted; what it kept goes with: flynn gc`);
        return;
      }
      const gone = await context.progress('collecting', () => client.call(collections.run, {}, { timeoutMs: 600_000 }));
      context.show(
        gone,
        () =>
          `collected ${formatCount(gone.releases, 'release')}, ${formatCount(gone.blobs, 'blob')} (${formatSize(gone.bytes)})`,
      );
    },
  });
}
