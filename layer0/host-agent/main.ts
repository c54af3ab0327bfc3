import { realpathSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { runDaemon } from '@flynn/kit/daemon';
import { keepHeapSmall } from '@flynn/kit/idle-memory';
import { openMetrics } from '@flynn/kit/metrics-server';
import { etcdMetrics } from '@flynn/store/etcd-metrics';
import { startAgent } from './agent.ts';
import { fetchFromPeers } from './cluster/peer-images.ts';
import { Peers, connectStore } from './cluster/start.ts';
import { configSchema } from './config.ts';
import { connectDocker } from './docker/docker.ts';
import { keepLogSmall } from './logs/own-log.ts';
import { giveUpReserve, keepReserve } from './disk/reserve.ts';
import { emptyScratch, scratchIn } from './disk/scratch.ts';
import { shareNode } from './containers/shared-node.ts';
import { openTrust } from './trust/host-trust.ts';

/** The store may be away for long; a program that runs this long is not broken. */
const provenMs = 30_000;

await runDaemon({
  name: 'host-agent',
  config: configSchema,
  start: async ({ config, log, tasks, isToReturn }) => {
    // Before anything is written: on a full disk the first that is would end the agent.
    const reserve = { stateDir: config.FLYNN_STATE_DIR, log };
    await giveUpReserve(reserve);
    tasks.run('room put aside', (signal) => keepReserve(reserve, signal));
    tasks.run('own log', (signal) => keepLogSmall(join(config.FLYNN_STATE_DIR, 'agent.log'), { log, signal }));
    tasks.run('heap', keepHeapSmall);
    const soon = setTimeout(prove, provenMs);
    const peers = new Peers(config);
    const trust = await openTrust(config, log);
    const node = await shareNode({
      stateDir: config.FLYNN_STATE_DIR,
      program: process.execPath,
      arch: process.arch,
      version: process.versions.node,
      log,
    });
    const access = { key: config.FLYNN_KEY, identity: trust?.identity };
    const metrics = openMetrics();
    await emptyScratch(config.FLYNN_STATE_DIR);
    await startAgent({
      config,
      log,
      tasks,
      peers,
      trust,
      metrics,
      node,
      isToReturn,
      connectEngine: (fetchBlob, told) =>
        connectDocker({
          socketPath: config.FLYNN_DOCKER_SOCKET,
          cluster: config.FLYNN_CLUSTER,
          fetchBlob,
          ...told,
          fetchImages: fetchFromPeers({ peers: () => peers.others(), access, log }),
          scratchDir: scratchIn(config.FLYNN_STATE_DIR),
        }),
      connectStore: () => connectStore(config, { log, onCall: etcdMetrics(metrics), trust }),
    });
    clearTimeout(soon);
    prove();
  },
});

/** Tells `bootstrap/choose-version` that this version comes up. One that is run from its sources is no installed version. */
function prove(): void {
  const program = realpathSync(process.argv[1] ?? '');
  if (basename(program) === 'host-agent.mjs') writeFileSync(join(dirname(program), 'proven'), '');
}
