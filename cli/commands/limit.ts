import { builds } from '@flynn/controller/api-builds';
import { amountText, buildLimitNames, byteSize } from '@flynn/controller/build-limits';
import type { AppBuildLimits, BuildLimitName } from '@flynn/controller/build-limits';
import type { Process } from '@flynn/controller/model';
import { parseWhole, usageError } from '../arguments.ts';
import { changeRelease, newestRelease, processOf } from '../next-release.ts';
import { formatTable } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

export function addLimitCommands(parent: Parent): void {
  const limit = addCommand(parent, {
    name: 'limit',
    summary: 'what each job of a process type, and a build, may take',
    async run(context) {
      const client = await context.client();
      const params = { app: await context.appName() };
      const [release, build] = await Promise.all([newestRelease(context), client.call(builds.limits, { params })]);
      const processes = release?.processes ?? {};
      context.show({ processes: limitsOf(processes), build }, () => limitsText(processes, build));
    },
  });

  addCommand(parent, {
    under: limit,
    name: 'set',
    summary: 'change what each job of a process type may take, as a new release that is rolled out',
    arguments: [
      ['<type>', 'the process type'],
      ['<limits...>', 'memory=512MB and cpu=500 (thousandths of a processor)'],
    ],
    async run(context, _options, [type = '', ...args]) {
      const wanted = Object.fromEntries(args.map(processLimit));
      await changeRelease(context, (before) => ({
        processes: { ...before?.processes, [type]: { ...processOf(before, type), ...wanted } },
      }));
    },
  });

  addCommand(parent, {
    under: limit,
    name: 'build',
    summary: 'change what a build of the app may take, from the next on',
    arguments: [['<limits...>', 'memory=2GB, time=20m and disk=5GB; memory= is as the cluster has it']],
    async run(context, _options, args) {
      const client = await context.client();
      const body = Object.fromEntries(args.map(buildWish));
      const changed = await client.call(builds.setLimits, { params: { app: await context.appName() }, body });
      context.show(changed, () => buildText(changed));
    },
  });
}

function pairOf(arg: string): [name: string, value: string] {
  const at = arg.indexOf('=');
  if (at < 1) throw usageError(`"${arg}" limits nothing: write NAME=VALUE, as in memory=512MB`);
  return [arg.slice(0, at), arg.slice(at + 1)];
}

function processLimit(arg: string): [keyof Process, number] {
  const [name, value] = pairOf(arg);
  if (name === 'cpu')
    return ['cpuMillis', parseWhole(value, { what: 'thousandths of a processor', min: 0, max: 1_000_000 })];
  if (name !== 'memory') throw usageError(`there is no limit "${name}": there are memory and cpu`);
  const { data } = byteSize.safeParse(value);
  if (data === undefined) throw usageError(`"${value}" is no amount of memory: write it as 512MB or 2GB`);
  return ['memoryBytes', data];
}

function buildWish(arg: string): [BuildLimitName, string | null] {
  const [name, value] = pairOf(arg);
  const known = buildLimitNames.find((one) => one === name);
  if (known === undefined) throw usageError(`builds have no limit "${name}": there are ${buildLimitNames.join(', ')}`);
  return [known, value === '' ? null : value];
}

type Processes = Readonly<Record<string, Process>>;

function limitsOf(processes: Processes): Record<string, { memoryBytes: number; cpuMillis: number }> {
  const entries = Object.entries(processes).map(([type, one]) => {
    const { memoryBytes, cpuMillis } = one;
    return [type, { memoryBytes, cpuMillis }] as const;
  });
  return Object.fromEntries(entries);
}

function limitsText(processes: Processes, build: AppBuildLimits): string {
  const rows = Object.entries(limitsOf(processes)).map(([type, one]) => [
    type,
    amountText('memory', one.memoryBytes),
    String(one.cpuMillis),
  ]);
  return `${rows.length === 0 ? '' : `${formatTable(['TYPE', 'MEMORY', 'CPU'], rows)}\n`}${buildText(build)}`;
}

function buildText(build: AppBuildLimits): string {
  const rows = buildLimitNames.map((name) => {
    const { value, most, isOwn } = build[name];
    return [name, amountText(name, value), amountText(name, most), isOwn ? 'the app' : 'the cluster'];
  });
  return formatTable(['BUILD', 'LIMIT', 'AT MOST', 'SAID BY'], rows);
}
