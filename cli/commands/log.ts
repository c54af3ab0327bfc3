import { platform } from '@flynn/controller/api';
import { LineSplitter } from '@flynn/kit/lines';
import { type Line, lineSchema } from '@flynn/log-aggregator/api';
import { parseWhole } from '../arguments.ts';
import type { Context } from '../context.ts';
import { paint, writeTo } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

type LogOptions = {
  follow?: boolean;
  lines?: string;
  type?: string;
  job?: string;
  splitStderr?: boolean;
  raw?: boolean;
};

/** Of one line as JSON: a message has at most 10,000 bytes, each of which may be escaped. */
const lineLimitBytes = 1024 * 1024;

export function addLogCommand(parent: Parent): void {
  addCommand<LogOptions>(parent, {
    name: 'log',
    summary: "an app's log; with --json a value per line",
    options: {
      follow: ['-f, --follow', 'go on with what comes, until Ctrl-C'],
      lines: ['-n, --lines <n>', 'how many of the newest lines'],
      type: ['-t, --type <type>', 'of one process type'],
      job: ['-j, --job <job>', 'of one job'],
      splitStderr: ['-s, --split-stderr', 'lines of stderr to stderr'],
      raw: ['--raw', 'without time and source'],
    },
    async run(context, options) {
      const lines =
        options.lines === undefined
          ? undefined
          : parseWhole(options.lines, { what: 'a number of lines', min: 0, max: 10_000 });
      const client = await context.client();
      const ending = new AbortController();
      const { signal } = ending;
      const offSignal = context.io.onSignal('SIGINT', () => ending.abort());
      try {
        const body = await client.stream(
          platform.log,
          {
            params: { app: await context.appName() },
            query: {
              follow: options.follow ?? false,
              ...(lines === undefined ? {} : { lines }),
              ...(options.type === undefined ? {} : { processType: options.type }),
              ...(options.job === undefined ? {} : { jobId: options.job }),
            },
          },
          { signal },
        );
        const splitter = new LineSplitter({ maxBytes: lineLimitBytes });
        for await (const chunk of body) {
          for (const json of splitter.push(chunk)) await tell(context, options, json);
        }
        for (const json of splitter.flush()) await tell(context, options, json);
      } catch (error) {
        if (!signal.aborted) throw error;
      } finally {
        offSignal();
      }
    },
  });
}

async function tell(context: Context, options: LogOptions, json: string): Promise<void> {
  if (json === '') return;
  const line: Line = lineSchema.parse(JSON.parse(json));
  const { stdout, stderr } = context.io;
  const output = options.splitStderr && line.stream === 'stderr' ? stderr : stdout;
  if (context.options.json) return writeTo(output, `${json}\n`);
  if (options.raw) return writeTo(output, `${line.message}\n`);
  const source = `${line.timestamp.slice(0, 23)} ${line.processType}[${line.jobId}]:`;
  return writeTo(output, `${paint(output, 'dim', source)} ${line.message}\n`);
}
