/** The dashboard. `FLYNN_CONTROLLER_URL=https://controller.example.com node layer1/dashboard/main.ts` works on its pages. */
import { createDiscoveryClient } from '@flynn/discovery/client';
import { partOf } from '@flynn/discovery/parts';
import { runDaemon } from '@flynn/kit/daemon';
import { FlynnError } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import { ownIdentity } from '@flynn/kit/identity';
import { keepHeapSmall } from '@flynn/kit/idle-memory';
import { openMetrics, serveMetrics } from '@flynn/kit/metrics-server';
import { configSchema } from './config.ts';
import { Pages } from './pages.ts';
import { startDashboard } from './server.ts';

/** What builds them is in no image. */
async function buildPages(): Promise<string> {
  const built = await import('./built-pages.ts');
  return built.buildPages();
}

await runDaemon({
  name: 'dashboard',
  config: configSchema,
  async start({ config, log, tasks }) {
    const identity = await ownIdentity(config, { log, tasks });
    const { FLYNN_CONTROLLER_URL: baseUrl, FLYNN_DISCOVERY_URL: url } = config;
    if (url === undefined && baseUrl === undefined) {
      throw new FlynnError('invalid', 'where is the controller? FLYNN_DISCOVERY_URL or FLYNN_CONTROLLER_URL says it');
    }
    const discovery = createDiscoveryClient({ url: url ?? '' });
    const place = baseUrl === undefined ? partOf(discovery, 'controller', identity) : { baseUrl };
    const controller = new HttpClient({ name: 'the controller', ...place });
    const metrics = openMetrics();
    const { FLYNN_METRICS_TOKEN: key, FLYNN_METRICS_PORT: metricsPort } = config;
    if (key !== undefined) {
      await serveMetrics(metrics, { name: 'dashboard', key, log, signal: tasks.signal, port: metricsPort });
    }
    const folder = config.FLYNN_WEB_DIR ?? (await buildPages());
    const server = await startDashboard({
      controller,
      pages: await Pages.open(folder),
      identity,
      metrics,
      port: config.PORT,
      log,
    });
    tasks.run('heap', keepHeapSmall);
    tasks.run('web', async (signal) => {
      await new Promise((resolve) => {
        signal.addEventListener('abort', resolve, { once: true });
      });
      await server.close();
      await Promise.all([controller.close(), discovery.close()]);
    });
    log.info({ port: server.port }, 'answering browsers');
  },
});
