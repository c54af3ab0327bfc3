import type { Command } from 'commander';
import { sealingKeys } from '@flynn/controller/sealing/api';
import type { Sealing } from '@flynn/controller/sealing/api';
import { eitherCommand } from '@flynn/kit/operator-commands';
import { formatTable } from '../output.ts';
import { pollUntil } from '../polling.ts';
import { addCommand, type Parent } from './command.ts';

/** A large store is walked twice, with a minute between. */
const throughMs = 60 * 60_000;

/** Under `flynn cluster`. */
export function addKeysCommands(parent: Parent, cluster: Command): void {
  const keys = addCommand(parent, {
    under: cluster,
    name: 'keys',
    summary: 'the keys that the secrets in the store are sealed with, and whether all are',
    async run(context) {
      const client = await context.client();
      const found = await client.call(sealingKeys.list, {});
      context.show(found, () => sealingText(found));
    },
  });

  addCommand<{ wait?: boolean }>(parent, {
    under: keys,
    name: 'rotate',
    summary: 'seal with a new key from now on; what is there is rewritten, then the old key goes',
    options: { wait: ['--wait', 'until the old key is gone, and before that for a change under way: a minute or two'] },
    async run(context, { wait = false }) {
      const client = await context.client();
      const look = () => client.call(sealingKeys.list, {});
      const untilThrough = () =>
        context.progress('rewriting all secrets', () =>
          pollUntil(
            async () => {
              const now = await look();
              return now.state === 'changing' ? undefined : now;
            },
            { what: 'the end of the change of keys', deadlineMs: throughMs, intervalMs: 1_000 },
          ),
        );
      // One at a time: a new cluster is in its first for a minute or two.
      if (wait) await untilThrough();
      const begun = await client.call(sealingKeys.rotate, {});
      const shown = wait ? await untilThrough() : begun;
      context.show(shown, () => sealingText(shown));
    },
  });
}

function sealingText({ state, since, keys }: Sealing): string {
  if (state === 'clear') {
    return `secrets are in clear in the store: ${eitherCommand('up')} on every host begins to seal them`;
  }
  const table = formatTable(
    ['KEY', 'MADE', 'USE'],
    keys.map(({ id, madeAt, isCurrent }) => [id, madeAt, isCurrent ? 'new values' : 'until all is rewritten']),
  );
  return state === 'sealed'
    ? `all secrets in the store are sealed\n${table}`
    : `secrets are being rewritten since ${since ?? 'a moment ago'}; "flynn doctor" tells if that does not end\n${table}`;
}
