import { runDaemon } from '@flynn/kit/daemon';
import { partRules, roleGate } from '@flynn/kit/http-gate';
import { startServer } from '@flynn/kit/http-server';
import { anyHost, appRole, ownIdentity } from '@flynn/kit/identity';
import { keepHeapSmall } from '@flynn/kit/idle-memory';
import { metricsHandler, openMetrics } from '@flynn/kit/metrics-server';
import { configSchema } from './config.ts';
import { openFilesystem } from './filesystem.ts';
import { countedStorage } from './metrics.ts';
import { blobHandlers } from './server.ts';

/** Who of the platform keeps something here, beside hosts, which fetch layers. */
const users = ['controller', 'runner', 'git-receiver', 'slug-builder'] as const;

await runDaemon({
  name: 'blobstore',
  config: configSchema,
  start: async ({ config, log, tasks }) => {
    const identity = await ownIdentity(config, { log, tasks });
    const storage = await openFilesystem(config.FLYNN_STORAGE_DIR, { nowMs: Date.now() });
    const metrics = openMetrics();
    const counted = countedStorage(storage, metrics, config.FLYNN_STORAGE_DIR);
    const server = await startServer({
      name: 'blobstore',
      handlers: [...blobHandlers(counted), metricsHandler(metrics)],
      metrics,
      gate: roleGate(config.FLYNN_KEY, partRules([anyHost, ...users.map(appRole)])),
      mutual: identity,
      port: config.PORT,
      log,
    });
    tasks.run('heap', keepHeapSmall);
    tasks.run('http server', async (signal) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
      await server.close();
    });
    log.info({ port: server.port, dir: config.FLYNN_STORAGE_DIR }, 'serving blobs');
  },
});
