import { volumes } from '@flynn/controller/volumes/api';
import type { VolumeView, Volumes } from '@flynn/controller/volumes/api';
import { FlynnError } from '@flynn/kit/errors';
import { confirmByTyping } from '../confirmation.ts';
import type { Context } from '../context.ts';
import { formatAge, formatSize, formatTable } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

export function addVolumeCommands(parent: Parent): void {
  const volume = addCommand(parent, {
    name: 'volume',
    summary: 'what apps keep on hosts, of one app with -a, else of all; for admins also of apps that are gone',
    lists: true,
    run: listVolumes,
  });

  addCommand<{ yes?: boolean }>(parent, {
    under: volume,
    name: 'remove',
    summary: 'remove a volume with all that is in it, unless a job has it',
    arguments: [['<id>', 'as "flynn volume list" shows it']],
    options: { yes: ['-y, --yes', 'do not ask'] },
    async run(context, { yes }, [id = '']) {
      const client = await context.client();
      const known = await client.call(volumes.list, { query: {} });
      const found = known.volumes.find((one) => one.id === id);
      if (found === undefined) {
        noteUnasked(context, known.unasked);
        throw new FlynnError('not_found', `there is no volume "${id}"\n  list them with: flynn volume list`);
      }
      refuseUsed(found);
      const doing = `removing ${describeVolume(found)} with all that is in it`;
      if (!yes) {
        await confirmByTyping(context.io, { doing, word: id, called: 'its id', kept: 'nothing was removed' });
      }
      await context.progress(doing, () =>
        found.isAppGone
          ? client.call(volumes.remove, { params: { volume: id } }, { timeoutMs: 120_000 })
          : client.call(volumes.removeOfApp, { params: { app: found.appId, volume: id } }, { timeoutMs: 120_000 }),
      );
      context.show(found, () => `Removed ${describeVolume(found)}`);
    },
  });
}

async function listVolumes(context: Context): Promise<void> {
  const { app } = context.options;
  const client = await context.client();
  const found = await client.call(volumes.list, { query: { sizes: true, ...(app === undefined ? {} : { app }) } });
  context.show(found, () =>
    formatTable(
      ['ID', 'APP', 'TYPE', 'NAME', 'HOST', 'SIZE', 'MADE', 'STATE'],
      found.volumes.map((one) => [
        one.id,
        one.appName ?? one.appId,
        one.type,
        one.name,
        one.hostId,
        one.bytes === undefined ? '-' : formatSize(one.bytes),
        formatAge(one.createdAt, Date.now()),
        stateOf(one),
      ]),
    ),
  );
  noteUnasked(context, found.unasked);
}

/** Words of one column. */
function stateOf({ jobs, isAppGone }: VolumeView): string {
  if (jobs.length > 0) return 'in-use';
  return isAppGone ? 'app-deleted' : 'unused';
}

/** "the volume data of shop (db) on host1". */
export function describeVolume({ name, appName, appId, type, hostId, isAppGone }: VolumeView): string {
  return `the volume ${name} of ${appName ?? appId} (${type}${isAppGone ? ', deleted' : ''}) on ${hostId}`;
}

export function noteUnasked(context: Context, unasked: Volumes['unasked']): void {
  for (const { hostId, reason } of unasked) {
    context.tell(`flynn: what ${hostId} has is not known, it did not answer: ${reason}`);
  }
}

function refuseUsed(volume: VolumeView): void {
  const { jobs, appName = volume.appId, type } = volume;
  if (jobs.length === 0) return;
  throw new FlynnError(
    'conflict',
    `${describeVolume(volume)} is in use by the job ${jobs[0] ?? ''}: nothing was removed\n  flynn scale ${type}=0 -a ${appName} ends its jobs`,
  );
}
