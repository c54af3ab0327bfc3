import { runDaemon } from '@flynn/kit/daemon';
import { startServer } from '@flynn/kit/http-server';
import { LogBuffers } from './buffers.ts';
import { configSchema } from './config.ts';
import { logHandlers } from './server.ts';

await runDaemon({
  name: 'log-aggregator',
  config: configSchema,
  start: async ({ config, log, tasks }) => {
    const server = await startServer({
      name: 'log aggregator',
      handlers: logHandlers(new LogBuffers(), { log, signal: tasks.signal }),
      key: config.FLYNN_KEY,
      port: config.PORT,
      log,
    });
    tasks.run('http server', async (signal) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
      await server.close();
    });
    log.info({ port: server.port }, 'taking lines');
  },
});
