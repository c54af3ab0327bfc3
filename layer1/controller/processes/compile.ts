/** What does Layer 0 have to run for a process type of a release? Here apps become workloads; builds do in builds/compile.ts. */
import { createHash } from 'node:crypto';
import { keyspacePassword } from '@flynn/appliances/appliance';
import type { z } from 'zod';
import { jobTemplateSchema } from '@flynn/scheduler/job-template';
import { workloadInputSchema } from '@flynn/scheduler/cell';
import type { JobTemplate } from '@flynn/scheduler/job-template';
import type { Resources } from '@flynn/scheduler/resources';
import { versionOf } from '@flynn/scheduler/template-version';
import { defaultCheck, withDefaults } from './check-defaults.ts';
import type { CheckDefaults } from './check-defaults.ts';
import { oneOffDefaults } from '../jobs/one-off-limits.ts';
import type { OneOffKind, OneOffLimits } from '../jobs/one-off-limits.ts';
import { ownVolumeName } from '../volumes/names.ts';
import type { App, Artifact, Release } from '../model.ts';
import type { Process, processSchema } from './process.ts';

/** Starts a slug's command line with its profile scripts; part of the slug runner's image. */
const slugStarter = '/usr/bin/flynn-run';
/** Where `web` types listen that say nothing else. */
const defaultPort = 8080;
/** The router drops a backend within milliseconds of its leaving discovery; requests in flight get this long. */
const serviceDrainMs = 1_000;
/** Says of a process that it shows its certificate wherever it can. */
const alwaysVariable = 'FLYNN_MUTUAL_ALWAYS';

/** The platform’s own apps reach every part of it; all others reach only each other and what they are linked to. */
const systemAccess: JobTemplate['access'] = ['discovery', 'agents', 'store', 'services'];

export const priorities = { system: 80, app: 50, build: 40 } as const;

/** A workload, every default filled in, with the template it is to run. */
export type CompiledWorkload = z.output<typeof workloadInputSchema>;

export type RunnableApp = Pick<App, 'id' | 'name' | 'isSystem'> & {
  hasOwnVolumes: boolean;
  /** Its members agree on who leads by keys that they have of their own in the store. */
  isDatastore?: boolean;
  /** What its jobs may take that run once. */
  oneOffLimits?: OneOffLimits;
};
export type RunnableRelease = Pick<Release, 'id' | 'env' | 'processes' | 'links'> & { checks?: CheckDefaults };
export type RunnableArtifact = Pick<Artifact, 'type' | 'image'>;

/** What a release runs on: without an artifact nothing of it can run. */
export type Runnable = { app: RunnableApp; release: RunnableRelease; artifact: RunnableArtifact };

/** Types that get HTTP traffic: `web`, `admin-web`. */
export function isWebType(type: string): boolean {
  return type === 'web' || type.endsWith('-web');
}

export function serviceNameOf(appName: string, type: string): string {
  return `${appName}-${type}`.replaceAll('_', '-').replace(/-+$/, '');
}

/** What a job may be called in discovery at a port: its service, and the roles it has at times. */
export function namesOf({ service, roles = [] }: Process['ports'][number]): string[] {
  return [...(service === undefined ? [] : [service.name]), ...roles.map(({ name }) => name)];
}

/** The process of a Procfile line, as a release of a slug has it. `web` types listen on PORT, which is 8080. */
export function slugProcess(commandLine: string, type: string): z.input<typeof processSchema> {
  return { ...startedBySlug([commandLine]), ports: isWebType(type) ? [{ port: defaultPort }] : [] };
}

/**
 * A process of an image: as the image says, or a line for its shell. `web` types listen on the port it exposes; PORT says the
 * same.
 */
export function imageProcess(
  commandLine: string | undefined,
  type: string,
  port: number = defaultPort,
): z.input<typeof processSchema> {
  const run = commandLine === undefined ? {} : { entrypoint: ['/bin/sh'], command: ['-c', commandLine] };
  return { ...run, ports: isWebType(type) ? [{ port }] : [] };
}

/** The slug's starter takes one word as a line for the shell, and several as a program with exactly these arguments. */
export function startedBySlug(words: readonly string[]) {
  return { command: [slugStarter, ...words], user: '5000', workingDirectory: '/app', env: { HOME: '/app' } };
}

/**
 * A standing type is one workload through all releases, replaced in place, the old job stopping first: two at once
 * would share a volume. A host's port may be shared by two releases of one type: who listens there sets SO_REUSEPORT.
 */
export function isStanding(process: Process): boolean {
  return process.volumes.some(({ isShared = false }) => !isShared);
}

export function workloadIdOf(appId: string, release: RunnableRelease, type: string): string {
  const process = release.processes[type];
  return process !== undefined && isStanding(process) ? `${appId}-${type}` : `${appId}-${release.id}-${type}`;
}

/** The app whose workload it is: ids of apps contain no dash. */
export function appIdOf(workloadId: string): string {
  const [appId = ''] = workloadId.split('-', 1);
  return appId;
}

/** A host knows volumes by name alone: without the app's id two apps that call theirs "data" would have one. */
function volumesOf(app: RunnableApp, type: string, { volumes }: Process): Process['volumes'] {
  if (!app.hasOwnVolumes) return volumes;
  return volumes.map((volume) => ({ ...volume, name: ownVolumeName(app.id, type, volume.name) }));
}

/** The workload of a type the release has. Same input, same workload: its version changes exactly when its template does. */
export function compileWorkload(runnable: Runnable, type: string, process: Process, count: number): CompiledWorkload {
  const { app, release, artifact } = runnable;
  const isServing =
    process.ports.length > 0 && (isWebType(type) || process.ports.some((port) => namesOf(port).length > 0));
  const template = jobTemplateSchema.parse({
    image: artifact.image,
    ...(process.entrypoint === undefined ? {} : { entrypoint: process.entrypoint }),
    ...(process.command === undefined ? {} : { command: process.command }),
    env: envOf(runnable, type, process.env),
    meta: metaOf(runnable, type),
    ports: portsOf(runnable, type, process),
    ...roomOf({ memoryBytes: process.memoryBytes, cpuMillis: process.cpuMillis }),
    ...ownLimitsOf(process),
    volumes: volumesOf(app, type, process),
    hostNetwork: process.hostNetwork,
    ...keyspaceOf(runnable),
    links: release.links === undefined ? process.links : linksOf(runnable, [process]),
    ...reachOf(runnable, [process]),
    ...(process.user === undefined ? {} : { user: process.user }),
    ...(process.workingDirectory === undefined ? {} : { workingDirectory: process.workingDirectory }),
    stopTimeoutMs: process.stopTimeoutMs,
    drainMs: process.drainMs ?? (isServing ? serviceDrainMs : 0),
  });
  return workloadInputSchema.parse({
    id: workloadIdOf(app.id, release, type),
    kind: process.omni ? 'omni' : 'service',
    count,
    ...(process.maxHosts === undefined ? {} : { maxHosts: process.maxHosts }),
    ...constraintsOf(process),
    version: versionOf(template),
    template,
    priority: app.isSystem ? priorities.system : priorities.app,
    // Without its platform an app can be neither reached nor repaired: in need, it makes room.
    mayPreempt: app.isSystem,
    update: isStanding(process) ? 'stop_first' : 'start_first',
    // Members of a datastore agree in their keyspace: a store that is away stops none of them.
    singleton: isStanding(process) && template.keyspace === undefined,
  });
}

export function constraintsOf({ constraints }: Process): Pick<CompiledWorkload, 'constraints'> | undefined {
  return constraints === undefined ? undefined : { constraints };
}

/**
 * Jobs rarely use what they may: a quarter of the memory and a tenth of the processor time is set aside, so that a small
 * host runs more than a few apps. Between these and its limits a job competes with its neighbours.
 */
export function roomOf(limits: Resources): { resources: Resources; limits: Resources } {
  const memoryBytes = Math.max(1, Math.floor(limits.memoryBytes / 4));
  return { resources: { memoryBytes, cpuMillis: Math.floor(limits.cpuMillis / 10) }, limits };
}

/** Those it does not say stay unsaid: a default here would make every template another one when it changes. */
export function ownLimitsOf({
  pidsLimit,
  filesLimit,
  tempDiskBytes,
}: Process): Pick<Process, 'pidsLimit' | 'filesLimit' | 'tempDiskBytes'> {
  return {
    ...(pidsLimit === undefined ? {} : { pidsLimit }),
    ...(filesLimit === undefined ? {} : { filesLimit }),
    ...(tempDiskBytes === undefined ? {} : { tempDiskBytes }),
  };
}

/** It is called what its app is, by the id: no other app can have it. */
function keyspaceOf({ app, release }: Runnable): Pick<JobTemplate, 'keyspace'> {
  const password = app.isDatastore === true ? release.env[keyspacePassword] : undefined;
  if (password === undefined) return {};
  return { keyspace: { name: app.id, keyDigest: `sha256:${createHash('sha256').update(password).digest('hex')}` } };
}

/** What these reach, and after that what all of the release does. */
function linksOf({ release }: Runnable, processes: readonly Pick<Process, 'links'>[]): string[] {
  return [...new Set([...processes, { links: release.links ?? [] }].flatMap(({ links }) => links))];
}

/** Jobs of one app reach each other. */
function reachOf(
  { app, release }: Runnable,
  processes: readonly Process[],
): Pick<JobTemplate, 'group' | 'access' | keyof Identified> {
  return { group: app.id, access: app.isSystem ? systemAccess : [], ...identityOf(app, release, processes) };
}

type Identified = Pick<JobTemplate, 'identity' | 'isAlwaysIdentified'>;

/**
 * As who a part of the platform is known to others, if this release of it can say so, and whether it always does, by the
 * environment that its processes have of their own: the app's may be of a later version than these.
 */
export function identityOf(app: RunnableApp, { env }: RunnableRelease, processes: readonly Process[]): Identified {
  if (!app.isSystem || env['FLYNN_MUTUAL_TLS'] !== 'true') return {};
  const isAlways = processes.length > 0 && processes.every((process) => process.env[alwaysVariable] === 'true');
  return { identity: app.name, ...(isAlways ? { isAlwaysIdentified: true } : {}) };
}

export type OneOff = {
  workloadId: string;
  /** What it is shown as; `run` unless said. */
  type?: string;
  command: readonly string[];
  env: Readonly<Record<string, string>>;
  tty: boolean;
  stdin: boolean;
  /** Else as the app has it for its kind. */
  memoryBytes?: number | undefined;
  cpuMillis?: number | undefined;
  maxRuntimeMs?: number | undefined;
};

/** A job people ask for: any command in a release's image and environment. */
export function compileOneOff(runnable: Runnable, oneOff: OneOff): CompiledWorkload {
  const { artifact, app } = runnable;
  const { type = 'run' } = oneOff;
  const limits = app.oneOffLimits?.[kindOf(type)] ?? oneOffDefaults;
  const [program = '', ...args] = oneOff.command;
  const isSlug = artifact.type === 'slug';
  const run = isSlug ? startedBySlug(oneOff.command) : { entrypoint: [program], command: args, env: {} };
  const template = jobTemplateSchema.parse({
    ...run,
    image: artifact.image,
    env: envOf(runnable, type, { ...run.env, ...oneOff.env }),
    meta: metaOf(runnable, type),
    ...reachOf(runnable, Object.values(runnable.release.processes)),
    // What any type of the app may reach: a console is there to look at what they see.
    links: linksOf(runnable, Object.values(runnable.release.processes)).toSorted(),
    ...roomOf({
      memoryBytes: oneOff.memoryBytes ?? limits.memoryBytes,
      cpuMillis: oneOff.cpuMillis ?? limits.cpuMillis,
    }),
    tty: oneOff.tty,
    stdin: oneOff.stdin,
    restart: 'never',
    ...(oneOff.maxRuntimeMs === undefined ? {} : { maxRuntimeMs: oneOff.maxRuntimeMs }),
  });
  return ephemeral(oneOff.workloadId, template, app.isSystem ? priorities.system : priorities.app);
}

function kindOf(type: string): OneOffKind {
  if (type === 'cron') return 'cron';
  return type === 'run' ? 'run' : 'release';
}

/** A line for a shell, as a one-off job of the release takes it. */
export function lineCommand({ artifact }: Pick<Runnable, 'artifact'>, line: string): string[] {
  return artifact.type === 'slug' ? [line] : ['/bin/sh', '-c', line];
}

export function ephemeral(id: string, template: JobTemplate, priority: number): CompiledWorkload {
  return workloadInputSchema.parse({
    id,
    kind: 'ephemeral',
    count: 1,
    version: versionOf(template),
    template,
    priority,
  });
}

/** A process type's variables are more specific than the release's; what the platform says of the job is not overridden. */
function envOf(
  { app, release }: Runnable,
  type: string,
  env: Readonly<Record<string, string>>,
): Record<string, string> {
  return {
    ...release.env,
    ...env,
    FLYNN_APP_ID: app.id,
    FLYNN_APP_NAME: app.name,
    FLYNN_RELEASE_ID: release.id,
    FLYNN_PROCESS_TYPE: type,
  };
}

export function metaOf({ app, release }: Runnable, type: string): Record<string, string> {
  return {
    'flynn.app': app.id,
    'flynn.app_name': app.name,
    'flynn.release': release.id,
    'flynn.type': type,
    'flynn.system': String(app.isSystem),
  };
}

/** A web type that names no service answers as APP-TYPE on its first port: that is where its default route leads. */
export function isNamedByType(type: string, ports: Process['ports']): boolean {
  return isWebType(type) && ports.length > 0 && !ports.some((port) => port.service !== undefined);
}

/** What jobs of the type are called in discovery: where routes may lead to. */
export function servicesOf(appName: string, type: string, { ports }: Pick<Process, 'ports'>): string[] {
  const named = ports.flatMap(namesOf);
  return isNamedByType(type, ports) ? [serviceNameOf(appName, type), ...named] : named;
}

function portsOf({ app, release: { checks } }: Runnable, type: string, { ports }: Process): Process['ports'] {
  const isUnnamed = isNamedByType(type, ports);
  const startTimeoutMs = checks?.startTimeoutMs ?? defaultCheck.startTimeoutMs;
  const named = ports.map((port, index) =>
    index === 0 && isUnnamed
      ? { ...port, service: { name: serviceNameOf(app.name, type), check: { ...defaultCheck, startTimeoutMs } } }
      : port,
  );
  return checks === undefined ? named : named.map((port) => withDefaults(port, checks));
}
