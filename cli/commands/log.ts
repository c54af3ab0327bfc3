import { releases } from '@flynn/controller/api';
import { platform } from '@flynn/controller/platform/api';
import { type Clock, pause } from '@flynn/kit/clock';
import { type ReadOptions, defaultLines, maxLines } from '@flynn/log-aggregator/api';
import { parseTime, parseWhole } from '../arguments.ts';
import type { Context } from '../context.ts';
import type { Output } from '../io.ts';
import { gapText } from '../logs/gap.ts';
import { type LogRecord, logRecords } from '../logs/stream.ts';
import { paint, visible, writeTo } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

/** A line is here so long after it was said, at the latest, where nothing is in its way. */
const arrivalMs = 3_000;
/** No timer of Node's runs for more than 24 days. */
const longestTimerMs = 86_400_000;

type LogOptions = {
  follow?: boolean;
  lines?: string;
  since?: string;
  until?: string;
  search?: string;
  type?: string;
  job?: string;
  release?: string;
  splitStderr?: boolean;
  raw?: boolean;
};

export function addLogCommand(parent: Parent): void {
  addCommand<LogOptions>(parent, {
    name: 'log',
    onlyTells: true,
    summary: "an app's log; with --json a value per line",
    options: {
      follow: ['-f, --follow', 'go on with what comes, until Ctrl-C'],
      lines: [
        '-n, --lines <n>',
        `how many of the newest lines (else ${defaultLines}; all when a time or a text is given)`,
      ],
      since: ['--since <time>', 'from a time on: 10m ago, or 2030-01-31T12:00Z; UTC without a zone'],
      until: ['--until <time>', 'up to a time; with -f it ends then'],
      search: ['--search <text>', 'with this text in them'],
      type: ['-t, --type <type>', 'of one process type'],
      job: ['-j, --job <job>', 'of one job'],
      release: ['--release <release>', 'of one release: v3, or its id'],
      splitStderr: ['-s, --split-stderr', 'lines of stderr to stderr'],
      raw: ['--raw', 'without time and source'],
    },
    async run(context, options) {
      const query = queryOf(options, context.io.clock.now());
      const client = await context.client();
      const ending = new AbortController();
      const { signal } = ending;
      const offSignal = context.io.onSignal('SIGINT', () => ending.abort());
      const end = endAt(query, context.io.clock, ending);
      try {
        const app = await context.appName();
        if (options.release !== undefined) {
          query.releaseId = (
            await client.call(releases.get, { params: { app, release: options.release } }, { signal })
          ).id;
        }
        const open = (wanted: ReadOptions) =>
          client.stream(platform.log, { params: { app }, query: wanted }, { signal });
        const onLost = () => context.io.stderr.write('flynn: lost the log, following it again\n');
        const onUnreadable = () =>
          context.tell('flynn: a line that cannot be read is left out here: a disk damaged it');
        let told = 0;
        const onGap = (from: string, to: string) => context.tell(`flynn: ${gapText(from, to, { ...options, app })}`);
        const hearing = { signal, onLost, onGap, onUnreadable, clock: context.io.clock };
        for await (const record of logRecords(open, query, hearing)) {
          await tell(context, options, record);
          told += 1;
        }
        if (told >= maxLines && options.lines === undefined && !query.follow) {
          context.io.stderr.write(
            `flynn: these are the newest ${maxLines} lines: narrow them with --until and --since\n`,
          );
        }
      } catch (error) {
        if (!signal.aborted) throw error;
      } finally {
        offSignal();
        ending.abort();
        await end;
      }
    },
  });
}

/** Ends what is followed up to a time once that has come, and lines of before it are here. */
async function endAt({ follow = false, until }: ReadOptions, clock: Clock, ending: AbortController): Promise<void> {
  if (!follow || until === undefined) return;
  const endMs = Date.parse(until) + arrivalMs;
  while (!ending.signal.aborted && clock.now() < endMs) {
    await pause(Math.min(endMs - clock.now(), longestTimerMs), ending.signal, clock);
  }
  ending.abort();
}

/** What is asked of the cluster; the times are checked before anything is. */
function queryOf(options: LogOptions, now: number): ReadOptions {
  const { since, until, search, type, job, lines } = options;
  const isNarrow = since !== undefined || until !== undefined || search !== undefined;
  const wanted =
    lines === undefined
      ? isNarrow && maxLines
      : parseWhole(lines, { what: 'a number of lines', min: 0, max: maxLines });
  const end = until === undefined ? undefined : parseTime(until, now);
  return {
    // Of a time that has passed nothing comes any more: what is kept is all.
    follow: options.follow === true && (end === undefined || Date.parse(end) + arrivalMs > now),
    ...(wanted === false ? {} : { lines: wanted }),
    ...(since === undefined ? {} : { since: parseTime(since, now) }),
    ...(end === undefined ? {} : { until: end }),
    ...(search === undefined ? {} : { search }),
    ...(type === undefined ? {} : { processType: type }),
    ...(job === undefined ? {} : { jobId: job }),
  };
}

async function tell(context: Context, options: LogOptions, record: LogRecord): Promise<void> {
  const { stdout, stderr } = context.io;
  const output = options.splitStderr && record.line.stream === 'stderr' ? stderr : stdout;
  await writeTo(output, `${textOf(context, options, output, record)}\n`);
}

function textOf(context: Context, options: LogOptions, output: Output, { json, line }: LogRecord): string {
  if (context.options.json) return visible(json);
  if (options.raw) return line.message;
  // What is missing is said by the platform, not by a job.
  const source = line.jobId === '' ? 'flynn' : `${line.processType}[${line.jobId}]`;
  const time = line.timestamp.slice(0, 23).replace(/Z?$/, 'Z');
  return `${paint(output, 'dim', `${time} ${source}:`)} ${line.message}`;
}
