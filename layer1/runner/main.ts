import { runDaemon } from '@flynn/kit/daemon';
import { keepHeapSmall } from '@flynn/kit/idle-memory';
import { openMetrics, serveMetrics } from '@flynn/kit/metrics-server';
import { configSchema, identityOf, ownRegistriesOf, placeOf } from './config.ts';
import { connectInside, connectOutside } from './connections.ts';
import { controllerEnv } from './controller-env.ts';
import { EnvWatch } from './env-watch.ts';
import { readOwnLogins } from './own-logins.ts';
import { Reports } from './reports.ts';
import { runOperations } from './runner.ts';

await runDaemon({
  name: 'runner',
  config: configSchema,
  start: async ({ config, log, tasks }) => {
    const place = placeOf(config);
    const { FLYNN_REGISTRY_CONFIG: registryConfig } = config;
    // What cannot be read is told now, and not by the first operation that needs it.
    const registries = Object.keys(await readOwnLogins(registryConfig));
    if (registries.length > 0) log.info({ registries }, 'has logins of its own');
    const connections = place.is === 'outside' ? connectOutside(place) : await connectInside(place, { log, tasks });
    const { controller, blobs } = connections;
    tasks.run('heap', keepHeapSmall);
    const metrics = openMetrics();
    // One outside of the cluster listens nowhere.
    if (place.is === 'inside') {
      const { FLYNN_KEY: key, FLYNN_METRICS_PORT: port } = place.config;
      await serveMetrics(metrics, { name: 'runner', key, log, signal: tasks.signal, port });
    }
    tasks.run('operations', async (signal) => {
      const identity = identityOf(config);
      const deps = {
        identity,
        controller,
        reports: new Reports(controller, identity),
        blobs,
        env: new EnvWatch({ original: process.env, source: controllerEnv(controller, identity), log }),
        registryConfig,
        ownRegistries: ownRegistriesOf(config),
        slugRunnerImage: config.FLYNN_SLUG_RUNNER_IMAGE,
        log,
        metrics,
      };
      await using _connections = connections;
      await runOperations(deps, signal);
    });
  },
});
