import { join } from 'node:path';
import { createDiscoveryClient } from '@flynn/discovery/client';
import { runDaemon } from '@flynn/kit/daemon';
import { HttpClient } from '@flynn/kit/http-client';
import { startServer } from '@flynn/kit/http-server';
import { configSchema, hasProxyProtocol } from './config.ts';
import { RememberedTable } from './remembered.ts';
import { startRouter } from './router.ts';
import { statusHandlers } from './server.ts';

/** Leaves the daemon's 25 s a margin to close the rest. */
const drainMs = 22_000;

await runDaemon({
  name: 'router',
  config: configSchema,
  start: async ({ config, log, tasks }) => {
    const discovery = createDiscoveryClient({ url: config.FLYNN_DISCOVERY_URL });
    const controller = new HttpClient({
      name: 'the controller',
      key: config.FLYNN_CONTROLLER_TOKEN ?? config.FLYNN_KEY,
      baseUrl: async () => `http://${(await discovery.resolve('controller')).address}`,
    });
    const folder = config.FLYNN_STATE_DIR;
    const remembered =
      folder === undefined
        ? {}
        : { remembered: await RememberedTable.open({ file: join(folder, 'table.jsonl'), key: config.FLYNN_KEY, log }) };
    const router = await startRouter({
      controller,
      discovery,
      httpPort: config.FLYNN_HTTP_PORT,
      driver: config.FLYNN_ROUTER_DRIVER,
      tls: { port: config.FLYNN_HTTPS_PORT, profile: config.FLYNN_TLS_PROFILE },
      ...remembered,
      clusterKey: config.FLYNN_KEY,
      trustedProxies: config.FLYNN_TRUSTED_PROXIES,
      proxyProtocol: hasProxyProtocol(config),
      accessLog: config.FLYNN_ACCESS_LOG,
      log,
    });
    const status = await startServer({
      name: 'router',
      handlers: statusHandlers(router),
      key: config.FLYNN_KEY,
      port: config.PORT,
      reusePort: true,
      log,
    });
    tasks.run('router', async (signal) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
      await router.stop({ drainMs });
      await Promise.all([status.close(), controller.close(), discovery.close()]);
    });
    log.info({ httpPort: router.httpPort, httpsPort: router.httpsPort, statusPort: status.port }, 'routing');
  },
});
