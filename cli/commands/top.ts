/** `flynn top`: what apps take now, again and again in a terminal, once in a pipe. */
import { figures } from '@flynn/controller/figures/api';
import type { LatestFigures } from '@flynn/controller/figures/model';
import { pause } from '@flynn/kit/clock';
import { messageOf } from '@flynn/kit/errors';
import { figuresTable, fitted, hungriestFirst, oldNote } from '../apps/figures.ts';
import { parseIntervalMs, usageError } from '../arguments.ts';
import type { Context } from '../context.ts';
import { isDumb } from '../io.ts';
import { isPassing } from '../logs/stream.ts';
import { formatAge, visible, sizeOf } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

/** Another screen, which leaves what was on this one as it was. */
const screen = {
  open: '\u001b[?1049h',
  close: '\u001b[?1049l',
  home: '\u001b[H',
  lineEnd: '\u001b[K',
  rest: '\u001b[J',
};

const leastMs = 1_000;

export function addTopCommand(parent: Parent): void {
  addCommand<{ interval: string; once?: boolean }>(parent, {
    name: 'top',
    onlyTells: true,
    summary: 'what apps take now, the hungriest first: processors, memory, requests, errors; of one app with -a',
    app: 'only this app (else all)',
    options: {
      interval: ['--interval <time>', 'in a terminal: how often it is asked', '5s'],
      once: ['--once', 'in a terminal too: once, and no more'],
    },
    examples: ['flynn top', 'flynn top -a shop', 'flynn top --json | jq .apps'],
    async run(context, { interval, once = false }) {
      const intervalMs = parseIntervalMs(interval);
      if (intervalMs < leastMs) {
        throw usageError(`--interval ${interval} is too short: there are other figures every 15 s; 1s or more`);
      }
      if (context.options.json === true || once || context.io.stdout.isTTY !== true || isDumb(context.io)) {
        const seen = await read(context);
        context.show(seen, () => `${textOf(seen, context.options.app)}${oldNote(seen, Date.now())}`);
        return;
      }
      await follow(context, intervalMs);
    },
  });
}

async function read(context: Context, signal?: AbortSignal): Promise<LatestFigures> {
  const client = await context.client();
  const { app } = context.options;
  const query = app === undefined ? {} : { app };
  const seen = await client.call(figures.latest, { query }, signal === undefined ? {} : { signal });
  return { ...seen, apps: hungriestFirst(seen.apps) };
}

function textOf({ at, apps }: LatestFigures, app: string | undefined): string {
  if (at === undefined) return 'the controller has only just begun to look: there are figures within 15 s\n';
  const left = apps.filter(({ isLeftOut }) => isLeftOut).map(({ name }) => name);
  const leftOut =
    left.length === 0
      ? ''
      : `not all is known of ${left.join(', ')}: the controller has no room for more apps; docs/metrics.md tells of others\n`;
  const table = figuresTable(apps);
  if (table.trimEnd().includes('\n')) return `${table}${leftOut}`;
  return `${app === undefined ? 'nothing runs' : `no job of ${app} runs`}\n${leftOut}`;
}

async function follow(context: Context, intervalMs: number): Promise<void> {
  const { stdout } = context.io;
  const ending = new AbortController();
  const offs = (['SIGINT', 'SIGTERM'] as const).map((signal) => context.io.onSignal(signal, () => ending.abort()));
  let last = '';
  try {
    let seen = await read(context, ending.signal);
    let lost: Lost | undefined;
    stdout.write(screen.open);
    for (;;) {
      last = visible(`${headOf(seen, lost)}${textOf(seen, context.options.app)}`);
      const { columns, rows } = sizeOf(stdout);
      const lines = fitted(last, { columns, rows: rows - 1 });
      stdout.write(`${screen.home}${lines.map((line) => `${line}${screen.lineEnd}\n`).join('')}${screen.rest}`);
      await pause(intervalMs, ending.signal);
      if (ending.signal.aborted) return;
      try {
        seen = await read(context, ending.signal);
        lost = undefined;
      } catch (error) {
        if (!isPassing(error)) throw error;
        lost = { since: lost?.since ?? new Date().toISOString(), why: messageOf(error) };
      }
    }
  } catch (error) {
    if (!ending.signal.aborted) throw error;
  } finally {
    for (const off of offs) off();
    if (last !== '') stdout.write(`${screen.close}${last}`);
  }
}

/** Since when there has been no answer. */
type Lost = Readonly<{ since: string; why: string }>;

/** They are as old as that: it is looked every 15 seconds. */
function headOf({ at }: LatestFigures, lost: Lost | undefined): string {
  const now = Date.now();
  const age = at === undefined ? [] : [`figures of ${formatAge(at, now)} ago`];
  const answer = lost === undefined ? [] : [`no answer for ${formatAge(lost.since, now)} (${lost.why})`];
  const all = [...age, ...answer];
  return all.length === 0 ? '' : `${all.join('; ')}; ctrl-c ends\n\n`;
}
