import { apps } from '@flynn/controller/api';
import { pause } from '@flynn/kit/clock';
import { usageError } from '../arguments.ts';
import { loadClusters } from '../clusters/clusters.ts';
import { fish } from '../completion/fish.ts';
import { bash, zsh } from '../completion/posix.ts';
import { type Askable, placesOf, shells } from '../completion/words.ts';
import type { Context } from '../context.ts';
import { addCommand, type Parent } from './command.ts';

/** Whoever presses Tab has a shell that does not answer until then: of a cluster that is away there are no names. */
const tabMs = 2_500;

export function addCompletionCommand(parent: Parent): void {
  addCommand(parent, {
    name: 'completion',
    summary: 'completion for a shell: eval "$(flynn completion bash)"',
    arguments: [['<shell>', shells.join(', ')]],
    async run(context, _options, [shell = '']) {
      const places = placesOf(parent.program);
      switch (shell) {
        case 'bash':
          return context.print(bash(places));
        case 'zsh':
          return context.print(zsh(places));
        case 'fish':
          return context.print(fish(places));
        case 'apps' satisfies Askable:
          return context.print((await appNames(context)).join('\n'));
        case 'clusters' satisfies Askable:
          return context.print((await clusterNames(context)).join('\n'));
        default:
          throw usageError(`no completion for "${shell}": there is ${shells.join(', ')}`);
      }
    },
  });
}

async function clusterNames(context: Context): Promise<string[]> {
  return (await loadClusters(context.configDirectory)).clusters.map(({ name }) => name);
}

/** `cancelled` where they are not told in time. */
async function appNames(context: Context): Promise<string[]> {
  const client = await context.client();
  const ending = new AbortController();
  const { signal } = ending;
  const late = pause(tabMs, signal, context.io.clock).then(() => ending.abort());
  try {
    return (await client.call(apps.list, {}, { signal })).map(({ name }) => name);
  } finally {
    ending.abort();
    await late;
  }
}
