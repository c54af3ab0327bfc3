/** What does a release of one app become in another? Pure: the same artifact and commands, the other's settings. */
import { ownLimitsOf, serviceNameOf } from '../processes/compile.ts';
import type { App, Release } from '../model.ts';
import type { Process } from '../processes/process.ts';

type Adopted = Pick<Release, 'processes' | 'meta'> &
  Required<Pick<Release, 'scripts' | 'cron'>> & { artifactId: string };

/**
 * `into.release` is the one it takes the place of: what was set for a type there (room, hosts, volumes, links, times) stays. Names
 * of services follow the app. Undefined for a release that has nothing to run.
 */
export function adoptedRelease(
  from: { app: Pick<App, 'name'>; release: Release },
  into: { app: Pick<App, 'name'>; release: Release | undefined },
): Adopted | undefined {
  const { artifactId, scripts = {}, cron = [], version, meta } = from.release;
  if (artifactId === undefined) return undefined;
  const processes = Object.entries(from.release.processes).map(([type, process]): [string, Process] => {
    const before = into.release?.processes[type];
    const own = serviceNameOf(from.app.name, type);
    const theirs = serviceNameOf(into.app.name, type);
    const ports = process.ports.map((port) => renamed(port, { own, theirs }));
    return [type, { ...withSettingsOf(process, before), ports }];
  });
  const kept = Object.entries(meta).filter(([name]) => !ofItsMaking.has(name));
  const origin = { 'promoted.from': `${from.app.name} v${version}` };
  return {
    artifactId,
    processes: Object.fromEntries(processes),
    scripts,
    cron,
    meta: { ...Object.fromEntries(kept), ...origin },
  };
}

type Port = Process['ports'][number];

/** Names that the app has of its own name; of roles those too that begin with it, as a replica's does with its primary's. */
function renamed({ service, roles, ...port }: Port, { own, theirs }: { own: string; theirs: string }): Port {
  const name = service?.name === own ? theirs : service?.name;
  const nameOfRole = (role: string) =>
    role === own || role.startsWith(`${own}-`) ? `${theirs}${role.slice(own.length)}` : role;
  return {
    ...port,
    ...(service === undefined || name === undefined ? {} : { service: { ...service, name } }),
    ...(roles === undefined ? {} : { roles: roles.map((role) => ({ ...role, name: nameOfRole(role.name) })) }),
  };
}

/** What a runner finds its own releases by says nothing of another app's. */
const ofItsMaking: ReadonlySet<string> = new Set(['flynn.operation', 'flynn.basis']);

/** What is not set there is not set then either, of what may be left out. */
function withSettingsOf(process: Process, before: Process | undefined): Process {
  if (before === undefined) return process;
  const { constraints: _, drainMs: __, pidsLimit: ___, filesLimit: ____, tempDiskBytes: _____, ...rest } = process;
  const { memoryBytes, cpuMillis, constraints, volumes, links, stopTimeoutMs, drainMs } = before;
  const drain = drainMs === undefined ? {} : { drainMs };
  const hosts = constraints === undefined ? {} : { constraints };
  const limits = { memoryBytes, cpuMillis, ...ownLimitsOf(before) };
  return { ...rest, ...limits, volumes, links, stopTimeoutMs, ...drain, ...hosts };
}
