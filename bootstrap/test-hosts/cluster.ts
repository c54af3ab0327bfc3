/** `up --hosts N`: a cluster of N hosts on this machine, each joined as a machine of its own would be, and its removal. */
import { existsSync, readdirSync } from 'node:fs';
import { rm, stat } from 'node:fs/promises';
import { FlynnError } from '@flynn/kit/errors';
import { type Person, removeCluster } from '../cli/config.ts';
import { ensureEngine } from '../machine/engine.ts';
import { ensureImages } from '../images/build.ts';
import { commands } from '../origin.ts';
import { knownRootKeys } from '../rotation/rotation.ts';
import { type Cluster, type Options } from '../settings.ts';
import { httpsPortOf } from '../domain/urls.ts';
import type { Step } from '../steps/step.ts';
import type { Report } from '../steps/timed.ts';
import { ClusterHost } from './cluster-host.ts';
import { untilTogether } from './cluster-view.ts';
import { checkPorts, ensureForwarder, stopForwarder } from './forwarder-process.ts';
import { clusterHosts, namespaceFiles } from './network.ts';

/** As many as have addresses; memory ends earlier: a host takes about half a gigabyte before any app. */
const maxHosts = 100;
const { root } = clusterHosts;
/** Apart from a cluster of this machine's own, and from those of the test suites. */
const defaults = { FLYNN_RANGE: '100.100.64.0/18', FLYNN_SUBNET: '100.100.64.0/24' };

function hostAt(index: number): ClusterHost {
  return new ClusterHost(clusterHosts, `host${index + 1}`, index);
}

/** Those that an earlier `up` began, in their order. */
function existingHosts(): ClusterHost[] {
  if (!existsSync(root)) return [];
  const numbers = readdirSync(root).flatMap((name) => /^host(\d+)$/.exec(name)?.[1] ?? []);
  return numbers
    .map(Number)
    .toSorted((a, b) => a - b)
    .map((number) => hostAt(number - 1));
}

export type HostsContext = Readonly<{
  count: number;
  options: Options;
  env: Record<string, string | undefined>;
}>;

/**
 * The steps to it. Each looks first: hosts that are there stay, those that do not run are started as their boot would,
 * new ones join. `invalid` for a count that is none, `conflict` for fewer hosts than there are.
 */
export function stepsOfHosts({ count, options, env }: HostsContext): Step[] {
  const existing = existingHosts();
  if (!Number.isSafeInteger(count) || count < 1 || count > maxHosts) {
    throw new FlynnError('invalid', `--hosts takes a number from 1 to ${maxHosts}`);
  }
  if (existing.length > count) {
    throw new FlynnError(
      'conflict',
      `there are ${existing.length} hosts on this machine already, and they do not become fewer: take them away first with ${commands.down}`,
    );
  }
  const hosts = Array.from({ length: count }, (_, index) => hostAt(index));
  const [first = hostAt(0), ...others] = hosts;
  let images: readonly string[] = [];
  const callers = { HOME: env['HOME'] ?? '/root', ...pick(env, ['SUDO_USER', 'SUDO_UID', 'SUDO_GID']) };

  return [
    {
      title: 'Container engine and images',
      run: async (report) => {
        await checkPorts(root, portsOf(await first.readCluster(), options));
        const { docker } = await ensureEngine({ stateDir: options.FLYNN_STATE_DIR });
        images = [...(await ensureImages({ docker, report })).values()];
      },
    },
    {
      title: count === 1 ? 'Host' : `${count} hosts`,
      run: async (report) => {
        for (const host of hosts) await host.ensure();
        await inParallel(hosts, async (host) => {
          await host.startEngine();
          report(`the engine of ${host.name} runs`);
        });
        report('copying images');
        await first.copyImages(images);
        // The store of three hosts serves when two of them do: none is waited for before all are started.
        const started = hosts.filter((host) => host.startAgent());
        // An `up` would take the ports of an agent without jobs for somebody else's.
        await inParallel(started, (host) => host.untilBusy());
        const outcome = existing.length === count ? 'there already' : `${count - existing.length} new`;
        return started.length === 0 ? outcome : `${outcome}, ${started.length} started again`;
      },
    },
    {
      title: `Cluster on ${first.name}`,
      run: async (report) => {
        const isNew = (await first.readCluster()) === undefined;
        const settings = { ...(isNew ? defaults : {}), ...settingsOf(options) };
        // The flynn command of whoever called is configured for this cluster.
        const { FLYNN_CONFIG_DIR: configDir = '' } = options;
        const person = { ...callers, FLYNN_CONFIG_DIR: configDir };
        await first.up([], { env: { ...settings, ...person }, onLine: linesTo(report) });
      },
    },
    ...(others.length === 0
      ? []
      : [
          {
            title: others.map(({ name }) => name).join(', '),
            run: async (report: Report) => {
              const joined = await joinHosts(first, others, { report, env: ownSettingsOf(options) });
              await untilTogether(hosts);
              return joined === 0 ? 'in the cluster' : `${joined} joined`;
            },
          },
        ]),
    {
      title: 'Ways in',
      run: async () => {
        const ports = portsOf(await first.readCluster(), options);
        const outcome = await ensureForwarder(root, { hosts: hosts.map(({ address }) => address), ports });
        return `ports ${ports.join(' and ')} of this machine lead to the hosts${outcome === 'running' ? ' already' : ''}`;
      },
    },
  ];
}

/** Those that are in the cluster already are brought up to date. How many joined. */
export async function joinHosts(
  first: ClusterHost,
  others: readonly ClusterHost[],
  { report = () => {}, env = {} }: { report?: Report; env?: Record<string, string> } = {},
): Promise<number> {
  const known = await Promise.all(others.map((host) => host.readCluster()));
  const isAnyNew = known.includes(undefined);
  const token = isAnyNew ? (await first.up(['--token'])).trim() : '';
  await inParallel(others, async (host) => {
    const isNew = known[others.indexOf(host)] === undefined;
    await host.up(isNew ? joinFlags(host, token) : [], {
      onLine: linesTo((line) => report(`${host.name}: ${line}`)),
      env,
    });
  });
  return known.filter((cluster) => cluster === undefined).length;
}

/** Each behind a router of its own, in a network that has its name. */
function joinFlags(host: ClusterHost, token: string): string[] {
  return ['--join', token, ...(host.isBehindNat ? ['--behind-nat', host.name] : [])];
}

/** What the first host settled, for whoever says what to type next. */
export async function readHostsCluster(): Promise<Cluster | undefined> {
  return existingHosts()[0]?.readCluster();
}

/** Hosts have the machine's files in common, but not its network. */
export async function isInsideHost(): Promise<boolean> {
  const own = await stat('/proc/self/ns/net');
  for (const file of namespaceFiles()) {
    const { dev, ino } = await stat(file);
    if (dev === own.dev && ino === own.ino) return true;
  }
  return false;
}

/** Takes away every host with all that was in it, and says what is gone. */
export async function downHosts(person: Person): Promise<string[]> {
  const hosts = existingHosts();
  const removed: string[] = [];
  const cluster = await readHostsCluster();
  if (await stopForwarder(root)) removed.push('the ways into the hosts');
  await Promise.all(hosts.map((host) => host[Symbol.asyncDispose]()));
  if (hosts.length > 0) {
    removed.push(
      `${hosts.length} ${hosts.length === 1 ? 'host' : 'hosts'} with all that was in ${hosts.length === 1 ? 'it' : 'them'}`,
    );
  }
  if (cluster !== undefined && (await removeCluster(person, { name: cluster.name, keys: knownRootKeys(cluster) }))) {
    removed.push(`the cluster from ${person.configDir}`);
  }
  await rm(root, { recursive: true, force: true });
  return removed;
}

function portsOf(cluster: Cluster | undefined, options: Options): number[] {
  const httpPort = options.FLYNN_HTTP_PORT ?? cluster?.httpPort ?? 80;
  const httpsPort = options.FLYNN_HTTPS_PORT ?? cluster?.httpsPort;
  const gitPort = options.FLYNN_GIT_PORT ?? cluster?.gitPort ?? 2222;
  return [httpPort, httpsPortOf({ httpPort, ...(httpsPort === undefined ? {} : { httpsPort }) }), gitPort];
}

/** Settings of the cluster, and those that hosts have each for itself: the same for all. */
export function settingsOf(options: Options): Record<string, string> {
  const names = [
    'FLYNN_CLUSTER',
    'FLYNN_DOMAIN',
    'FLYNN_HTTP_PORT',
    'FLYNN_HTTPS_PORT',
    'FLYNN_GIT_PORT',
    'FLYNN_RANGE',
    'FLYNN_SUBNET',
    'FLYNN_BRIDGE',
  ] as const;
  return { ...given(options, names), ...ownSettingsOf(options) };
}

/** Of those that are there already each is told, too, when the cluster goes over to another way between them. */
function ownSettingsOf(options: Options): Record<string, string> {
  return given(options, ['FLYNN_DNS_UPSTREAMS', 'FLYNN_SCHEDULERS', 'FLYNN_NETWORK_BACKEND']);
}

function given(options: Options, names: readonly (keyof Options)[]): Record<string, string> {
  return Object.fromEntries(
    names.flatMap((name) => (options[name] === undefined ? [] : [[name, String(options[name])]])),
  );
}

function pick(env: Record<string, string | undefined>, names: readonly string[]): Record<string, string> {
  return Object.fromEntries(names.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]])));
}

function linesTo(report: Report): (line: string) => void {
  return (line) => {
    if (line.trim() !== '') report(line.trim());
  };
}

/** The first failure, once all are done: nothing goes on behind the back of whoever is told. */
async function inParallel<T>(items: readonly T[], task: (item: T) => Promise<void>): Promise<void> {
  const results = await Promise.allSettled(items.map(task));
  const failure = results.find((result) => result.status === 'rejected');
  if (failure !== undefined) throw failure.reason;
}
