/** The controller, as `web` (the API) or as `worker` (reconcilers): `main.ts web|worker`. */
import { createBlobClient } from '@flynn/blobstore/client';
import { createDiscoveryClient } from '@flynn/discovery/client';
import { partOf } from '@flynn/discovery/parts';
import { Routers, routerService } from '@flynn/discovery/routers';
import { followMembers, openMembers } from '@flynn/host-agent/cluster/member-keys';
import { runDaemon } from '@flynn/kit/daemon';
import { partGate } from '@flynn/kit/http-gate';
import { startServer } from '@flynn/kit/http-server';
import { ownIdentity } from '@flynn/kit/identity';
import { keepHeapSmall } from '@flynn/kit/idle-memory';
import { openMetrics, serveMetrics } from '@flynn/kit/metrics-server';
import { connectEtcd } from '@flynn/store/etcd';
import { etcdMetrics } from '@flynn/store/etcd-metrics';
import { SealedEtcd } from '@flynn/store/sealing/sealed-store';
import { certificatesOf, configSchema, etcdOptionsOf, readSettings } from './config.ts';
import { logAggregatorClient, openController } from './controller.ts';

const role = process.argv[2];
if (role !== 'web' && role !== 'worker') {
  process.stderr.write('usage: controller web|worker\n');
  process.exit(2);
}

await runDaemon({
  name: `controller-${role}`,
  config: configSchema,
  async start({ config, log, tasks }) {
    const metrics = openMetrics();
    const etcd = connectEtcd({ ...etcdOptionsOf(config), onCall: etcdMetrics(metrics), log });
    const store = new SealedEtcd(etcd, { sealingKeys: async () => config.FLYNN_SEALING_KEY ?? [], log });
    tasks.run('heap', keepHeapSmall);
    tasks.run('etcd members', async (signal) => {
      await followMembers(store, await openMembers({ store, log, signal }), { log, signal });
    });
    const identity = await ownIdentity(config, { log, tasks });
    const discovery = createDiscoveryClient({ url: config.FLYNN_DISCOVERY_URL });
    const routers = new Routers({
      instances: (signal) => discovery.instances(routerService, { signal }),
      key: config.FLYNN_KEY,
      identity,
      log,
    });
    // Not with the group's signal: what still answers while it stops needs the store and the mirrors.
    const controller = await openController({
      store,
      settings: readSettings(config),
      clusterKey: config.FLYNN_KEY,
      identity,
      routers,
      isServed: async (service, limit) => (await discovery.instances(service, { signal: limit })).length > 0,
      log,
    });
    const close = async () => {
      await routers[Symbol.asyncDispose]();
      await controller[Symbol.asyncDispose]();
      await store.close();
    };
    const blobs = createBlobClient({
      key: config.FLYNN_KEY,
      ...partOf(discovery, 'blobstore', identity),
    });
    if (role === 'worker') {
      const { FLYNN_KEY: key, FLYNN_METRICS_PORT: port } = config;
      // Of what the two roles do not share each loads its own.
      const { runWorker } = await import('./worker.ts');
      await serveMetrics(metrics, { name: 'controller worker', key, log, signal: tasks.signal, port });
      tasks.run('worker', async (signal) => {
        await runWorker(controller.deps, signal, blobs);
        await Promise.all([blobs.close(), discovery.close()]);
        await close();
      });
      return;
    }
    const logAggregator = logAggregatorClient({
      key: config.FLYNN_KEY,
      ...partOf(discovery, 'log-aggregator', identity),
    });
    const { openWeb } = await import('./web.ts');
    const web = await openWeb({
      deps: controller.deps,
      store,
      logAggregator,
      blobs,
      rootKeys: config.FLYNN_CONTROLLER_KEY,
      clusterKey: config.FLYNN_KEY,
      tokenRounds: config.FLYNN_TOKEN_ROUNDS,
      certificates: certificatesOf(config),
      metrics,
      rate: { perSecond: config.FLYNN_REQUESTS_PER_SECOND, burst: 4 * config.FLYNN_REQUESTS_PER_SECOND },
    });
    const server = await startServer({
      name: 'controller',
      handlers: web.handlers,
      gate: partGate(web.gate, identity),
      elsewhere: config.FLYNN_PLAIN_HTTP === 'allowed' ? undefined : web.elsewhere,
      mutual: identity,
      isStrict: true,
      metrics,
      port: config.PORT,
      log,
    });
    tasks.run('health', (signal) => web.health.run(signal));
    tasks.run('figures', (signal) => web.figures.run(signal));
    tasks.run('web', async (signal) => {
      await new Promise((resolve) => {
        signal.addEventListener('abort', resolve, { once: true });
      });
      controller.deps.dispatch.close();
      await server.close();
      await Promise.all([web[Symbol.asyncDispose](), logAggregator.close(), blobs.close(), discovery.close()]);
      await close();
    });
  },
});
