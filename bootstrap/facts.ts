/** What preflight judges by, looked up on this machine. */
import { readFile, statfs } from 'node:fs/promises';
import { networkInterfaces, totalmem } from 'node:os';
import { dirname } from 'node:path';
import { canStartEngine, engineAt, isEngineUp } from './engine.ts';
import { type Listener, ownerOf, readListeners } from './listeners.ts';
import { type Facts, gatewayPorts, parseRoutes } from './preflight.ts';
import { hasProgram } from './program.ts';
import type { Cluster, Options } from './settings.ts';

const neededPrograms = ['git', 'ssh-keygen', 'ssh'] as const;

export async function readFacts(options: Options, cluster: Cluster): Promise<Facts> {
  const socket = options.FLYNN_DOCKER_SOCKET;
  const isRunning = await isEngineUp(socket);
  const [isClusterUp, dataDir] = isRunning
    ? await Promise.all([hasRunningJobs(socket, cluster.name), engineDataDir(socket)])
    : [false, '/var/lib/docker'];
  const ports = new Set([...gatewayPorts.map(({ port }) => port), cluster.httpPort, cluster.gitPort]);
  const listeners = (await readListeners()).filter((listener) => ports.has(listener.port));
  return {
    platform: process.platform,
    isRoot: process.getuid?.() === 0,
    memoryBytes: totalmem(),
    disks: await Promise.all([options.FLYNN_STATE_DIR, dataDir].map(diskOf)),
    engine: isRunning ? 'running' : canStartEngine(socket) ? 'startable' : 'missing',
    missingPrograms: neededPrograms.filter((name) => !hasProgram(name)),
    listeners: await Promise.all(listeners.map(withOwner)),
    networks: parseRoutes(await readFile('/proc/net/route', 'utf8').catch(() => '')),
    isClusterUp,
  };
}

async function withOwner(listener: Listener): Promise<Listener & { owner?: string }> {
  const owner = await ownerOf(listener);
  return owner === undefined ? listener : { ...listener, owner };
}

async function hasRunningJobs(socket: string, cluster: string): Promise<boolean> {
  const containers = await engineAt(socket).listContainers({ filters: { label: [`flynn.cluster=${cluster}`] } });
  return containers.length > 0;
}

async function engineDataDir(socket: string): Promise<string> {
  const info: { DockerRootDir?: string } = await engineAt(socket).info();
  return info.DockerRootDir ?? '/var/lib/docker';
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

/** The address that leads out, or failing that any but the loopback's. */
export async function primaryAddress(): Promise<string> {
  const routes = await readFile('/proc/net/route', 'utf8').catch(() => '');
  const device = routes
    .split('\n')
    .map((line) => line.split('\t'))
    .find(([, destination, , , , , , mask]) => destination === '00000000' && mask === '00000000')?.[0];
  const interfaces = Object.entries(networkInterfaces()).flatMap(([name, addresses]) =>
    (addresses ?? [])
      .filter((one) => one.family === 'IPv4' && !one.internal)
      .map((one) => ({ name, address: one.address })),
  );
  return (interfaces.find((one) => one.name === device) ?? interfaces[0])?.address ?? '127.0.0.1';
}
