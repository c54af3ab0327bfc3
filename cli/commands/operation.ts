import { apps } from '@flynn/controller/api';
import { operations } from '@flynn/controller/operations/api';
import { lossText } from '@flynn/controller/operations/losses';
import { operationSchema } from '@flynn/controller/model';
import type { Operation } from '@flynn/controller/model';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { pause } from '@flynn/kit/clock';
import { longestWaitMs } from '@flynn/controller/operations/expiry';
import { z } from 'zod';
import { parseDurationMs, parseWhole, usageError } from '../arguments.ts';
import type { Context } from '../context.ts';
import { outageMs } from '../deployments/watch.ts';
import { formatAge, formatSeconds, formatTable } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

const operationArgument = ['<id>', 'as "flynn op list" shows it'] as const;
const lineSchema = z.object({ text: z.string() });

export function addOperationCommands(parent: Parent): void {
  const operation = addCommand(parent, {
    name: 'op',
    summary: 'operations: builds, releases and deploys, those under way and those that wait',
    run: (context) => listOperations(context, {}),
  });

  addCommand<{ all?: boolean; live?: boolean; lines?: string }>(parent, {
    under: operation,
    name: 'list',
    summary: "an app's operations: what is under way, then what ended last",
    options: {
      all: ['--all', 'of all apps'],
      live: ['--live', 'without those that have ended'],
      lines: ['-n, --lines <n>', 'at most so many, else 100'],
    },
    run: listOperations,
  });

  addCommand(parent, {
    under: operation,
    name: 'info',
    summary: 'one operation: its times, its runner, what it waits for',
    arguments: [operationArgument],
    async run(context, _options, [id = '']) {
      const found = await (await context.client()).call(operations.get, { params: { operation: id } });
      const all = await (await context.client()).call(apps.list, {});
      context.show(found, () => infoText(found, all.find((app) => app.id === found.appId)?.name));
    },
  });

  addCommand<{ follow?: boolean }>(parent, {
    under: operation,
    name: 'log',
    onlyTells: true,
    summary: "an operation's log; with -f to its end, and exit code 1 if it did not complete",
    arguments: [operationArgument],
    options: { follow: ['-f, --follow', 'go on with what comes, until it ends or Ctrl-C'] },
    run: (context, { follow = false }, [id = '']) => tellLog(context, id, follow),
  });

  addCommand<{ force?: boolean }>(parent, {
    under: operation,
    name: 'cancel',
    summary: 'cancel an operation, and what waits for it',
    arguments: [operationArgument],
    options: { force: ['--force', 'end it at once, whatever its runner says'] },
    async run(context, { force = false }, [id = '']) {
      const client = await context.client();
      const before = await client.call(operations.get, { params: { operation: id } });
      const after = await client.call(operations.cancel, { params: { operation: id }, body: { force } });
      context.show(after, () => {
        if (hasEnded(before)) return `${id} had ended before: it is ${before.state}`;
        if (hasEnded(after)) return `${id} was cancelled`;
        return `${id} was told to stop; "flynn op info ${id}" shows it, --force ends it at once`;
      });
    },
  });

  addCommand(parent, {
    under: operation,
    name: 'expire',
    summary: 'move the time by which an operation has to run, or it fails, and what waits for it is cancelled',
    arguments: [operationArgument, ['<time>', 'from now on, as 60s or 10m; never: it waits as long as it takes']],
    run: (context, _options, [id = '', time = '']) => moveExpiry(context, id, time),
  });
}

async function moveExpiry(context: Context, id: string, time: string): Promise<void> {
  const body = time === 'never' ? { expiresAt: null } : { expiresInMs: parseExpiry(time) };
  const moved = await (await context.client()).call(operations.update, { params: { operation: id }, body });
  if (hasEnded(moved)) {
    throw new FlynnError('conflict', `${id} has ended, it is ${moved.state}: only what does not run yet expires`);
  }
  if (moved.state === 'running') {
    throw new FlynnError('conflict', `${id} runs, and what runs does not expire; "flynn op cancel ${id}" stops it`);
  }
  context.show(moved, () =>
    moved.expiresAt === undefined
      ? `${id} waits as long as it takes`
      : `${id} fails unless it runs by ${moved.expiresAt}`,
  );
}

/** As one says how long an operation may wait, in milliseconds. */
export function parseExpiry(text: string): number {
  const ms = parseDurationMs(text);
  if (ms < 1_000) throw usageError(`"${text}" is over at once: write how long it may wait, as 60s or 10m`);
  if (ms > longestWaitMs) throw usageError(`"${text}" is more than a year: write how long it may wait, as 60s or 10m`);
  return ms;
}

async function listOperations(
  context: Context,
  { all = false, live = false, lines }: { all?: boolean; live?: boolean; lines?: string },
): Promise<void> {
  const client = await context.client();
  const limit =
    lines === undefined ? undefined : parseWhole(lines, { what: 'a number of operations', min: 1, max: 1_000 });
  const query = { ended: !live, ...(limit === undefined ? {} : { limit }) };
  const found = all
    ? await client.call(operations.listAll, { query })
    : await client.call(operations.list, { params: { app: await context.appName() }, query });
  const names = new Map((await client.call(apps.list, {})).map((app) => [app.id, app.name]));
  const now = Date.now();
  context.show(found, () =>
    formatTable(
      ['ID', 'STATE', 'KIND', 'APP', 'RUNNER', 'AGE', 'TOOK', 'NOTE'],
      found.map((one) => [
        one.id,
        one.isCancelRequested === true ? 'stopping' : one.state,
        one.kind,
        names.get(one.appId) ?? one.appId,
        one.runnerId,
        formatAge(one.createdAt, now),
        tookText(one, now),
        one.waitsFor === undefined ? one.error : `waits for ${one.waitsFor}`,
      ]),
    ),
  );
}

function infoText(one: Operation, appName: string | undefined): string {
  const { target } = one;
  const labels = Object.entries(target?.labels ?? {}).map(([name, value]) => `${name}=${value}`);
  const facts: [string, string | undefined][] = [
    ['id', one.id],
    ['state', one.isCancelRequested === true ? `${one.state}, told to stop` : one.state],
    ['waits for', one.waitsFor],
    ['error', one.error],
    ['kind', one.kind],
    ['app', appName ?? one.appId],
    ['runner', one.runnerId],
    ['attempt', one.attempt === undefined ? undefined : String(one.attempt)],
    ...(one.losses ?? []).map((loss): [string, string] => ['lost', `${loss.at}: ${lossText(loss)}`]),
    ['given back', handoverText(one)],
    ['depends on', one.dependsOn?.join(', ')],
    ['may go to', target?.runnerId ?? (labels.length === 0 ? undefined : labels.join(', '))],
    ['queued', one.createdAt],
    ['expires', one.startedAt === undefined && one.endedAt === undefined ? one.expiresAt : undefined],
    ['given away', one.assignedAt],
    ['started', one.startedAt],
    ['ended', one.endedAt],
    ['took', tookText(one, Date.now())],
    ...Object.entries(one.output).map(([name, value]): [string, string] => [`output ${name}`, value]),
  ];
  const shown = facts.filter(([, value]) => value !== undefined);
  const width = Math.max(...shown.map(([name]) => name.length));
  return shown.map(([name, value]) => `${name.padEnd(width)}  ${value ?? ''}\n`).join('');
}

function handoverText({ handover, handovers = 0 }: Operation): string | undefined {
  if (handovers === 0) return undefined;
  const by = handover === undefined ? '' : ` by ${handover.runnerId}, which was stopped: ${handover.at}`;
  return handovers === 1 ? `once${by}` : `${handovers} times${by === '' ? '' : `, at last${by}`}`;
}

function tookText({ startedAt, endedAt }: Operation, now: number): string | undefined {
  if (startedAt === undefined) return undefined;
  return formatSeconds((endedAt === undefined ? now : Date.parse(endedAt)) - Date.parse(startedAt));
}

function hasEnded({ endedAt }: Operation): boolean {
  return endedAt !== undefined;
}

async function tellLog(context: Context, id: string, isFollowed: boolean): Promise<number> {
  const take = (text: string) =>
    context.options.json ? context.print(JSON.stringify({ text })) : context.pass(`${text}\n`);
  return (await readLog(context, id, { isFollowed, take })).code;
}

/** How reading a log ended, as an exit code; of one that was followed to its end with what it is the log of. */
export type LogEnd = { code: number; operation?: Operation };

/** Through a controller that restarts in between, each line once. */
export async function readLog(
  context: Context,
  id: string,
  { isFollowed, take }: { isFollowed: boolean; take: (text: string) => void },
): Promise<LogEnd> {
  const client = await context.client();
  const ending = new AbortController();
  const offSignal = context.io.onSignal('SIGINT', () => ending.abort());
  const input = { params: { operation: id }, query: { follow: isFollowed } };
  let lastEventId: string | undefined;
  let brokenSinceMs: number | undefined;
  try {
    while (!ending.signal.aborted) {
      const resume = { signal: ending.signal, ...(lastEventId === undefined ? {} : { lastEventId }) };
      try {
        for await (const event of client.events(operations.log, input, resume)) {
          brokenSinceMs = undefined;
          lastEventId = event.id ?? lastEventId;
          if (event.event === 'end')
            return isFollowed ? endOf(context, operationSchema.parse(event.data)) : { code: 0 };
          take(lineSchema.parse(event.data).text);
        }
      } catch (error) {
        if (!hasCode(error, 'unavailable', 'timeout')) throw error;
        context.waits(error);
        brokenSinceMs ??= performance.now();
        if (performance.now() - brokenSinceMs > outageMs) throw error;
      }
      await pause(500, ending.signal);
    }
    return { code: 130 };
  } finally {
    offSignal();
  }
}

function endOf(context: Context, operation: Operation): LogEnd {
  const { id, state, error } = operation;
  if (state === 'complete') return { code: 0, operation };
  const why = error === undefined ? '' : `: ${error}`;
  context.tell(`flynn: operation ${id} ${state === 'cancelled' ? 'was cancelled' : state}${why}`);
  return { code: 1, operation };
}
