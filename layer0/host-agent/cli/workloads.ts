/** `flynn-host workload apply list show remove`: a pool of hosts without Layer 1. */
import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { parseWorkloadFile } from '@flynn/scheduler/workload-file';
import { workloadRoutes } from '../workloads/api.ts';
import type { WorkloadDetail, WorkloadView } from '../workloads/api.ts';
import type { CliContext } from './context.ts';
import { formatAge, formatBytes, formatTable } from './format.ts';

export function addWorkloadCommands(context: CliContext): void {
  const { withAgent, print } = context;
  const workload = context.program.command('workload').description('what the cluster runs, apps or not');
  workload
    .command('apply')
    .description('run what a JSON file describes, or change it to that')
    .argument('<file...>', 'the files, - for standard input')
    .action(async (files: string[]) => {
      // All of them are read before anything is changed.
      const wanted = await Promise.all(files.map(async (file) => parseWorkloadFile(await textOf(file), nameOf(file))));
      await withAgent(async (client) => {
        for (const body of wanted) {
          const { isNew } = await client.call(workloadRoutes.put, { params: { workload: body.id }, body });
          print(
            `${body.id} ${isNew ? 'added' : 'changed'}: ${body.kind}, ${body.count} wanted, version ${body.version}\n`,
          );
        }
      });
    });
  workload
    .command('list')
    .description('all workloads, those of apps included')
    .option('--json', 'as JSON')
    .action(async ({ json }: { json?: true }) => {
      const found = await withAgent((client) => client.call(workloadRoutes.list, {}));
      if (json) print(`${JSON.stringify(found, undefined, 2)}\n`);
      else print(formatTable([['ID', 'KIND', 'WANTED', 'RUNNING', 'VERSION', 'APP', 'WAITING'], ...found.map(rowOf)]));
    });
  workload
    .command('show')
    .description('one workload, its jobs on all hosts, and what was scheduled for it')
    .argument('<id>')
    .option('--json', 'as JSON, with its template')
    .action(async (id: string, { json }: { json?: true }) => {
      const [detail, evaluations] = await withAgent(async (client) => [
        await client.call(workloadRoutes.get, { params: { workload: id } }),
        await client.call(workloadRoutes.evaluations, { query: { workload: id } }),
      ]);
      if (json) print(`${JSON.stringify({ ...detail, evaluations }, undefined, 2)}\n`);
      else {
        print(formatTable(factsOf(detail)));
        print(
          `\n${formatTable([['JOB', 'HOST', 'STATE', 'AGE', 'RESTARTS', 'ADDRESS', 'NOTE'], ...detail.list.map(jobRow)])}`,
        );
        const header = ['EVALUATION', 'CAUSE', 'STATE', 'AGE', 'NOTE'];
        const rows = evaluations.map(({ id: name, cause, state, createdAt, reason }) => [
          name,
          cause,
          state,
          formatAge(createdAt, Date.now()),
          reason,
        ]);
        if (rows.length > 0) print(`\n${formatTable([header, ...rows])}`);
      }
    });
  workload
    .command('remove')
    .description('stop workloads and forget them')
    .argument('<id...>')
    .action(async (ids: string[]) =>
      withAgent(async (client) => {
        for (const id of ids) {
          await client.call(workloadRoutes.remove, { params: { workload: id } });
          print(`${id} removed\n`);
        }
      }),
    );
}

function nameOf(file: string): string {
  return file === '-' ? 'standard input' : file;
}

async function textOf(file: string): Promise<string> {
  if (file === '-') return text(process.stdin);
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    throw new FlynnError('not_found', `cannot read ${file}: ${messageOf(error)}`, { cause: error });
  }
}

function rowOf({ workload, jobs, app, waiting }: WorkloadView): (string | undefined)[] {
  const { id, kind, count, version } = workload;
  // An omni workload wants one on each host there is.
  const wanted = kind === 'omni' && count > 0 ? 'each-host' : String(count);
  return [id, kind, wanted, String(jobs['running'] ?? 0), version, app, waiting];
}

function factsOf({ workload, app, waiting }: WorkloadDetail): string[][] {
  const { id, kind, count, version, demand, priority } = workload;
  return [
    ['workload', id],
    ...(app === undefined ? [] : [['app', app]]),
    ['kind', kind],
    ['wanted', String(count)],
    ['version', version],
    ['priority', String(priority)],
    ['each takes', `${formatBytes(demand.memoryBytes)}, ${demand.cpuMillis} millicores`],
    ...(waiting === undefined ? [] : [['waiting', waiting]]),
  ];
}

function jobRow(job: WorkloadDetail['list'][number]): (string | undefined)[] {
  const { id, hostId, state, restarts, address, error, exitCode } = job;
  const note = error ?? (exitCode === undefined ? undefined : `exit code ${exitCode}`);
  return [id, hostId, state, formatAge(job.startedAt ?? job.createdAt, Date.now()), String(restarts), address, note];
}
