/** `flynn pg backup restore`, `flynn redis backup restore`: what is put back into a database of the platform's own. */
import type { Command } from 'commander';
import { datastoreBackups } from '@flynn/controller/datastore-backups/api';
import type { DatastoreBackups } from '@flynn/controller/datastore-backups/model';
import { FlynnError } from '@flynn/kit/errors';
import { parseTime, usageError } from '../arguments.ts';
import { confirmByTyping } from '../confirmation.ts';
import type { Context } from '../context.ts';
import { wholeMs } from '../datastores/dumps.ts';
import type { DatastoreKind } from '../datastores/kinds.ts';
import { resource, resourceOf, type Target } from '../datastores/target.ts';
import { formatSize } from '../output.ts';
import { pollUntil } from '../polling.ts';
import { addCommand, type Parent } from './command.ts';
import { awaitKept } from './pg-history.ts';

type Restore = NonNullable<DatastoreBackups['restore']>;

/** Under `backup` of its kind. */
export function addDatastoreRestoreCommands(parent: Parent, backup: Command, kind: DatastoreKind): void {
  const command = `flynn ${kind.command} backup restore`;
  const example = `${command} 20300131T031700Z-k3v9 -a shop`;
  const yes = ['-y, --yes', 'do not ask'] as const;
  if (kind.hasHistory) {
    addCommand<Target & { yes?: boolean; at?: string }>(parent, {
      under: backup,
      name: 'restore',
      summary: 'put a backup, or what there was at a moment, in the place of all that is in the database',
      arguments: [['[id]', 'as "backup" shows it']],
      options: {
        resource,
        at: [
          '--at <time>',
          'what there was then ("flynn pg history"): 10m, 2h, or 2030-01-31T12:00:00Z; UTC without a zone',
        ],
        yes,
      },
      examples: [example, `${command} --at 10m -a shop`],
      async run(context, { resource: named, yes: isSure = false, at }, [id]) {
        if ((id === undefined) === (at === undefined)) throw usageError('say which backup, or --at which moment');
        const what = at === undefined ? { backup: id ?? '' } : { at: parseTime(at, Date.now()) };
        return restore(context, kind, { named, isSure, what });
      },
    });
  } else {
    addCommand<Target & { yes?: boolean }>(parent, {
      under: backup,
      name: 'restore',
      summary: 'put a backup in the place of all that is in the database; where that fails nothing changes',
      arguments: [['<id>', 'as "backup" shows it']],
      options: { resource, yes },
      examples: [example],
      run: (context, { resource: named, yes: isSure = false }, [id = '']) =>
        restore(context, kind, { named, isSure, what: { backup: id } }),
    });
  }

  addCommand<Target>(parent, {
    under: backup,
    name: 'dismiss',
    summary: 'after the cluster came back: leave the database as it is, and back that up from now on',
    options: { resource },
    async run(context, { resource: named }) {
      const client = await context.client();
      const { name, params } = await resourceOf(context, kind, named);
      await client.call(datastoreBackups.dismiss, { params });
      context.show({ datastore: name }, () => `${name} stays as it is, and is backed up as it is.`);
    },
  });
}

/** To its end. */
async function restore(
  context: Context,
  kind: DatastoreKind,
  { named, isSure, what }: { named: string | undefined; isSure: boolean; what: { backup: string } | { at: string } },
): Promise<number> {
  const client = await context.client();
  const { name, params } = await resourceOf(context, kind, named);
  if ('at' in what) await awaitKept(context, params, what.at);
  if (!isSure) {
    const by = 'at' in what ? `what there was at ${what.at}` : what.backup;
    const doing = `replacing all that is in ${name} by ${by}`;
    await confirmByTyping(context.io, { doing, word: name, called: 'its name', kept: 'nothing was replaced' });
  }
  await client.call(datastoreBackups.restore, { params, body: what });
  let text = `restoring ${name}`;
  const wanted = 'at' in what ? what.at : what.backup;
  const ended = await context.progress(
    () => text,
    () =>
      pollUntil(
        async () => {
          const { restore: found } = await client.call(datastoreBackups.list, { params });
          text = restoringText(name, found ?? {});
          if (found === undefined) return 'withdrawn';
          if ((found.at ?? found.backupId) !== wanted) return 'replaced';
          return found.state === 'complete' || found.state === 'failed' ? found : undefined;
        },
        { what: `the end of the restore of ${name}`, deadlineMs: wholeMs, intervalMs: 500 },
      ),
  );
  if (ended === 'withdrawn') {
    throw new FlynnError('conflict', `the restore of ${name} was withdrawn before it began: nothing was replaced`);
  }
  if (ended === 'replaced') {
    const look = `flynn ${kind.command} backup -a ${name}`;
    throw new FlynnError('conflict', `this restore of ${name} was withdrawn, or another has its place: ${look} tells`);
  }
  context.show(ended, () => restoreText(name, ended));
  return ended.state === 'complete' ? 0 : 1;
}

function restoringText(name: string, { waitsFor, sentBytes = 0 }: Partial<Restore>): string {
  return `restoring ${name}: ${waitsFor === undefined ? formatSize(sentBytes) : `waits for ${waitsFor}`}`;
}

/** How a restore goes, or what came of it. */
export function restoreText(
  name: string,
  { state, backupId, at, from, by, isOwed = false, endedAt = '', sentBytes = 0, error, waitsFor }: Restore,
): string {
  const whose = from === undefined || from === name ? '' : ` in ${from}`;
  const moment = at === undefined ? undefined : `what there was at ${at}${whose}`;
  const what = moment ?? backupId ?? 'what it had when the cluster was backed up';
  const who = by === undefined ? '' : `, by ${by}`;
  if (state === 'complete') return `Restored ${name} to ${what} at ${endedAt}${who}.`;
  if (state === 'running') return `${what} is being put back into ${name}${who}: ${formatSize(sentBytes)}`;
  const waits = waitsFor === undefined ? '' : `, and waits for ${waitsFor}`;
  if (state !== 'failed') return `${what} is about to be put back into ${name}${who}${waits}`;
  const next = isOwed ? '\n  "restore ID" puts one back, "dismiss" leaves it as it is' : '';
  return `${what} could not be put back into ${name}${who}: ${error ?? 'nobody knows why'}${next}`;
}
