/** The daemon: its configuration, its clients and the SSH server put together. */
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createBlobClient } from '@flynn/blobstore/client';
import { createDiscoveryClient } from '@flynn/discovery/client';
import { partOf } from '@flynn/discovery/parts';
import { runDaemon } from '@flynn/kit/daemon';
import { HttpClient } from '@flynn/kit/http-client';
import { ownIdentity } from '@flynn/kit/identity';
import { keepHeapSmall } from '@flynn/kit/idle-memory';
import { openMetrics, serveMetrics } from '@flynn/kit/metrics-server';
import { configSchema } from './config.ts';
import { receiverMetrics } from './metrics.ts';
import { createPlatform } from './platform.ts';
import { sweepRepositories } from './repositories.ts';
import { startReceiver } from './server.ts';

/** With what cancelling takes, within the daemon's 25 s. */
const drainMs = 20_000;

export async function runReceiver(options: { hookCommand: readonly string[] }): Promise<void> {
  await runDaemon({
    name: 'git-receiver',
    config: configSchema,
    start: async ({ config, log, tasks }) => {
      const discovery = createDiscoveryClient({ url: config.FLYNN_DISCOVERY_URL });
      const identity = await ownIdentity(config, { log, tasks });
      const controller = new HttpClient({
        name: 'the controller',
        key: config.FLYNN_CONTROLLER_TOKEN ?? config.FLYNN_KEY,
        ...partOf(discovery, 'controller', identity),
      });
      const blobs = createBlobClient({ key: config.FLYNN_KEY, ...partOf(discovery, 'blobstore', identity) });
      const platform = createPlatform(controller);
      const metrics = openMetrics();
      const { FLYNN_METRICS_PORT: port } = config;
      await serveMetrics(metrics, { name: 'git receiver', key: config.FLYNN_KEY, log, signal: tasks.signal, port });
      const receiver = await startReceiver({
        port: config.PORT,
        hostKey: config.FLYNN_SSH_HOST_KEY,
        repositoryDir: config.FLYNN_REPOSITORY_DIR,
        hookCommand: options.hookCommand,
        hookDir: await mkdtemp(join(tmpdir(), 'flynn-git-')),
        platform,
        blobs,
        onEnd: receiverMetrics(metrics),
        log,
      });
      tasks.run('heap', keepHeapSmall);
      tasks.run('ssh server', async (signal) => {
        await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
        await receiver.stop({ drainMs });
        await Promise.all([controller.close(), blobs.close(), discovery.close()]);
      });
      tasks.run('repositories', (signal) =>
        sweepRepositories({ repositoryDir: config.FLYNN_REPOSITORY_DIR, platform, log }, signal),
      );
      log.info({ port: receiver.port }, 'taking pushes');
    },
  });
}
