/** What preflight judges by, looked up on this machine. */
import { readFile, stat, statfs } from 'node:fs/promises';
import { totalmem } from 'node:os';
import { dirname } from 'node:path';
import { readAddress } from '@flynn/host-agent/doctor/address';
import { isAgentRunning, setupOf } from '../agent/agent.ts';
import { askEngine, canStartEngine, isEngineUp, isSystemdRunning } from './engine.ts';
import { engineFacts, readEngine } from './engine-modes.ts';
import { type Listener, ownerOf, readListeners } from './listeners.ts';
import { readMachineNetworks } from './networks.ts';
import { readNameServers } from './name-servers.ts';
import { newestFile } from '../origin.ts';
import { type Facts, gatewayPorts, tunnelPorts } from './preflight.ts';
import { hasProgram, tryProgram } from './program.ts';
import { type Cluster, type Options } from '../settings.ts';
import { httpsPortOf } from '../domain/urls.ts';
import { readCluster, strangersIn } from '../state.ts';
import { lookAtIp, lookAtNft, lookAtWireguard } from './tools.ts';
import { unclaimedOf } from './unclaimed.ts';

/** As the host agent names its devices. */
const tunnelPrefixes = ['flynnvx', 'flwg'];
const neededPrograms = ['git', 'ssh-keygen', 'ssh', 'ip', 'bridge', 'nft'] as const;

export async function readFacts(options: Options, cluster: Cluster): Promise<Facts> {
  const socket = options.FLYNN_DOCKER_SOCKET;
  const isRunning = await isEngineUp(socket);
  const [hasJobs, { dataDir, modes, pools }] = isRunning
    ? await Promise.all([hasRunningJobs(socket, cluster.name), readEngine(socket)])
    : [false, engineFacts({})];
  // An agent that waits for its engine has the ports already.
  const isClusterUp = hasJobs || (await isAgentRunning(setupOf(options, cluster)));
  const wireguard = cluster.site === undefined ? undefined : await lookAtWireguard();
  const [nft, ip] = await Promise.all([lookAtNft(), lookAtIp()]);
  const ports = new Set([
    ...gatewayPorts.map(({ port }) => port),
    cluster.httpPort,
    httpsPortOf(cluster),
    cluster.gitPort,
  ]);
  const stored = await readCluster(options.FLYNN_STATE_DIR);
  const devices = await readFile('/proc/net/dev', 'utf8');
  const hasTunnel = tunnelPrefixes.some((prefix) => devices.includes(prefix));
  const listeners = (await readListeners())
    .filter((listener) => ports.has(listener.port))
    // A tunnel that an agent which was killed left behind is ours.
    .filter((listener) => !(hasTunnel && tunnelPorts.includes(listener.port)));
  return {
    platform: process.platform,
    isRoot: process.getuid?.() === 0,
    stateDir: options.FLYNN_STATE_DIR,
    memoryBytes: totalmem(),
    strangers: await strangersIn(options.FLYNN_STATE_DIR),
    disks: await Promise.all([options.FLYNN_STATE_DIR, dataDir].map(diskOf)),
    engine: isRunning ? 'running' : canStartEngine(socket) ? 'startable' : 'missing',
    engineModes: modes,
    enginePools: pools,
    missingPrograms: neededPrograms.filter((name) => !hasProgram(name)),
    listeners: await Promise.all(listeners.map(withOwner)),
    networks: await readMachineNetworks(isRunning ? socket : undefined),
    nameServers: await readNameServers(options.FLYNN_DNS_UPSTREAMS ?? cluster.dnsUpstreams ?? ''),
    address: await readAddress(cluster.address, cluster.bridge, cluster.site),
    knownAddresses: stored === undefined ? [] : [stored.address, stored.localAddress ?? stored.address],
    isHost: stored !== undefined,
    isClusterUp,
    isNameGiven: options.FLYNN_CLUSTER !== undefined,
    unclaimed: await unclaimedOf(options, cluster.name),
    ...(nft === undefined ? {} : { nft }),
    ...(ip === undefined ? {} : { ip }),
    ...(wireguard === undefined ? {} : { wireguard }),
    clock: {
      now: Date.now(),
      notBefore: await notBefore(cluster.createdAt),
      isSynchronized: await isClockSynchronized(),
    },
  };
}

/** Whichever program sees to it. Without systemd nothing is known. */
async function isClockSynchronized(): Promise<boolean> {
  if (!isSystemdRunning() || !hasProgram('timedatectl')) return false;
  const args = ['show', '--property=NTPSynchronized', '--value'];
  try {
    return (await tryProgram('timedatectl', args, { timeoutMs: 10_000 })).stdout.trim() === 'yes';
  } catch {
    // One that is asked only then, by D-Bus, and does not come.
    return false;
  }
}

/** The clock was at least as far once: when the cluster was made, and when these files were. */
export async function notBefore(createdAt?: string): Promise<number> {
  const { mtimeMs } = await stat(newestFile);
  return Math.max(mtimeMs, createdAt === undefined ? 0 : Date.parse(createdAt));
}

async function withOwner(listener: Listener): Promise<Listener & { owner?: string }> {
  const owner = await ownerOf(listener);
  return owner === undefined ? listener : { ...listener, owner };
}

async function hasRunningJobs(socket: string, cluster: string): Promise<boolean> {
  const filters = { label: [`flynn.cluster=${cluster}`] };
  const containers = await askEngine(socket, (docker) => docker.listContainers({ filters }));
  return containers.length > 0;
}

/** Of the nearest folder that is there. */
async function diskOf(path: string): Promise<{ path: string; freeBytes: number }> {
  for (let folder = path; ; folder = dirname(folder)) {
    try {
      const { bavail, bsize } = await statfs(folder);
      return { path, freeBytes: bavail * bsize };
    } catch (error) {
      if (folder === '/') throw error;
    }
  }
}
