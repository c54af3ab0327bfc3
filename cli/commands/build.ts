import { apps } from '@flynn/controller/api';
import { pathOf, placeMeta, placeNames, placeOf } from '@flynn/controller/builds/place';
import type { BuildPlace, PlaceName } from '@flynn/controller/builds/place';
import type { MetaChange } from '@flynn/controller/apps/meta';
import { platform } from '@flynn/controller/platform/api';
import { FlynnError } from '@flynn/kit/errors';
import { changeMeta } from '../apps/meta.ts';
import { usageError } from '../arguments.ts';
import type { Context } from '../context.ts';
import { addCommand, type Parent } from './command.ts';

export function addBuildCommands(parent: Parent): void {
  const build = addCommand(parent, {
    name: 'build',
    summary: 'what of its repository an app is built from',
    async run(context) {
      const place = await placeNow(context);
      context.show(place, () => placeText(place));
      const isSet = Object.keys(place).length > 0;
      if (isSet && !(await isHeeded(context))) context.tell(`what is set has no effect: ${notHeeded}`);
    },
  });

  addCommand<{ [Name in PlaceName]?: string }>(parent, {
    under: build,
    name: 'set',
    summary: 'build a folder of the repository, or another Dockerfile, from the next push on',
    options: {
      folder: ['--folder <path>', "the top of what is built, from the repository's top: apps/web"],
      dockerfile: ['--dockerfile <path>', 'the Dockerfile, from the top of what is built: deploy/web.Dockerfile'],
    },
    examples: ['flynn build set --folder apps/web -a web', 'flynn build set --dockerfile apps/api/Dockerfile -a api'],
    async run(context, options) {
      const wishes = placeNames.flatMap((name): [string, string][] => {
        const path = options[name];
        return path === undefined ? [] : [[placeMeta[name], pathOf(name, path)]];
      });
      if (wishes.length === 0) throw usageError('nothing is set: say --folder PATH, --dockerfile PATH or both');
      // It would be kept, and all of the repository built as before.
      if (!(await isHeeded(context))) throw new FlynnError('invalid', `nothing was set: ${notHeeded}`);
      await change(context, Object.fromEntries(wishes));
    },
  });

  addCommand(parent, {
    under: build,
    name: 'unset',
    summary: 'build the top of the repository again, or the usual Dockerfile',
    arguments: [['<names...>', placeNames.join(' or ')]],
    async run(context, _options, args) {
      const names = args.map((arg) => {
        const known = placeNames.find((name) => name === arg);
        if (known === undefined)
          throw usageError(`builds have no "${arg}" to unset: there are ${placeNames.join(' and ')}`);
        return known;
      });
      const meta = await metaNow(context);
      const missing = names.filter((name) => meta[placeMeta[name]] === undefined);
      if (missing.length > 0) {
        throw new FlynnError('not_found', `not set: ${missing.join(', ')}\n  "flynn build" tells what is`);
      }
      await change(context, Object.fromEntries(names.map((name): [string, null] => [placeMeta[name], null])));
    },
  });
}

const notHeeded =
  'this cluster has a version that builds the top of the repository, whatever is set\n  "flynn version" tells which; "flynn-host update" brings another to its hosts';

async function isHeeded(context: Context): Promise<boolean> {
  return (await (await context.client()).call(platform.cluster, {})).heedsBuildPlace;
}

async function metaNow(context: Context): Promise<Readonly<Record<string, string>>> {
  const client = await context.client();
  return (await client.call(apps.get, { params: { app: await context.appName() } })).meta;
}

async function placeNow(context: Context): Promise<BuildPlace> {
  return placeOf(await metaNow(context));
}

async function change(context: Context, metaChange: MetaChange): Promise<void> {
  const place = placeOf((await changeMeta(context, await context.appName(), metaChange)).meta);
  context.show(
    place,
    () => `${placeText(place)}The next push is built so; where a repository is followed: flynn source poll --again\n`,
  );
}

function placeText({ folder, dockerfile }: BuildPlace): string {
  const rows = [
    ['folder', folder ?? 'the top of the repository'],
    ['dockerfile', dockerfile ?? 'Dockerfile, if there is one'],
  ] as const;
  return rows.map(([name, value]) => `${name.padEnd(11)} ${value}\n`).join('');
}
