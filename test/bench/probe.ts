/** What benches look at from outside: processes, sockets and answers of a cluster, never the platform's own word. */
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { waitFor } from '@flynn/kit/retry';
import type { TestCluster } from '../test-cluster.ts';

function ticksOf(pid: number): number {
  const fields = statOf(pid).split(' ');
  return Number(fields[13] ?? 0) + Number(fields[14] ?? 0);
}

/** Processor time so far of a process and of those it started that have ended. Linux counts it in hundredths of a second. */
export function cpuSecondsWithChildren(pid: number): number {
  const fields = statOf(pid).split(' ');
  return [13, 14, 15, 16].reduce((sum, at) => sum + Number(fields[at] ?? 0), 0) / 100;
}

/** A process may end while one looks; then it has used nothing more. */
function statOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return '';
  }
}

/** Until all processes of the hosts, by default the first, together use less than a tenth of a core for each. */
export async function settle(cluster: TestCluster, hosts = [cluster.host]): Promise<void> {
  let before: { at: number; ticks: number } | undefined;
  await waitFor(
    () => {
      const ticks = hosts.flatMap((host) => host.pids('')).reduce((sum, pid) => sum + ticksOf(pid), 0);
      const now = { at: performance.now(), ticks };
      const isQuiet = before !== undefined && (ticks - before.ticks) * 10 < (now.at - before.at) * 0.1 * hosts.length;
      before = now;
      return isQuiet;
    },
    { what: 'the host to be quiet', deadlineMs: 90_000, intervalMs: 1_000 },
  );
}

/** Polls every few milliseconds; answers when, on this process's clock, the status was first seen. */
export async function untilStatus(cluster: TestCluster, app: string, status: number): Promise<number> {
  return waitFor(
    async () => {
      const answer = await cluster.get(app);
      return answer.status === status ? performance.now() : undefined;
    },
    { what: `${app} to answer ${status}`, deadlineMs: 60_000, intervalMs: 2 },
  );
}

/** Resolves when discovery announces an instance of the service that was not there when this was called. */
export async function nextInstance(cluster: TestCluster, service: string): Promise<{ announcedAt: Promise<number> }> {
  const url = `http://${cluster.gateway}:1111/services/${service}/events`;
  const script =
    'fetch(process.argv[1]).then(async ({ body }) => { for await (const chunk of body) process.stdout.write(chunk); })';
  const [program, args] = cluster.host.command([process.execPath, '-e', script, url]);
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'ignore'], timeout: 60_000 });
  const lines = createInterface({ input: child.stdout });
  const isCurrent = Promise.withResolvers<void>();
  const announced = Promise.withResolvers<number>();
  let isWatching = false;
  lines.on('line', (line) => {
    if (line.startsWith('event: current')) {
      isWatching = true;
      isCurrent.resolve();
    } else if (isWatching && line.startsWith('event: up')) {
      announced.resolve(performance.now());
      child.kill();
    }
  });
  child.once('exit', () => {
    const error = new Error(`no instance of ${service} was announced`);
    isCurrent.reject(error);
    announced.reject(error);
  });
  await isCurrent.promise;
  return { announcedAt: announced.promise };
}

/** Until the port of every container accepts, looked at from the host. */
export async function untilAllAccept(cluster: TestCluster, containers: readonly string[], port: number): Promise<void> {
  const format = '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}';
  const addresses = (await cluster.docker('inspect', '-f', format, ...containers)).stdout
    .split('\n')
    .filter((line) => line !== '');
  const script = `
    const net = require('node:net');
    const accepts = (host) => new Promise((resolve) => {
      const socket = net.connect(${port}, host, () => { socket.destroy(); resolve(); });
      socket.on('error', () => setTimeout(() => resolve(accepts(host)), 20));
    });
    Promise.all(process.argv.slice(1).map(accepts));`;
  await cluster.exec(['node', '-e', script, ...addresses], { timeoutMs: 60_000 });
}

/** Seconds that `npm ci` and `npm prune` take on the source, inside the slug builder's own image and settings. */
export async function compileByHand(cluster: TestCluster, directory: string): Promise<number> {
  const work = 'npm ci --no-audit --no-fund >&2; npm prune --omit=dev --no-audit --no-fund >&2';
  return inBuilder(cluster, directory, `date +%s%N; ${work}; date +%s%N`);
}

/** Seconds that `npm ci` alone takes there, with all it fetches in a cache on the disk already. */
export async function installByHand(cluster: TestCluster, directory: string): Promise<number> {
  const work = 'npm ci --no-audit --no-fund >&2';
  return inBuilder(cluster, directory, `${work}; rm -rf node_modules; date +%s%N; ${work}; date +%s%N`);
}

/** The script prints when its work began and ended. */
async function inBuilder(cluster: TestCluster, directory: string, timed: string): Promise<number> {
  const { stdout } = await cluster.flynn(['-a', 'slug-builder', 'release', 'show', '--json']);
  const release = JSON.parse(stdout) as { artifactId: string; env: Record<string, string> };
  const env = Object.entries(release.env).filter(([name]) => /^(NODE_EXTRA|NPM_CONFIG|npm_config|SSL_)/i.test(name));
  const images = (await cluster.docker('images', '--format', '{{.Repository}}:{{.Tag}}')).stdout.split('\n');
  const builder = images.find((image) => image.startsWith('flynn/slug-builder:')) ?? 'flynn/slug-builder';
  const script = `cp -r /source /tmp/app; cd /tmp/app; ${timed}`;
  const result = await cluster.docker(
    'run',
    '--rm',
    '--network',
    'flynn0',
    '--volume',
    `${directory}:/source:ro`,
    '--env',
    'HOME=/tmp',
    ...env.flatMap(([name, value]) => ['--env', `${name}=${value}`]),
    '--entrypoint',
    'sh',
    builder,
    '-c',
    script,
  );
  const [startedAt = 0n, endedAt = 0n] = result.stdout.trim().split('\n').map(BigInt);
  return Number(endedAt - startedAt) / 1e9;
}
