/** Containers on Docker: from our spec to the engine's, and back from what it says about them. */
import type Docker from 'dockerode';
import { systemClock } from '@flynn/kit/clock';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { CallOptions, Container, ContainerSpec, Labels } from '../engine/engine.ts';
import { engineCall, isStatus } from './errors.ts';
import { buildNetworkPrefix, label, loadedRepository, withoutOwnOf } from '../engine/labels.ts';

export type DockerContext = { docker: Docker; cluster: string };

/** What an agent's crash or a full disk must not be able to fill. */
const logConfig = { Type: 'json-file', Config: { 'max-size': '10m', 'max-file': '2' } };

/** Of the engine's default set. Apps start as root and change to a user of theirs (databases do): that stays possible. */
const droppedCapabilities = ['NET_RAW', 'MKNOD', 'AUDIT_WRITE', 'SETFCAP', 'SETPCAP'] as const;

export function createBody(
  spec: ContainerSpec,
  cluster: string,
  imageLabels: Labels = {},
): Docker.ContainerCreateOptions {
  return {
    Image: spec.imageRef,
    Hostname: spec.hostname,
    Labels: { ...withoutOwnOf(imageLabels), ...spec.labels, [label.cluster]: cluster },
    Env: Object.entries(spec.env).map(([name, value]) => `${name}=${value}`),
    ...(spec.entrypoint === undefined ? {} : { Entrypoint: [...spec.entrypoint] }),
    ...(spec.command === undefined ? {} : { Cmd: [...spec.command] }),
    ...(spec.user === undefined ? {} : { User: spec.user }),
    ...(spec.workingDirectory === undefined ? {} : { WorkingDir: spec.workingDirectory }),
    Tty: spec.tty,
    OpenStdin: spec.stdin,
    StdinOnce: spec.stdin,
    AttachStdin: spec.stdin,
    ExposedPorts: Object.fromEntries((spec.published ?? []).map((p) => [`${p.port}/${p.protocol}`, {}])),
    HostConfig: hostConfig(spec, cluster, imageLabels),
  };
}

function hostConfig(spec: ContainerSpec, cluster: string, imageLabels: Labels): Docker.HostConfig {
  const { memoryBytes, cpuMillis, pids, files, shmBytes } = spec.limits;
  return {
    // The init process reaps zombies and makes signals reach a process that runs as PID 1 unprepared.
    Init: true,
    LogConfig: logConfig,
    RestartPolicy: { Name: 'no' },
    ...network(spec),
    Mounts: [
      ...spec.volumes.map((v) => ({
        Type: 'volume' as const,
        Source: v.name,
        Target: v.path,
        ReadOnly: v.isReadOnly ?? false,
        // One that went since it was made for this is made again: it must not be nobody's.
        VolumeOptions: {
          NoCopy: false,
          Labels: { ...v.labels, [label.cluster]: cluster },
          DriverConfig: { Name: 'local', Options: {} },
        },
      })),
      ...(spec.binds ?? []).map((b) => ({
        Type: 'bind' as const,
        Source: b.source,
        Target: b.path,
        ReadOnly: b.isReadOnly,
      })),
      ...(spec.standIns ?? [])
        .filter((one) => imageLabels[one.label] === one.value)
        .map((one) => ({ Type: 'bind' as const, Source: one.source, Target: one.path, ReadOnly: true })),
    ],
    // Memory and swap together: a limit that equals the memory leaves no swap.
    ...(memoryBytes === undefined ? {} : { Memory: memoryBytes, MemorySwap: memoryBytes }),
    ...(cpuMillis === undefined ? {} : { CpuShares: Math.max(2, Math.round((cpuMillis * 1024) / 1000)) }),
    ...(pids === undefined ? {} : { PidsLimit: pids }),
    ...(files === undefined ? {} : { Ulimits: [{ Name: 'nofile', Soft: files, Hard: files }] }),
    ...(shmBytes === undefined ? {} : { ShmSize: shmBytes }),
    ...(spec.isPrivileged === true ? {} : { CapDrop: [...droppedCapabilities], SecurityOpt: ['no-new-privileges'] }),
  };
}

function network(spec: ContainerSpec): Docker.HostConfig {
  if (spec.network.type === 'host') return { NetworkMode: 'host' };
  const bindings = (spec.published ?? []).map(
    (p) => [`${p.port}/${p.protocol}`, [{ HostPort: String(p.hostPort) }]] as const,
  );
  return {
    NetworkMode: spec.network.name,
    Dns: [...spec.network.dns],
    // None. The host's would have a name of the cluster that nobody has for now asked for below a domain of strangers.
    DnsSearch: ['.'],
    PortBindings: Object.fromEntries(bindings),
  };
}

/** The engine writes year 1 for "never". */
function timeMs(text: string): number | undefined {
  const ms = Date.parse(text);
  return Number.isFinite(ms) && ms > 0 ? ms : undefined;
}

function stateOf(status: string): Container['state'] {
  switch (status) {
    case 'created':
      return 'created';
    case 'exited':
    case 'dead':
    case 'removing':
      return 'exited';
    default:
      return 'running';
  }
}

type Mount = Readonly<{ Type?: string; Name?: string | undefined; Source: string }>;

function mountsOf(mounts: readonly Mount[]): Pick<Container, 'volumes' | 'binds'> {
  return {
    volumes: mounts.flatMap(({ Type, Name }) => (Type === 'volume' && Name !== undefined ? [Name] : [])),
    binds: mounts.flatMap(({ Type, Source }) => (Type === 'bind' ? [Source] : [])),
  };
}

export function containerOf(info: Docker.ContainerInspectInfo): Container {
  const state = stateOf(info.State.Status);
  const address = Object.values(info.NetworkSettings.Networks).find((n) => n.IPAddress !== '')?.IPAddress;
  const startedAtMs = timeMs(info.State.StartedAt);
  // The engine takes down the start once it is done starting: a program that ends at once ended before that.
  const finishedAtMs = timeMs(info.State.FinishedAt);
  const endedAtMs = finishedAtMs === undefined ? undefined : Math.max(finishedAtMs, startedAtMs ?? 0);
  return {
    id: info.Id,
    name: info.Name.replace(/^\//, ''),
    labels: info.Config.Labels,
    state,
    ...(state === 'running' && address !== undefined ? { address } : {}),
    ...(state === 'running' && info.State.Pid > 0 ? { pid: info.State.Pid } : {}),
    imageId: info.Image,
    tty: info.Config.Tty,
    ...mountsOf(info.Mounts),
    createdAtMs: timeMs(info.Created) ?? 0,
    ...(startedAtMs === undefined ? {} : { startedAtMs }),
    ...(state === 'exited' && endedAtMs !== undefined ? { endedAtMs } : {}),
    ...(state === 'exited' ? { exitCode: info.State.ExitCode } : {}),
    isOutOfMemory: info.State.OOMKilled,
    ...(info.State.Error === '' ? {} : { error: info.State.Error }),
  };
}

export async function createContainer(
  context: DockerContext,
  spec: ContainerSpec,
  options: CallOptions,
): Promise<string> {
  // Those of a whole image are the agent's own: see `ownConfig`.
  const isOwn = spec.imageRef.startsWith(`${loadedRepository(context.cluster)}:`);
  const imageLabels = isOwn ? {} : await labelsOfImage(context, spec.imageRef, options);
  const created = await engineCall(
    `creating container ${spec.name}`,
    (abortSignal) => {
      // Without `_query` and `_body` dockerode sends the whole body a second time in the URL.
      const request = {
        _query: { name: spec.name },
        _body: createBody(spec, context.cluster, imageLabels),
        abortSignal,
      };
      return context.docker.createContainer(request);
    },
    options,
  );
  return created.id;
}

async function labelsOfImage({ docker }: DockerContext, imageRef: string, options: CallOptions): Promise<Labels> {
  const info = await engineCall(
    `looking at image ${imageRef}`,
    (abortSignal) => {
      const request = { manifests: false, abortSignal };
      return docker.getImage(imageRef).inspect(request);
    },
    options,
  );
  // An image without any has null, one of some builders no configuration at all.
  const config: { Labels?: Labels | null } | null | undefined = info.Config;
  return config?.Labels ?? {};
}

/** One whose network is another by now, under the same name, joins that one: the engine would look for the former for ever. */
export async function startContainer(context: DockerContext, id: string, options: CallOptions): Promise<void> {
  try {
    await startOnce(context, id, options);
  } catch (error) {
    if (!hasCode(error, 'not_found') || !(await joinNetworkAnew(context, id, options))) throw error;
    await startOnce(context, id, options);
  }
}

async function startOnce({ docker }: DockerContext, id: string, options: CallOptions): Promise<void> {
  await engineCall(
    `starting container ${id}`,
    async (abortSignal) => {
      try {
        await docker.getContainer(id).start({ abortSignal });
      } catch (error) {
        if (!isStatus(error, 304)) throw error;
      }
    },
    options,
  );
}

/** Whether it has a network to join. */
async function joinNetworkAnew({ docker }: DockerContext, id: string, options: CallOptions): Promise<boolean> {
  const doing = `joining the network of container ${id}`;
  const { HostConfig } = await engineCall(
    doing,
    (abortSignal) => docker.getContainer(id).inspect({ abortSignal }),
    options,
  );
  const { NetworkMode: name = 'host' } = HostConfig;
  if (name === 'host') return false;
  const network = docker.getNetwork(name);
  await engineCall(
    doing,
    async (abortSignal) => {
      try {
        await network.disconnect({ Container: id, Force: true, abortSignal });
      } catch (error) {
        // An attempt before this one came so far.
        if (!isStatus(error, 500)) throw error;
      }
      const request = { Container: id, abortSignal };
      await network.connect(request);
    },
    options,
  );
  return true;
}

export async function stopContainer(
  { docker }: DockerContext,
  id: string,
  options: CallOptions & { timeoutMs: number },
): Promise<void> {
  const t = Math.ceil(options.timeoutMs / 1000);
  await engineCall(
    `stopping container ${id}`,
    async (abortSignal) => {
      try {
        await docker.getContainer(id).stop({ t, abortSignal });
      } catch (error) {
        if (!isStatus(error, 304)) throw error;
      }
    },
    { ...options, deadlineMs: options.timeoutMs + 60_000 },
  );
}

export async function removeContainer({ docker }: DockerContext, id: string, options: CallOptions): Promise<void> {
  try {
    await engineCall(
      `removing container ${id}`,
      (abortSignal) => {
        const request = { force: true, v: true, abortSignal };
        return docker.getContainer(id).remove(request);
      },
      options,
    );
  } catch (error) {
    // Somebody else is just removing it: it will be gone.
    const isInProgress = hasCode(error, 'conflict') && error.message.includes('already in progress');
    if (!hasCode(error, 'not_found') && !isInProgress) throw error;
  }
}

export async function inspectContainer(
  context: DockerContext,
  id: string,
  options: CallOptions & { deadlineMs?: number },
): Promise<Container> {
  const look = () =>
    engineCall(
      `looking at container ${id}`,
      (abortSignal) => context.docker.getContainer(id).inspect({ abortSignal }),
      options,
    );
  let info = await look();
  if (mayBeOutOfMemory(info.State)) {
    await systemClock.sleep(hearsOfMemoryMs, options.signal === undefined ? {} : { signal: options.signal });
    info = await look();
  }
  if (!isOurs(info.Config.Labels, context.cluster) || isBuildStep(info, context.cluster)) {
    throw new FlynnError('not_found', `container ${id} is not of cluster ${context.cluster}`);
  }
  return containerOf(info);
}

/** The engine hears that memory ran out beside the end, now and then after it. */
const hearsOfMemoryMs = 300;

/** Killed a moment ago, by nobody that is known yet. */
function mayBeOutOfMemory({ Status, ExitCode, OOMKilled, FinishedAt }: Docker.ContainerInspectInfo['State']): boolean {
  if (stateOf(Status) !== 'exited' || ExitCode !== 137 || OOMKilled) return false;
  return Math.abs(Date.now() - (timeMs(FinishedAt) ?? 0)) < hearsOfMemoryMs;
}

/** It has the labels of the image it was made from, which may be ours by somebody else's word. */
function isBuildStep({ HostConfig }: { HostConfig?: { NetworkMode?: string } }, cluster: string): boolean {
  return HostConfig?.NetworkMode?.startsWith(buildNetworkPrefix(cluster)) === true;
}

export function isOurs(labels: Labels | undefined, cluster: string): boolean {
  return labels?.[label.cluster] === cluster;
}

export async function listStates(
  context: DockerContext,
  options: CallOptions,
): Promise<ReadonlyMap<string, Container['state']>> {
  const rows = await listRows(context, options);
  return new Map(rows.map(({ Id, State }) => [Id, stateOf(State)]));
}

async function listRows(context: DockerContext, options: CallOptions): Promise<Docker.ContainerInfo[]> {
  const filters = { label: [`${label.cluster}=${context.cluster}`] };
  const rows = await engineCall(
    'listing containers',
    (abortSignal) => context.docker.listContainers({ all: true, filters, abortSignal }),
    options,
  );
  return rows.filter((row) => !isBuildStep(row, context.cluster));
}

/** Shorter than a call's own: the others wait for one that cannot be looked at. */
const lookDeadlineMs = 15_000;

/**
 * The more hang, the less the next is waited for, down to half a second. With the whole time for each, a list of more than 32 that
 * hang took longer than a minute, and who gives up after a minute never had one.
 */
function patienceMs(deadlineMs: number, hanging: number): number {
  return Math.max(deadlineMs / 30, deadlineMs / (1 + hanging));
}

/**
 * The engine's list has neither exit codes nor start times, so each is looked at: a few at a time. One that the engine hangs
 * over, or cannot tell of, is as the list has it: it keeps nobody from the others.
 */
export async function listContainers(
  context: DockerContext,
  { deadlineMs = lookDeadlineMs, ...options }: CallOptions & { deadlineMs?: number },
): Promise<Container[]> {
  const rows = await listRows(context, options);
  const found: Container[] = [];
  let hanging = 0;
  const remaining = rows.values();
  const lane = async () => {
    for (const row of remaining) {
      try {
        const look = { ...options, deadlineMs: patienceMs(deadlineMs, hanging) };
        found.push(await inspectContainer(context, row.Id, look));
      } catch (error) {
        // Removed between the list and the look.
        if (hasCode(error, 'not_found')) continue;
        if (options.signal?.aborted === true || !hasCode(error, 'timeout', 'internal')) throw error;
        if (hasCode(error, 'timeout')) hanging += 1;
        found.push(containerOfRow(row, error.message));
      }
    }
  };
  await Promise.all(Array.from({ length: 8 }, lane));
  return found;
}

function containerOfRow(row: Docker.ContainerInfo, error: string): Container {
  const state = stateOf(row.State);
  const address = Object.values(row.NetworkSettings.Networks).find((n) => n.IPAddress !== '')?.IPAddress;
  return {
    id: row.Id,
    name: row.Names[0]?.replace(/^\//, '') ?? row.Id,
    labels: row.Labels,
    state,
    ...(state === 'running' && address !== undefined ? { address } : {}),
    imageId: row.ImageID,
    tty: false,
    ...mountsOf(row.Mounts),
    createdAtMs: row.Created * 1_000,
    isOutOfMemory: false,
    error,
    isUnclear: true,
  };
}
