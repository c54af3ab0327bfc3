/** `flynn-host list cordon uncordon drain undrain tags`: written to the cell through the local agent. */
import { FlynnError } from '@flynn/kit/errors';
import { routes } from '../api.ts';
import type { KnownHost, SettingsChange } from '../api.ts';
import { positiveInteger } from './context.ts';
import type { CliContext } from './context.ts';
import { formatAge, formatBytes, formatTable } from './format.ts';
import { engineCondition, leaseCondition } from '../hosts/record.ts';

export function addHostCommands(context: CliContext): void {
  const { program, withAgent, print } = context;
  const change = async (host: string | undefined, body: SettingsChange): Promise<KnownHost> =>
    withAgent(async (client) => {
      const id = host ?? (await client.call(routes.status, {})).host.id;
      const settings = await client.call(routes.changeSettings, { params: { host: id }, body });
      const known = (await client.call(routes.hosts, {})).find((one) => one.id === id);
      return { ...known, id, settings };
    });
  const changeAndTell = async (host: string | undefined, body: SettingsChange): Promise<void> =>
    print(hostNews(await change(host, body)));
  program
    .command('list')
    .description('the hosts of the cluster')
    .option('--json', 'as JSON')
    .action(async ({ json }: { json?: true }) => {
      const hosts = await withAgent((client) => client.call(routes.hosts, {}));
      if (json) print(`${JSON.stringify(hosts, undefined, 2)}\n`);
      else print(formatTable([['HOST', 'ADDRESS', 'STATE', 'MEMORY', 'CPU', 'UP', 'TAGS'], ...hosts.map(rowOf)]));
    });
  program
    .command('cordon')
    .description('place no new jobs on a host')
    .argument('[host]', 'default: this one')
    .action((host?: string) => changeAndTell(host, { cordoned: true }));
  program
    .command('uncordon')
    .description('place jobs on a host again, also if it drains')
    .argument('[host]', 'default: this one')
    .action((host?: string) => changeAndTell(host, { cordoned: false }));
  program
    .command('drain')
    .description('move the jobs of a host elsewhere')
    .argument('[host]', 'default: this one')
    .option('--deadline <minutes>', 'then stop what is left', positiveInteger)
    .option('--max-parallel <count>', 'of a workload at a time', positiveInteger)
    .action(
      async (host: string | undefined, { deadline, maxParallel }: { deadline?: number; maxParallel?: number }) => {
        const drain = {
          ...(deadline === undefined ? {} : { deadlineMs: deadline * 60_000 }),
          ...(maxParallel === undefined ? {} : { maxParallel }),
        };
        await changeAndTell(host, { drain });
      },
    );
  program
    .command('undrain')
    .description('end the draining of a host')
    .argument('[host]', 'default: this one')
    .action((host?: string) => changeAndTell(host, { drain: null }));
  program
    .command('tags')
    .description('show or change the tags of this host: NAME=VALUE sets one, NAME= takes it away')
    .argument('[tag...]')
    .option('--host <host>', 'another host')
    .action(async (texts: string[], { host }: { host?: string }) => {
      const { settings } = await change(host, { tags: parseTags(texts) });
      print(formatTable(Object.entries(settings.tags)));
    });
}

export function parseTags(texts: readonly string[]): Record<string, string | null> {
  return Object.fromEntries(
    texts.map((text) => {
      const at = text.indexOf('=');
      if (at < 1) throw new FlynnError('invalid', `"${text}" is not of the form NAME=VALUE`);
      return [text.slice(0, at), text.slice(at + 1) === '' ? null : text.slice(at + 1)];
    }),
  );
}

/** What is so of a host now, and how it is taken back. */
export function hostNews({ id, record, settings: { drain, cordoned } }: KnownHost): string {
  if (drain !== undefined) {
    const { maxParallel, deadlineAt } = drain;
    const until =
      deadlineAt === undefined ? '' : `, and what is left at ${new Date(deadlineAt).toISOString()} is stopped`;
    return `${id} is draining: its jobs move elsewhere, ${maxParallel} of a workload at a time${until}; "flynn-host undrain ${id}" calls it off\n`;
  }
  if (cordoned) {
    return `${id} is cordoned: it takes no more jobs, and those it has run on; "flynn-host uncordon ${id}" opens it again\n`;
  }
  if (record === undefined) return `${id} is away, and takes jobs again once it is back\n`;
  if (record.cordoned) {
    return `${id} takes no jobs all the same: ${whyClosed(record.attributes)}, see "flynn-host doctor"\n`;
  }
  return `${id} takes jobs\n`;
}

function whyClosed(attributes: Readonly<Record<string, string>>): string {
  if (leaseCondition in attributes) return 'the cluster has no lease for it';
  return engineCondition in attributes ? 'its container engine hangs' : 'a disk of it is full';
}

function rowOf({ id, record, settings }: KnownHost): (string | undefined)[] {
  const tags = Object.entries({ ...record?.attributes, ...settings.tags }).map(([name, value]) => `${name}=${value}`);
  const state = settings.drain ? 'draining' : settings.cordoned || record?.cordoned === true ? 'cordoned' : 'up';
  return [
    id,
    record === undefined ? undefined : `${record.address}:${record.apiPort}`,
    record === undefined ? 'away' : state,
    formatBytes(record?.capacity.memoryBytes),
    record === undefined ? undefined : String(record.capacity.cpuMillis),
    formatAge(record?.startedAt, Date.now()),
    tags.join(','),
  ];
}
