/** `flynn-host ps log inspect stop signal stats`. */
import { createInterface } from 'node:readline';
import type { JobStatus } from '@flynn/scheduler/cell';
import { FlynnError } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { logLineSchema, routes } from '../api.ts';
import { positiveInteger } from './context.ts';
import type { CliContext } from './context.ts';
import { formatAge, formatBytes, formatTable } from './format.ts';

export function addJobCommands(context: CliContext): void {
  const { program, withAgent, print } = context;
  program
    .command('ps')
    .description('the jobs of this host')
    .option('-a, --all', 'ended ones too')
    .option('-q, --quiet', 'ids only')
    .option('--json', 'as JSON')
    .action(async ({ all, quiet, json }: { all?: true; quiet?: true; json?: true }) => {
      const query = all ? {} : { active: true };
      const jobs = await withAgent((client) => client.call(routes.jobs, { query }));
      if (json) print(`${JSON.stringify(jobs, undefined, 2)}\n`);
      else if (quiet) print(jobs.map(({ id }) => `${id}\n`).join(''));
      else
        print(formatTable([['ID', 'STATE', 'AGE', 'RESTARTS', 'APP', 'TYPE', 'ADDRESS', 'ERROR'], ...jobs.map(rowOf)]));
    });
  program
    .command('log')
    .description('the output of a job')
    .argument('<job>', 'its id, or the beginning of it')
    .option('-f, --follow', 'go on until the job ends')
    .option('-n, --lines <count>', 'only the newest', positiveInteger)
    .action(async (name: string, { follow, lines }: { follow?: true; lines?: number }) =>
      withAgent(async (client) => {
        const job = await jobNamed(client, name);
        const query = { follow: follow === true, ...(lines === undefined ? {} : { lines }) };
        const stream = await client.stream(routes.log, { params: { job }, query });
        for await (const line of createInterface({ input: stream })) {
          if (line === '') continue;
          const { stream: source, message } = logLineSchema.parse(JSON.parse(line));
          (source === 'stderr' ? process.stderr : process.stdout).write(`${message}\n`);
        }
      }),
    );
  program
    .command('inspect')
    .description('all that is known of a job, as JSON')
    .argument('<job>', 'its id, or the beginning of it')
    .option('--omit-env', 'without its environment')
    .action(async (name: string, { omitEnv }: { omitEnv?: true }) =>
      withAgent(async (client) => {
        const found = await client.call(routes.inspect, { params: { job: await jobNamed(client, name) } });
        print(`${JSON.stringify(omitEnv ? withoutEnvironment(found) : found, undefined, 2)}\n`);
      }),
    );
  program
    .command('stop')
    .description('stop jobs: TERM, their stop timeout, KILL; a service is then started again')
    .argument('<job...>', 'ids, or the beginnings of them')
    .action(async (names: string[]) =>
      withAgent(async (client) => {
        for (const name of names) {
          const job = await jobNamed(client, name);
          await client.call(routes.stop, { params: { job } });
          print(`${job}\n`);
        }
      }),
    );
  program
    .command('signal')
    .description('send a signal to a job')
    .argument('<job>', 'its id, or the beginning of it')
    .argument('<signal>', 'such as HUP or SIGHUP')
    .action(async (name: string, signal: string) =>
      withAgent(async (client) => {
        const job = await jobNamed(client, name);
        const upper = signal.toUpperCase();
        const body = { signal: upper.startsWith('SIG') ? upper : `SIG${upper}` };
        await client.call(routes.signal, { params: { job }, body });
      }),
    );
  program
    .command('stats')
    .description('what the host and its running jobs use')
    .option('--json', 'as JSON')
    .action(async ({ json }: { json?: true }) => {
      const stats = await withAgent((client) => client.call(routes.stats, {}));
      if (json) {
        print(`${JSON.stringify(stats, undefined, 2)}\n`);
        return;
      }
      const { host, jobs } = stats;
      const header = ['ID', 'CPU%', 'CPU-SECONDS', 'MEMORY', 'PIDS', 'RECEIVED', 'SENT', 'WRITTEN', 'VOLUMES'];
      const rows = jobs.map((use) => [
        use.jobId,
        use.cpuPercent.toFixed(1),
        use.cpuSeconds.toFixed(1),
        formatBytes(use.memoryBytes),
        String(use.pids),
        formatBytes(use.network?.receivedBytes),
        formatBytes(use.network?.sentBytes),
        formatBytes(use.disk?.writableBytes),
        formatBytes(use.disk?.volumeBytes),
      ]);
      const total = ['(host)', host.cpuPercent.toFixed(1), '', formatBytes(host.memoryUsedBytes), '', '', '', '', ''];
      print(formatTable([header, ...rows, total]));
      print(`disk ${host.disk.usedPercent} % of ${formatBytes(host.disk.totalBytes)} used, load ${host.load}\n`);
    });
}

function rowOf(status: JobStatus): (string | undefined)[] {
  const { id, state, restarts, meta, address } = status;
  const nowMs = Date.now();
  const note = jobNote(status, nowMs);
  const age = formatAge(status.startedAt ?? status.createdAt, nowMs);
  return [id, state, age, String(restarts), meta['flynn.app_name'], meta['flynn.type'], address, note];
}

/** Why it is as it is, and when it is started again. */
export function jobNote(
  { error, lastError, nextStartAt, isFinal }: Pick<JobStatus, 'error' | 'lastError' | 'nextStartAt' | 'isFinal'>,
  nowMs: number,
): string | undefined {
  const why = error ?? (lastError === undefined ? undefined : `before: ${lastError}`);
  const leftMs = nextStartAt === undefined || isFinal ? 0 : nextStartAt - nowMs;
  if (leftMs <= 0) return why;
  return `${why === undefined ? '' : `${why}; `}starts again in ${Math.ceil(leftMs / 1_000)} s`;
}

/** The one job whose id is this or begins so, with or without the host's name before it. */
export function matchJob(ids: readonly string[], name: string): string {
  if (ids.includes(name)) return name;
  const found = ids.filter((id) => id.startsWith(name) || id.slice(id.indexOf('-') + 1).startsWith(name));
  const [only] = found;
  if (only !== undefined && found.length === 1) return only;
  if (found.length > 1) throw new FlynnError('invalid', `"${name}" could be ${found.slice(0, 5).join(', ')}`);
  throw new FlynnError('not_found', `there is no job "${name}" on this host: "flynn-host ps -a" lists them`);
}

async function jobNamed(client: HttpClient, name: string): Promise<string> {
  const jobs = await client.call(routes.jobs, { query: {} });
  const ids = jobs.map(({ id }) => id);
  // Older ended ones are not listed, and are known by their whole id all the same.
  return name.length > 20 && !ids.some((id) => id.startsWith(name)) ? name : matchJob(ids, name);
}

/** At any depth: the template's, a container's. */
export function withoutEnvironment(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutEnvironment);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, inner]) => (name === 'env' ? [] : [[name, withoutEnvironment(inner)]])),
  );
}
