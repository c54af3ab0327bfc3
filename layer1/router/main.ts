import { fork } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { createDiscoveryClient } from '@flynn/discovery/client';
import { partOf } from '@flynn/discovery/parts';
import { runDaemon } from '@flynn/kit/daemon';
import type { DaemonContext } from '@flynn/kit/daemon';
import { FlynnError } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import { partRules, roleGate } from '@flynn/kit/http-gate';
import { startServer } from '@flynn/kit/http-server';
import { fullCollection, keepHeapSmall } from '@flynn/kit/idle-memory';
import { anyHost, appRole, ownIdentity } from '@flynn/kit/identity';
import type { Logger } from '@flynn/kit/log';
import { openMetrics } from '@flynn/kit/metrics-server';
import { PipeLines } from '@flynn/kit/pipe-lines';
import { configSchema, hasProxyProtocol } from './config.ts';
import type { Router } from './router.ts';
import { statusHandlers, voiceOf } from './server.ts';
import { workerRange } from './workers/count.ts';
import type { WorkerRange } from './workers/count.ts';
import { workersBefore } from './workers/before.ts';
import { leaving } from './workers/crew.ts';
import type { Own } from './workers/crew.ts';
import { answersOf, startCarrier } from './workers/voice.ts';
import { serveParent } from './workers/worker.ts';

/** Leaves the daemon's 25 s a margin to close the rest. */
const drainMs = 22_000;
/** Some hundred requests a second: who carries more gives no memory back, for they would wait for it. */
const idleShare = 0.005;

type Context = DaemonContext<typeof configSchema>;

/** For all that this process says: the access log soon fills a pipe that nobody reads, and whoever waits there stands still. */
const output = PipeLines.open(
  1,
  (lost) => `${JSON.stringify({ level: 'warn', msg: 'lines of the log were lost', lost })}\n`,
);

await runDaemon({
  name: 'router',
  config: configSchema,
  output,
  start: async (context) => {
    const { config, log, tasks } = context;
    tasks.run('heap', (signal) => keepHeapSmall(signal, { idleShare, keepsCode: true }));
    if (config.FLYNN_ROUTER_WORKER !== undefined) return startWorker(context);
    const range = workerRange({
      wanted: config.FLYNN_ROUTER_WORKERS,
      cores: availableParallelism(),
      memoryBytes: process.constrainedMemory(),
    });
    const carrier = await startTraffic(context, range);
    let status: Awaited<ReturnType<typeof startServer>> | undefined;
    // From here on it carries traffic, which has an end of its own.
    tasks.run('router', async (signal) => {
      await aborted(signal);
      await carrier.stop({ drainMs });
      await status?.close();
    });
    const identity = await ownIdentity(config, { log, tasks });
    status = await startServer({
      name: 'router',
      handlers: statusHandlers(carrier, openMetrics()),
      gate: roleGate(config.FLYNN_KEY, partRules([anyHost, appRole('controller')], identity)),
      mutual: identity,
      port: config.PORT,
      reusePort: true,
      log,
    });
    log.info({ ...range, statusPort: status.port }, 'the router serves');
  },
});

async function startTraffic(context: Context, range: WorkerRange) {
  const { config, log } = context;
  const [, program] = process.argv;
  if (range.most > 1 && (program === undefined || config.FLYNN_HTTP_PORT === 0)) {
    throw new FlynnError('invalid', 'workers share a port: set FLYNN_HTTP_PORT to one, or FLYNN_ROUTER_WORKERS to 1');
  }
  const spawn = (index: number, count: number) =>
    fork(program ?? '', {
      env: { ...process.env, FLYNN_ROUTER_WORKERS: String(count), FLYNN_ROUTER_WORKER: String(index) },
    });
  const before = workersBefore(config.FLYNN_STATE_DIR, log);
  const count = Math.max(range.least, await before.read(range.most));
  await before.write(count);
  return startCarrier({ count, range, spawn, startOwn: () => startOwn(context), onCount: before.write, log });
}

async function startOwn(context: Context): Promise<Own> {
  const { router, stop } = await startRouting(context);
  const voice = voiceOf(router);
  // It takes nothing new once there are others: its part of what is under way stays its own.
  const answers = answersOf(voice, { signal: context.tasks.signal, onCount: () => undefined, leave: () => false });
  return {
    voice,
    answers,
    async stop(options) {
      const counted = await stop(options);
      // Nobody waits for this process any more, however large what is garbage now is.
      if (options.drainMs === Infinity) setTimeout(fullCollection(), 1_000).unref();
      return counted;
    },
  };
}

async function startWorker(context: Context): Promise<void> {
  const { router, stop } = await startRouting(context);
  const { config, tasks, log } = context;
  tasks.run('router', async (signal) => {
    await aborted(signal);
    await stop({ drainMs });
  });
  // As if it had been told to stop: without the one who speaks for it, nobody would know of it.
  const end = () => {
    if (!tasks.signal.aborted) process.kill(process.pid, 'SIGTERM');
  };
  let others = config.FLYNN_ROUTER_WORKERS?.least ?? 1;
  const parent = serveParent(process, {
    answers: answersOf(voiceOf(router), {
      signal: tasks.signal,
      onCount(count) {
        router.takeShare(1 / count);
        if (count > others) router.shareOut();
        others = count;
      },
      leave() {
        if (!router.isIdle) return false;
        tasks.run('leaving', async () => {
          await parent.tellLast(await stop(leaving));
          end();
        });
        log.info('leaving: there is too little to do');
        return true;
      },
    }),
    onOrphaned: end,
  });
}

type Routing = { router: Router; stop: Router['stop'] };

async function startRouting({ config, log, tasks }: Context): Promise<Routing> {
  const discovery = createDiscoveryClient({ url: config.FLYNN_DISCOVERY_URL });
  const identity = await ownIdentity(config, { log, tasks });
  const controller = new HttpClient({
    name: 'the controller',
    key: config.FLYNN_CONTROLLER_TOKEN ?? config.FLYNN_KEY,
    ...partOf(discovery, 'controller', identity),
  });
  const kept = await openKept(config, log);
  // Only where it is used: a parent routes nothing.
  const { startRouter } = await import('./router.ts');
  const router = await startRouter({
    controller,
    discovery,
    identity,
    httpPort: config.FLYNN_HTTP_PORT,
    driver: config.FLYNN_ROUTER_DRIVER,
    tls: { port: config.FLYNN_HTTPS_PORT, profile: config.FLYNN_TLS_PROFILE, ...kept.tls },
    ...kept.routes,
    clusterKey: config.FLYNN_KEY,
    trustedProxies: config.FLYNN_TRUSTED_PROXIES,
    proxyProtocol: hasProxyProtocol(config),
    accessLog: config.FLYNN_ACCESS_LOG,
    output,
    share: 1 / (config.FLYNN_ROUTER_WORKERS?.least ?? 1),
    log,
  });
  const { httpPort, httpsPort } = router;
  log.info({ httpPort, httpsPort, worker: config.FLYNN_ROUTER_WORKER }, 'routing');
  return {
    router,
    async stop(options) {
      const counted = await router.stop(options);
      await Promise.all([controller.close(), discovery.close()]);
      return counted;
    },
  };
}

/** What was last known: of several workers all read it, and the first writes it for all. */
async function openKept(config: Context['config'], log: Logger) {
  const folder = config.FLYNN_STATE_DIR;
  if (folder === undefined) return {};
  const options = { key: config.FLYNN_KEY, writes: (config.FLYNN_ROUTER_WORKER ?? 0) === 0, log };
  const [{ RememberedTable, tableFile }, { RememberedCertificates }] = await Promise.all([
    import('./remembered.ts'),
    import('./tls/remembered.ts'),
  ]);
  const [table, certificates] = await Promise.all([
    RememberedTable.open({ ...options, file: join(folder, tableFile), release: config.FLYNN_RELEASE_ID }),
    RememberedCertificates.open({ ...options, file: join(folder, 'certificates.sealed') }),
  ]);
  return { routes: { remembered: table }, tls: { remembered: certificates } };
}

async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
}
