/** `flynn pg history` and `flynn pg fork`: from and until when one can go back to any moment, and a database as of one. */
import type { Command } from 'commander';
import { apps } from '@flynn/controller/api';
import { datastoreHistories } from '@flynn/controller/datastore-history/api';
import { maxHistoryDays } from '@flynn/controller/datastore-history/model';
import type { DatastoreHistory } from '@flynn/controller/datastore-history/model';
import { FlynnError } from '@flynn/kit/errors';
import { parseDurationMs, parseTime, usageError } from '../arguments.ts';
import { confirmByTyping } from '../confirmation.ts';
import type { Context } from '../context.ts';
import { wholeMs } from '../datastores/dumps.ts';
import { postgresKind } from '../datastores/kinds.ts';
import { datastoreOf, resource, resourceOf, type Target } from '../datastores/target.ts';
import { formatCount, formatSize } from '../output.ts';
import { pollUntil } from '../polling.ts';
import { addCommand, type Parent } from './command.ts';
import { addResource, configOf } from './resource.ts';

const dayMs = 24 * 3_600_000;
/** The log is collected every minute, and when it is asked for. */
const comingMs = 3 * 60_000;
/** Commits are written a moment after the time that they say. */
const settleMs = 4_000;

/** Under `flynn pg`. */
export function addPgHistoryCommands(parent: Parent, pg: Command): void {
  const history = addCommand<Target>(parent, {
    under: pg,
    name: 'history',
    summary: 'from and until when one can go back to any moment; exit code 1 while nothing is collected',
    options: { resource },
    examples: [
      'flynn pg history -a shop',
      'flynn pg history on --keep 3d -a shop',
      'flynn pg backup restore --at 10m -a shop',
      'flynn pg fork --at 2030-01-31T12:00:00Z -a shop --to shop-then',
    ],
    async run(context, { resource: named }) {
      const client = await context.client();
      const { params } = await resourceOf(context, postgresKind, named);
      const found = await client.call(datastoreHistories.get, { params });
      context.show(found, () => textOf(found));
      return found.failure === undefined && found.copyFailure === undefined ? 0 : 1;
    },
  });
  addOn(parent, history);
  addOff(parent, history);
  addFork(parent, pg);
}

function addOn(parent: Parent, history: Command): void {
  addCommand<Target & { keep?: string }>(parent, {
    under: history,
    name: 'on',
    summary: 'keep each moment, as it is from the beginning, or for another time',
    options: { resource, keep: ['--keep <time>', `so many days, at most ${maxHistoryDays} (default: 7d)`] },
    async run(context, { resource: named, keep = '7d' }) {
      const days = parseDurationMs(keep) / dayMs;
      if (!Number.isInteger(days) || days < 1 || days > maxHistoryDays) {
        throw usageError(`--keep ${keep}: write whole days from 1d to ${maxHistoryDays}d`);
      }
      const client = await context.client();
      const { params } = await resourceOf(context, postgresKind, named);
      const set = await client.call(datastoreHistories.set, { params, body: { days } });
      context.show(set, () => `Each moment of ${set.datastore} is kept for ${formatCount(days, 'day')}.`);
    },
  });
}

function addOff(parent: Parent, history: Command): void {
  addCommand<Target & { yes?: boolean }>(parent, {
    under: history,
    name: 'off',
    summary: 'keep backups alone; what is kept of moments goes',
    options: { resource, yes: ['-y, --yes', 'do not ask'] },
    async run(context, { resource: named, yes = false }) {
      const client = await context.client();
      const { name, params } = await resourceOf(context, postgresKind, named);
      if (!yes) {
        const doing = `deleting the history of ${name}`;
        await confirmByTyping(context.io, { doing, word: name, called: 'its name', kept: 'nothing was deleted' });
      }
      const set = await client.call(datastoreHistories.set, { params, body: { days: 0 } });
      context.show(set, () => `No moment of ${name} is kept any more: one can go back to its backups.`);
    },
  });
}

function addFork(parent: Parent, pg: Command): void {
  addCommand<Target & { at?: string; to?: string; config: string[]; replace?: boolean }>(parent, {
    under: pg,
    name: 'fork',
    summary: 'another database, with what there was at a moment in this one; it is a resource of its own',
    options: {
      resource,
      at: [
        '--at <time>',
        'what there was then ("flynn pg history"): 10m, 2h, or 2030-01-31T12:00:00Z; UTC without a zone',
      ],
      to: ['--to <app>', 'the app that gets it; an admin of the cluster may leave it out'],
      config: ['--config <name=value>', 'members=2 or memory=1GB; several times', []],
      replace: ['--replace', 'in the place of what that app has under the same names'],
    },
    examples: [
      'flynn pg fork --at 2h -a shop --to shop-then',
      'flynn pg fork --at 2030-01-31T12:00:00Z -a shop --to shop --replace',
    ],
    async run(context, { resource: named, at: time, to, config, replace = false }) {
      if (time === undefined) throw usageError('say --at which moment: 10m, 2h, or 2030-01-31T12:00:00Z');
      const at = parseTime(time, Date.now());
      const client = await context.client();
      const { name, datastore } = await datastoreOf(context, postgresKind, named);
      const from = datastore?.resourceId ?? '';
      await awaitKept(context, { resource: from }, at);
      const asked = { provider: datastore?.appliance ?? '', app: to, config: { ...configOf(config), from, at } };
      const { made, version } = await addResource(context, { ...asked, isReplacing: replace }, wholeMs);
      const own = (await client.call(apps.list, {})).find((one) => one.datastore?.resourceId === made.id);
      const got = version === undefined ? '' : ` ${to} has it with release ${version}.`;
      context.show(made, () => `Created ${own?.name ?? 'it'} with ${name} as of ${at}: resource ${made.id}.${got}`);
    },
  });
}

/** Before anything is asked for; a moment that has just passed is waited for. Throws `invalid` with what is kept. */
export async function awaitKept(context: Context, params: { resource: string }, at: string): Promise<void> {
  const client = await context.client();
  const atMs = Date.parse(at);
  const isComing = ({ ranges, failure }: DatastoreHistory): boolean =>
    failure === undefined && atMs <= Date.now() && atMs > Date.parse(ranges.at(-1)?.until ?? 'never');
  let isAsked = false;
  const first = await client.call(datastoreHistories.get, { params });
  const found = !isComing(first)
    ? first
    : await context.progress(`waiting until ${at} is kept`, () =>
        pollUntil(
          async () => {
            // What is collected earlier is not known to have all of that moment.
            const isTime = !isAsked && Date.now() >= atMs + settleMs;
            const now = await client.call(datastoreHistories[isTime ? 'collect' : 'get'], { params });
            isAsked ||= isTime;
            return isComing(now) ? undefined : now;
          },
          { what: `${at} to be kept: "flynn pg history" tells how it is`, deadlineMs: comingMs, intervalMs: 1_000 },
        ),
      );
  checkKept(found, at);
}

function checkKept({ datastore, ranges }: DatastoreHistory, at: string): void {
  const atMs = Date.parse(at);
  if (ranges.some(({ from, until }) => Date.parse(from) <= atMs && atMs <= Date.parse(until))) return;
  const last = ranges.at(-1);
  if (last === undefined) {
    throw new FlynnError('invalid', `no moment of ${datastore} is kept: "flynn pg history -a ${datastore}" says why`);
  }
  const later = atMs > Date.parse(last.until) ? '\n  what was written since is kept within a minute or two' : '';
  throw new FlynnError('invalid', `${at} is not kept: one can go back to ${rangesText(ranges)}${later}`);
}

function rangesText(ranges: DatastoreHistory['ranges']): string {
  return ranges.map(({ from, until }) => `${from} to ${until}`).join(', ');
}

function textOf({ datastore, days, ranges, bytes, copiedAt, failure, copyFailure, gap }: DatastoreHistory): string {
  if (days === 0) return `${datastore}: no moment is kept; "flynn pg history on -a ${datastore}" begins`;
  const kept =
    ranges.length === 0
      ? `none yet: ${copiedAt === undefined ? 'it begins with a first copy of all that is in the database' : 'the log after the first copy is collected next'}`
      : rangesText(ranges);
  return [
    `${datastore}: each moment of ${formatCount(days, 'day')} is kept`,
    `Moments:  ${kept}`,
    `Size:     ${formatSize(bytes)}`,
    ...(copiedAt === undefined ? [] : [`Copied:   ${copiedAt}`]),
    ...(gap === undefined ? [] : [`Gap:      at ${gap.at}: ${gap.reason}`]),
    ...(failure === undefined ? [] : [`failing since ${failure.since}: ${failure.message}`]),
    ...(copyFailure === undefined ? [] : [`no copy since ${copyFailure.since}: ${copyFailure.message}`]),
  ].join('\n');
}
