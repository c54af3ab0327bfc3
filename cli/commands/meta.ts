import { apps } from '@flynn/controller/api';
import type { MetaChange } from '@flynn/controller/apps/meta';
import { FlynnError } from '@flynn/kit/errors';
import { changeMeta } from '../apps/meta.ts';
import { usageError } from '../arguments.ts';
import type { Context } from '../context.ts';
import { formatTable } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

export function addMetaCommands(parent: Parent): void {
  const meta = addCommand(parent, {
    name: 'meta',
    summary: "an app's metadata: settings of the platform, and whatever you note there",
    async run(context) {
      const found = await metaOf(context);
      context.show(found, () => tableOf(found));
    },
  });
  addCommand(parent, {
    under: meta,
    name: 'set',
    summary:
      'set metadata; gc.max_inactive_slug_releases=N keeps N slugs, review.max=N allows N review apps, git.branch=NAME has pushes to that branch deployed',
    arguments: [['<assignments...>', 'NAME=VALUE']],
    async run(context, _options, args) {
      const wanted = args.map((arg): [string, string] => {
        const at = arg.indexOf('=');
        if (at < 1) throw usageError(`"${arg}" sets nothing: write NAME=VALUE`);
        return [arg.slice(0, at), arg.slice(at + 1)];
      });
      await change(context, Object.fromEntries(wanted));
    },
  });
  addCommand(parent, {
    under: meta,
    name: 'unset',
    summary: 'remove metadata',
    arguments: [['<names...>', 'what to remove']],
    async run(context, _options, names) {
      const before = await metaOf(context);
      const missing = names.filter((name) => !Object.hasOwn(before, name));
      if (missing.length > 0)
        throw new FlynnError('not_found', `not set: ${missing.join(', ')}\n  "flynn meta" lists what is`);
      await change(context, Object.fromEntries(names.map((name): [string, null] => [name, null])));
    },
  });
}

async function metaOf(context: Context): Promise<Record<string, string>> {
  const client = await context.client();
  return (await client.call(apps.get, { params: { app: await context.appName() } })).meta;
}

async function change(context: Context, metaChange: MetaChange): Promise<void> {
  const { meta } = await changeMeta(context, await context.appName(), metaChange);
  context.show(meta, () => tableOf(meta));
}

function tableOf(meta: Readonly<Record<string, string>>): string {
  return formatTable(
    ['NAME', 'VALUE'],
    Object.entries(meta).toSorted(([a], [b]) => (a < b ? -1 : 1)),
  );
}
