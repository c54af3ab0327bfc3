import { randomBytes } from 'node:crypto';
import { engineAt } from '@flynn/bootstrap/machine/engine';
import type { TestCluster } from '../test-cluster.ts';
import { nextInstance, settle, untilAllAccept, untilStatus } from './probe.ts';
import type { Bench } from './bench.ts';
import { figure, median, timeSeconds, type Figure } from './figure.ts';

const rounds = 3;
const added = 19;
const benchLabel = 'flynn.bench';

/** Time until `flynn scale web=20` has everything running, against 19 of the same containers made straight through the engine. */
async function benchScale(cluster: TestCluster): Promise<Figure[]> {
  const app = await cluster.checkout('express', 'bench');
  await app.push();
  const [model] = await cluster.containers('bench', 'web');
  if (model === undefined) throw new Error('the app has no container');

  const platform: number[] = [];
  const engine: number[] = [];
  const firstRequests: number[] = [];
  for (let round = 0; round < rounds; round++) {
    platform.push(await timeSeconds(() => app.flynn(['scale', `web=${added + 1}`], { timeoutMs: 300_000 })));
    await app.flynn(['scale', 'web=1'], { timeoutMs: 300_000 });
    await settle(cluster);
    engine.push(await timeSeconds(() => startThroughEngine(cluster, model)));
    await cluster.docker('rm', '-f', ...(await benchContainers(cluster)));
    await settle(cluster);
  }
  for (let round = 0; round < 5; round++) firstRequests.push(await healthyToFirstRequest(cluster, 'bench'));
  return [
    figure({ name: 'scale 1 to 20', value: median(platform), unit: 's', floor: median(engine), must: '<= 1.6 x' }),
    figure({ name: 'healthy to first request', value: median(firstRequests), unit: 'ms', must: '<= 300 ms' }),
  ];
}

async function benchContainers(cluster: TestCluster): Promise<string[]> {
  const { stdout } = await cluster.docker('ps', '-aq', '--filter', `label=${benchLabel}=1`);
  return stdout.split('\n').filter((line) => line !== '');
}

/** The app's own container over again, as many at once as the platform starts, each until its port accepts. */
async function startThroughEngine(cluster: TestCluster, model: string): Promise<void> {
  const engine = engineAt(cluster.host.dockerSocket);
  const { Config, HostConfig } = await engine.getContainer(model).inspect();
  const left = Array.from({ length: added }, () => `bench-${randomBytes(6).toString('hex')}`);
  const lane = async (): Promise<void> => {
    for (let name = left.pop(); name !== undefined; name = left.pop()) {
      const { Hostname: _, ...config } = Config;
      const container = await engine.createContainer({ ...config, HostConfig, name, Labels: { [benchLabel]: '1' } });
      await container.start();
    }
  };
  await Promise.all(Array.from({ length: 8 }, lane));
  await untilAllAccept(cluster, await benchContainers(cluster), 8080);
}

/** From the moment discovery announces a fresh job to its first answer through the router. */
async function healthyToFirstRequest(cluster: TestCluster, app: string): Promise<number> {
  await cluster.flynn(['-a', app, 'scale', 'web=0']);
  await untilStatus(cluster, app, 503);
  const { announcedAt } = await nextInstance(cluster, `${app}-web`);
  await cluster.flynn(['-a', app, 'scale', '--no-wait', 'web=1']);
  const answeredAt = await untilStatus(cluster, app, 200);
  return Math.max(0, answeredAt - (await announcedAt));
}

export const bench: Bench = { needs: 'cluster', run: benchScale };
