import { createBlobClient } from '@flynn/blobstore/client';
import { createDiscoveryClient } from '@flynn/discovery/client';
import { partOf } from '@flynn/discovery/parts';
import { runDaemon } from '@flynn/kit/daemon';
import { HttpClient } from '@flynn/kit/http-client';
import { ownIdentity } from '@flynn/kit/identity';
import { keepHeapSmall } from '@flynn/kit/idle-memory';
import { openMetrics, serveMetrics } from '@flynn/kit/metrics-server';
import { controllerEnv } from './controller-env.ts';
import { EnvWatch } from './env-watch.ts';
import { configSchema, identityOf } from './config.ts';
import { Reports } from './reports.ts';
import { runOperations } from './runner.ts';

await runDaemon({
  name: 'runner',
  config: configSchema,
  start: async ({ config, log, tasks }) => {
    const discovery = createDiscoveryClient({ url: config.FLYNN_DISCOVERY_URL });
    const identity = await ownIdentity(config, { log, tasks });
    const key = config.FLYNN_KEY;
    const controller = new HttpClient({
      ...partOf(discovery, 'controller', identity),
      key: config.FLYNN_CONTROLLER_TOKEN ?? key,
      name: 'the controller',
    });
    const blobs = createBlobClient({ ...partOf(discovery, 'blobstore', identity), key });
    tasks.run('heap', keepHeapSmall);
    const metrics = openMetrics();
    await serveMetrics(metrics, { name: 'runner', key, log, signal: tasks.signal, port: config.FLYNN_METRICS_PORT });
    tasks.run('operations', async (signal) => {
      const identity = identityOf(config);
      const deps = {
        identity,
        controller,
        reports: new Reports(controller, identity),
        blobs,
        env: new EnvWatch({ original: process.env, source: controllerEnv(controller, identity), log }),
        slugRunnerImage: config.FLYNN_SLUG_RUNNER_IMAGE,
        log,
        metrics,
      };
      try {
        await runOperations(deps, signal);
      } finally {
        await Promise.all([controller.close(), blobs.close(), discovery.close()]);
      }
    });
  },
});
