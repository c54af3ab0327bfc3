import type { Process } from '@flynn/controller/processes/process';
import type { Release } from '@flynn/controller/model';
import { FlynnError } from '@flynn/kit/errors';
import { serviceName } from '@flynn/kit/names';
import { usageError } from '../arguments.ts';
import type { Context } from '../context.ts';
import { changeRelease, newestRelease } from '../deployments/next-release.ts';
import { formatTable } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

const services = ['<services...>', 'names in discovery, like "shop-web"'] as const;
const type = ['-t, --type <type>', 'of one process type only'] as const;

export function addLinkCommands(parent: Parent): void {
  const link = addCommand(parent, {
    name: 'link',
    summary: 'the services of other apps that an app may reach',
    async run(context) {
      const processes = Object.entries((await newestRelease(context))?.processes ?? {});
      context.show(Object.fromEntries(processes.map(([name, { links }]) => [name, links])), () =>
        formatTable(
          ['TYPE', 'SERVICE'],
          processes.flatMap(([name, { links }]) => links.map((service) => [name, service])),
        ),
      );
    },
  });

  addCommand<{ type?: string }>(parent, {
    under: link,
    name: 'add',
    summary: 'let an app reach services of others, as a new release that is rolled out',
    arguments: [services],
    options: { type },
    run: (context, options, names) =>
      changeLinks(context, options.type, names, (before) => [...new Set([...before, ...names])].sort()),
  });

  addCommand<{ type?: string }>(parent, {
    under: link,
    name: 'remove',
    summary: 'take services away again, as a new release that is rolled out',
    arguments: [services],
    options: { type },
    run: (context, options, names) =>
      changeLinks(
        context,
        options.type,
        names,
        (before) => before.filter((service) => !names.includes(service)),
        (changed) => {
          const missing = names.filter((name) => changed.every(({ links }) => !links.includes(name)));
          if (missing.length > 0) {
            throw new FlynnError('not_found', `not linked: ${missing.join(', ')}\n  "flynn link" lists what is`);
          }
        },
      ),
  });
}

/** Of one type, or of all. `check` sees those that are about to be changed. */
async function changeLinks(
  context: Context,
  wanted: string | undefined,
  names: readonly string[],
  change: (before: readonly string[]) => string[],
  check: (changed: readonly Process[]) => void = () => undefined,
): Promise<void> {
  for (const name of names) {
    const { error } = serviceName.safeParse(name);
    if (error !== undefined) throw usageError(`"${name}" is no service: ${error.issues[0]?.message ?? ''}`);
  }
  const app = await context.appName();
  await changeRelease(
    context,
    (before) => {
      const changed = new Set(typesOf(before, app, wanted));
      const processes = Object.entries(before?.processes ?? {});
      check(processes.flatMap(([name, process]) => (changed.has(name) ? [process] : [])));
      const next = processes.map(([name, process]): [string, Process] =>
        changed.has(name) ? [name, { ...process, links: change(process.links) }] : [name, process],
      );
      const isSame = next.every(([, { links }], index) => links.join() === processes[index]?.[1].links.join());
      return isSame ? undefined : { processes: Object.fromEntries(next) };
    },
    { unchanged: 'nothing changes: the links are as they are to be' },
  );
}

function typesOf(release: Release | undefined, app: string, wanted: string | undefined): string[] {
  const types = Object.keys(release?.processes ?? {});
  if (types.length === 0) {
    throw new FlynnError(
      'not_found',
      `${app} has no process types to link yet\n  git push flynn main makes its first release`,
    );
  }
  if (wanted === undefined) return types;
  if (types.includes(wanted)) return [wanted];
  throw new FlynnError('not_found', `${app} has no process type "${wanted}": it has ${types.join(', ')}`);
}
