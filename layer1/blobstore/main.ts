import { createDiscoveryClient } from '@flynn/discovery/client';
import { runDaemon } from '@flynn/kit/daemon';
import { partRules, roleGate } from '@flynn/kit/http-gate';
import { startServer } from '@flynn/kit/http-server';
import { anyHost, appRole, ownIdentity } from '@flynn/kit/identity';
import { keepHeapSmall } from '@flynn/kit/idle-memory';
import { metricsHandler, openMetrics } from '@flynn/kit/metrics-server';
import { configSchema } from './config.ts';
import { countedStorage, replicationMetrics } from './metrics.ts';
import { Peers } from './peers.ts';
import { openPlace } from './place.ts';
import { blobHandlers } from './server.ts';
import { BlobStore } from './store.ts';

/** Who of the platform keeps something here, beside hosts, which fetch layers; the stores of other hosts too. */
const users = ['blobstore', 'controller', 'runner', 'git-receiver', 'slug-builder'] as const;

await runDaemon({
  name: 'blobstore',
  config: configSchema,
  start: async ({ config, log, tasks }) => {
    const identity = await ownIdentity(config, { log, tasks });
    const dir = config.FLYNN_STORAGE_DIR;
    const onDamaged = (digest: string) => store.verification.suspect(digest);
    const place = await openPlace(config, { log, onDamaged });
    const peers = new Peers({ host: config.FLYNN_HOST_ID, key: config.FLYNN_KEY, identity });
    const copyBytesPerSecond = config.FLYNN_COPY_MB_PER_SECOND * 1024 ** 2;
    const store: BlobStore = new BlobStore({ place, peers, log, copyBytesPerSecond });
    const metrics = openMetrics();
    replicationMetrics(metrics, store);
    const server = await startServer({
      name: 'blobstore',
      handlers: [
        ...blobHandlers(countedStorage(store.storage, metrics, dir)),
        ...store.handlers,
        metricsHandler(metrics),
      ],
      metrics,
      gate: roleGate(config.FLYNN_KEY, partRules([anyHost, ...users.map(appRole)], identity)),
      mutual: identity,
      port: config.PORT,
      log,
    });
    const url = config.FLYNN_DISCOVERY_URL;
    if (url === undefined) peers.set([]);
    else {
      tasks.run('other stores', async (signal) => {
        const discovery = createDiscoveryClient({ url });
        await peers.follow(discovery, { signal, log, onChange: () => store.onPeersChanged() });
        await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
        await Promise.all([discovery.close(), peers.close()]);
      });
    }
    tasks.run('heap', keepHeapSmall);
    tasks.run('places of other stores', (signal) => peers.followPlaces(() => store.status.place, signal));
    tasks.run('upkeep', (signal) => store.run(signal));
    tasks.run('http server', async (signal) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
      await server.close();
    });
    log.info({ port: server.port, dir, bucket: place.shared }, 'serving blobs');
  },
});
