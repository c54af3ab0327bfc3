import { join } from 'node:path';
import { runDaemon } from '@flynn/kit/daemon';
import { connectEtcd } from '@flynn/store/etcd';
import { startAgent } from './agent.ts';
import { configSchema } from './config.ts';
import { connectDocker } from './docker.ts';

await runDaemon({
  name: 'host-agent',
  config: configSchema,
  start: ({ config, log, tasks }) =>
    startAgent({
      config,
      log,
      tasks,
      connectEngine: (fetchBlob) =>
        connectDocker({
          socketPath: config.FLYNN_DOCKER_SOCKET,
          cluster: config.FLYNN_CLUSTER,
          fetchBlob,
          scratchDir: join(config.FLYNN_STATE_DIR, 'tmp'),
        }),
      connectStore: () => connectEtcd({ endpoints: config.FLYNN_ETCD_ENDPOINTS, log }),
    }),
});
