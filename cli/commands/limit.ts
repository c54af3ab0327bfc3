import { builds } from '@flynn/controller/api-builds';
import { apps } from '@flynn/controller/api';
import { amountText, buildLimitNames } from '@flynn/controller/build-limits';
import type { AppBuildLimits, BuildLimitName } from '@flynn/controller/build-limits';
import type { Process } from '@flynn/controller/model';
import { oneOffKinds, oneOffLimitsOf, oneOffMeta } from '@flynn/controller/one-off-limits';
import type { OneOffKind } from '@flynn/controller/one-off-limits';
import { changeMeta } from '../app-meta.ts';
import { parseCpu, parseMemory, usageError } from '../arguments.ts';
import { changeRelease, newestRelease, processOf } from '../next-release.ts';
import { formatTable } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

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
      ['<limits...>', 'memory=512MB and cpu=500 (thousandths of a processor)'],
    ],
    async run(context, _options, [type = '', ...args]) {
      const wanted = Object.fromEntries(args.map(processLimit));
      await changeRelease(context, (before) => {
        const kind = oneOffKinds.find((one) => one === type);
        if (kind !== undefined && before?.processes[type] === undefined) {
          throw usageError(`what runs once is no process type: write flynn limit ${kind} ${args.join(' ')}`);
        }
        return { processes: { ...before?.processes, [type]: { ...processOf(before, type), ...wanted } } };
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

function processLimit(arg: string): [keyof Process, number] {
  const [name, value] = pairOf(arg);
  if (name === 'cpu') return ['cpuMillis', parseCpu(value)];
  if (name !== 'memory') throw usageError(`there is no limit "${name}": there are memory and cpu`);
  return ['memoryBytes', parseMemory(value)];
}

/** As the app's metadata has it; nothing as its value where it is to be as without. */
function onceWish(kind: OneOffKind, arg: string): [key: string, value: string] {
  const [name, value] = pairOf(arg);
  if (value !== '') processLimit(arg);
  else if (name !== 'memory' && name !== 'cpu')
    throw usageError(`there is no limit "${name}": there are memory and cpu`);
  return [oneOffMeta[name === 'memory' ? 'memory' : 'cpu'](kind), value];
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
