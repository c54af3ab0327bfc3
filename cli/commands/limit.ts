import { builds } from '@flynn/controller/builds/api';
import { apps } from '@flynn/controller/api';
import { amountText, buildLimitNames, byteSize } from '@flynn/controller/builds/limits';
import type { AppBuildLimits, BuildLimitName } from '@flynn/controller/builds/limits';
import { processSchema, unsaidLimits } from '@flynn/controller/processes/process';
import type { Process } from '@flynn/controller/processes/process';
import { oneOffKinds, oneOffLimitsOf, oneOffMeta } from '@flynn/controller/jobs/one-off-limits';
import type { OneOffKind } from '@flynn/controller/jobs/one-off-limits';
import { changeMeta } from '../apps/meta.ts';
import { parseCpu, parseMemory, parseWhole, usageError } from '../arguments.ts';
import { changeRelease, newestRelease, processOf } from '../deployments/next-release.ts';
import { formatTable } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

const leastBytes = 1024 ** 2;

export function addLimitCommands(parent: Parent): void {
  const limit = addCommand(parent, {
    name: 'limit',
    summary: 'what each job of a process type, a build, and what runs once may take',
    async run(context) {
      const client = await context.client();
      const params = { app: await context.appName() };
      const [release, build, { meta }] = await Promise.all([
        newestRelease(context),
        client.call(builds.limits, { params }),
        client.call(apps.get, { params }),
      ]);
      const processes = release?.processes ?? {};
      const once = oneOffLimitsOf(meta);
      context.show(
        { processes: limitsOf(processes), build, once },
        () => `${limitsText(processes, build)}\n${onceText(meta)}`,
      );
    },
  });

  addCommand(parent, {
    under: limit,
    name: 'set',
    summary: 'change what each job of a process type may take, as a new release that is rolled out',
    arguments: [
      ['<type>', 'the process type'],
      [
        '<limits...>',
        'memory=512MB, cpu=500 (thousandths of a processor), disk=2GB (outside its volumes), pids=500, files=4096; disk= is as without',
      ],
    ],
    async run(context, _options, [type = '', ...args]) {
      const wanted = args.map(processLimit);
      await changeRelease(context, (before) => {
        const kind = oneOffKinds.find((one) => one === type);
        if (kind !== undefined && before?.processes[type] === undefined) {
          throw usageError(`what runs once is no process type: write flynn limit ${kind} ${args.join(' ')}`);
        }
        return { processes: { ...before?.processes, [type]: limited(processOf(before, type), wanted) } };
      });
    },
  });

  for (const kind of oneOffKinds) {
    addCommand(parent, {
      under: limit,
      name: kind,
      summary: `change what ${onceNames[kind]} may take, from the next on`,
      arguments: [['<limits...>', 'memory=4GB and cpu=2000 (thousandths of a processor); memory= is as without']],
      async run(context, _options, args) {
        const wishes = args.map((arg) => onceWish(kind, arg));
        const change = Object.fromEntries(wishes.map(([name, value]) => [name, value === '' ? null : value]));
        const { meta } = await changeMeta(context, await context.appName(), change);
        context.show(oneOffLimitsOf(meta), () => onceText(meta));
      },
    });
  }

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

type ProcessLimit = 'memoryBytes' | 'cpuMillis' | 'tempDiskBytes' | 'pidsLimit' | 'filesLimit';
type Wish = readonly [field: ProcessLimit, value: number | undefined];

/** What is wished for without a value is as if nobody had said anything. */
function limited(process: Process, wishes: readonly Wish[]): Process {
  const next: Record<string, unknown> = { ...process };
  for (const [field, value] of wishes) {
    if (value === undefined) delete next[field];
    else next[field] = value;
  }
  return processSchema.parse(next);
}

function processLimit(arg: string): Wish {
  const [name, value] = pairOf(arg);
  const whole = (what: string, min: number, max: number) =>
    value === '' ? undefined : parseWhole(value, { what, min, max });
  switch (name) {
    case 'memory':
      return ['memoryBytes', value === '' ? undefined : enough(parseMemory(value), arg)];
    case 'cpu':
      return ['cpuMillis', value === '' ? undefined : parseCpu(value)];
    case 'disk':
      return ['tempDiskBytes', diskOf(value)];
    case 'pids':
      return ['pidsLimit', whole('processes and threads', 1, 4_194_304)];
    case 'files':
      return ['filesLimit', whole('open files', 64, 1_048_576)];
    default:
      throw usageError(`there is no limit "${name}": there are memory, cpu, disk, pids and files`);
  }
}

function diskOf(value: string): number | undefined {
  if (value === '') return undefined;
  const { data } = byteSize.safeParse(value);
  if (data === undefined) throw usageError(`"${value}" is no amount of disk: write it as 512MB or 2GB`);
  return enough(data, `disk=${value}`);
}

function enough(bytes: number, asked: string): number {
  if (bytes < leastBytes) throw usageError(`${asked} is too little: 1MB is the least`);
  return bytes;
}

/** As the app's metadata has it; nothing as its value where it is to be as without. */
function onceWish(kind: OneOffKind, arg: string): [key: string, value: string] {
  const [name, value] = pairOf(arg);
  if (name !== 'memory' && name !== 'cpu') throw usageError(`there is no limit "${name}": there are memory and cpu`);
  if (value !== '') processLimit(arg);
  return [oneOffMeta[name](kind), value];
}

function buildWish(arg: string): [BuildLimitName, string | null] {
  const [name, value] = pairOf(arg);
  const known = buildLimitNames.find((one) => one === name);
  if (known === undefined) throw usageError(`builds have no limit "${name}": there are ${buildLimitNames.join(', ')}`);
  return [known, value === '' ? null : value];
}

type Processes = Readonly<Record<string, Process>>;

/** Those that nobody set with what they are then. */
function limitsOf(processes: Processes): Record<string, Record<ProcessLimit, number>> {
  const entries = Object.entries(processes).map(([type, one]) => {
    const { memoryBytes, cpuMillis, tempDiskBytes, pidsLimit, filesLimit } = { ...unsaidLimits, ...one };
    return [type, { memoryBytes, cpuMillis, tempDiskBytes, pidsLimit, filesLimit }] as const;
  });
  return Object.fromEntries(entries);
}

function limitsText(processes: Processes, build: AppBuildLimits): string {
  const rows = Object.entries(limitsOf(processes)).map(([type, one]) => [
    type,
    amountText('memory', one.memoryBytes),
    String(one.cpuMillis),
    amountText('disk', one.tempDiskBytes),
    String(one.pidsLimit),
    String(one.filesLimit),
  ]);
  const heading = ['TYPE', 'MEMORY', 'CPU', 'DISK', 'PIDS', 'FILES'];
  return `${rows.length === 0 ? '' : `${formatTable(heading, rows)}\n`}${buildText(build)}`;
}

const onceNames: Readonly<Record<OneOffKind, string>> = {
  run: 'a command of "flynn run"',
  cron: 'a run of a cron line',
  release: 'a script around a deployment (release, predeploy, postdeploy)',
};

function onceText(meta: Readonly<Record<string, string>>): string {
  const limits = oneOffLimitsOf(meta);
  const rows = oneOffKinds.map((kind) => {
    const isOwn = (['memory', 'cpu'] as const).some((name) => meta[oneOffMeta[name](kind)] !== undefined);
    const { memoryBytes, cpuMillis } = limits[kind];
    return [kind, amountText('memory', memoryBytes), String(cpuMillis), isOwn ? 'the app' : 'the platform'];
  });
  return formatTable(['RUNS ONCE', 'MEMORY', 'CPU', 'SAID BY'], rows);
}

function buildText(build: AppBuildLimits): string {
  const rows = buildLimitNames.map((name) => {
    const { value, most, isOwn } = build[name];
    return [name, amountText(name, value), amountText(name, most), isOwn ? 'the app' : 'the cluster'];
  });
  return formatTable(['BUILD', 'LIMIT', 'AT MOST', 'SAID BY'], rows);
}
