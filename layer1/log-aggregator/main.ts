import { createDiscoveryClient } from '@flynn/discovery/client';
import { partOf } from '@flynn/discovery/parts';
import { runDaemon } from '@flynn/kit/daemon';
import { HttpClient } from '@flynn/kit/http-client';
import { partRules, roleGate } from '@flynn/kit/http-gate';
import { startServer } from '@flynn/kit/http-server';
import { anyHost, appRole, ownIdentity } from '@flynn/kit/identity';
import { keepHeapSmall } from '@flynn/kit/idle-memory';
import { metricsHandler, openMetrics } from '@flynn/kit/metrics-server';
import { configSchema } from './config.ts';
import { followController } from './controller-feed.ts';
import { Drains } from './drains.ts';
import { History, limitsOf } from './history.ts';
import { logMetrics } from './metrics.ts';
import { logHandlers } from './server.ts';
import { bornMsOf, keepBornMs } from './volume.ts';

await runDaemon({
  name: 'log-aggregator',
  config: configSchema,
  start: async ({ config, log, tasks }) => {
    const identity = await ownIdentity(config, { log, tasks });
    const dir = config.FLYNN_STORAGE_DIR;
    const limits = limitsOf({ appMebibytes: config.FLYNN_LOG_APP_MB, totalMebibytes: config.FLYNN_LOG_TOTAL_MB });
    const { bornMs, isKept } = await bornMsOf(dir, { now: Date.now(), log });
    if (!isKept) tasks.run('volume', (signal) => keepBornMs(dir, bornMs, { signal, log }));
    const history = await History.open({ dir, limits, log });
    const appNames = new Map<string, string>();
    const drains = new Drains({ dir, history, bornMs, appName: (app) => appNames.get(app) ?? app, log });
    const metrics = openMetrics();
    const onTaken = logMetrics(metrics, { history, drains });
    const server = await startServer({
      name: 'log aggregator',
      handlers: [...logHandlers(history, { log, signal: tasks.signal, drains, onTaken }), metricsHandler(metrics)],
      metrics,
      gate: roleGate(config.FLYNN_KEY, partRules([anyHost, appRole('controller')], identity)),
      mutual: identity,
      port: config.PORT,
      log,
    });
    const url = config.FLYNN_DISCOVERY_URL;
    if (url !== undefined) {
      const discovery = createDiscoveryClient({ url });
      const controller = new HttpClient({
        name: 'the controller',
        key: config.FLYNN_CONTROLLER_TOKEN ?? config.FLYNN_KEY,
        ...partOf(discovery, 'controller', identity),
      });
      tasks.run('controller', async (signal) => {
        await followController({ controller, history, drains, appNames, signal, log });
        await Promise.all([controller.close(), discovery.close()]);
      });
    }
    tasks.run('heap', keepHeapSmall);
    tasks.run('history', async (signal) => {
      await history.run(signal);
      await server.close();
      await drains.close();
      await history.close();
    });
    log.info({ port: server.port, apps: history.apps.length, bytes: history.bytes }, 'taking lines');
  },
});
