import { autoscales } from '@flynn/controller/autoscale/api';
import type { Autoscale, SettingsChange } from '@flynn/controller/autoscale/model';
import { parseDurationMs, parseRate, parseWhole, usageError } from '../arguments.ts';
import { noteText, rangeText, targetsText } from '../apps/autoscale.ts';
import type { Context } from '../context.ts';
import { formatDuration, formatTable } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

const most = 1_000;
const none = 'none';

type SetOptions = {
  min?: string;
  max?: string;
  cpu?: string;
  requests?: string;
  inFlight?: string;
  window?: string;
  downAfter?: string;
};

export function addAutoscaleCommands(parent: Parent): void {
  const autoscale = addCommand(parent, {
    name: 'autoscale',
    summary: 'process types that have as many jobs as there is to do for; without more: which, and how that goes',
    run: showAutoscales,
  });
  addCommand(parent, { under: autoscale, name: 'show', summary: 'the same', run: showAutoscales });
  addCommand<SetOptions>(parent, {
    under: autoscale,
    name: 'set',
    summary: 'have a type scaled by itself, or otherwise than it is: what is not said stays',
    arguments: [['<type>', 'the process type']],
    options: {
      min: ['--min <n>', 'never fewer jobs; 1 if nobody says'],
      max: ['--max <n>', 'never more'],
      cpu: ['--cpu <percent>', 'of its cpu limit, that its jobs use on average: 70%'],
      requests: ['--requests <rate>', 'that each job answers: 50/s; none takes a target back'],
      inFlight: ['--in-flight <n>', 'that each job is at at once: 20'],
      window: ['--window <time>', 'what figures are averages over; 60s if nobody says'],
      downAfter: ['--down-after <time>', 'fewer once fewer would have done for so long; 5m if nobody says'],
    },
    examples: [
      'flynn autoscale set web --min 2 --max 10 --cpu 70%',
      'flynn autoscale set web --max 20 --requests 50/s --cpu none',
    ],
    async run(context, options, [type = '']) {
      const body = changeOf(options);
      if (Object.keys(body).length === 0) {
        throw usageError('nothing to set: say how many there may be and by what, as in --min 2 --max 10 --cpu 70%');
      }
      const client = await context.client();
      const app = await context.appName();
      const changed = await client.call(autoscales.set, { params: { app, type }, body });
      context.show(changed, () => `${type} of ${app} is scaled by itself: ${rangeText(changed)}`);
    },
  });
  addCommand(parent, {
    under: autoscale,
    name: 'remove',
    summary: 'leave the count of a type to you; it stays as it is',
    arguments: [['<type>', 'the process type']],
    async run(context, _options, [type = '']) {
      const client = await context.client();
      const app = await context.appName();
      await client.call(autoscales.remove, { params: { app, type } });
      context.show({ removed: type }, () => `${type} of ${app} is scaled by hand`);
    },
  });
}

async function showAutoscales(context: Context): Promise<void> {
  const client = await context.client();
  const app = await context.appName();
  const all = await client.call(autoscales.list, { params: { app } });
  context.show(all, () =>
    formatTable(
      ['TYPE', 'MIN', 'MAX', 'TARGETS', 'SEEN', 'WANTED', 'WINDOW', 'DOWN AFTER', 'NOTE'],
      all.map((one) => [
        one.type,
        String(one.min),
        String(one.max),
        targetsText(one),
        one.seen?.figures,
        wantedText(one),
        formatDuration(one.windowMs),
        formatDuration(one.downAfterMs),
        noteText(one, Date.now()),
      ]),
    ),
  );
}

function wantedText({ seen }: Autoscale): string | undefined {
  return seen === undefined ? undefined : String(seen.wanted);
}

function changeOf({ min, max, cpu, requests, inFlight, window, downAfter }: SetOptions): SettingsChange {
  const count = (text: string) => parseWhole(text, { what: 'a number of jobs', min: 1, max: most });
  return {
    ...(min === undefined ? {} : { min: count(min) }),
    ...(max === undefined ? {} : { max: count(max) }),
    ...(cpu === undefined ? {} : { cpuPercent: cpu === none ? null : parsePercent(cpu) }),
    ...(requests === undefined ? {} : { requestsPerSecond: requests === none ? null : parseRate(requests) }),
    ...(inFlight === undefined ? {} : { requestsInFlight: inFlight === none ? null : parseInFlight(inFlight) }),
    ...(window === undefined ? {} : { windowMs: parseDurationMs(window) }),
    ...(downAfter === undefined ? {} : { downAfterMs: parseDurationMs(downAfter) }),
  };
}

function parsePercent(text: string): number {
  return parseWhole(text.replace(/%$/, ''), { what: 'a part of the cpu limit, like 70%', min: 1, max: 1_000 });
}

function parseInFlight(text: string): number {
  return parseWhole(text, { what: 'a number of requests', min: 1, max: 1_000_000 });
}
