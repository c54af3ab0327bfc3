import { runDaemon } from '@flynn/kit/daemon';
import { startServer } from '@flynn/kit/http-server';
import { configSchema } from './config.ts';
import { History, limitsOf } from './history.ts';
import { logHandlers } from './server.ts';

await runDaemon({
  name: 'log-aggregator',
  config: configSchema,
  start: async ({ config, log, tasks }) => {
    const limits = limitsOf({ appMebibytes: config.FLYNN_LOG_APP_MB, totalMebibytes: config.FLYNN_LOG_TOTAL_MB });
    const history = await History.open({ dir: config.FLYNN_STORAGE_DIR, limits, log });
    const server = await startServer({
      name: 'log aggregator',
      handlers: logHandlers(history, { log, signal: tasks.signal }),
      key: config.FLYNN_KEY,
      port: config.PORT,
      log,
    });
    tasks.run('history', async (signal) => {
      await history.run(signal);
      await server.close();
      await history.close();
    });
    log.info({ port: server.port, apps: history.apps.length, bytes: history.bytes }, 'taking lines');
  },
});
