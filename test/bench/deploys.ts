/** `deploys 20`: so many deploys of an app that people use all the while. Who of them notices? */
import { deployUnderLoad } from '../deploys-under-load.ts';
import type { TestCluster } from '../test-cluster.ts';
import type { Bench } from './bench.ts';
import { figure, median, type Figure } from './figure.ts';

const defaultDeploys = 100;

async function benchDeploys(cluster: TestCluster, [count]: readonly string[]): Promise<Figure[]> {
  const deploys = count === undefined ? defaultDeploys : Number(count);
  const { failures, requests, slow, messages, reconnects, deploySeconds, elapsedSeconds } = await deployUnderLoad(
    cluster,
    deploys,
  );
  for (const failure of failures.slice(0, 20)) process.stderr.write(`${failure}\n`);
  return [
    figure({ name: `failed in ${deploys} deploys`, value: failures.length, unit: '', must: '0' }),
    figure({
      name: 'short requests over kept connections',
      value: requests / elapsedSeconds,
      unit: '/s',
      must: '>= 200',
    }),
    figure({ name: 'requests of ten seconds', value: slow, unit: '' }),
    figure({ name: 'messages over WebSockets', value: messages, unit: '' }),
    figure({ name: 'WebSockets whose app went away', value: reconnects, unit: '' }),
    figure({ name: 'a deploy, median', value: median(deploySeconds), unit: 's' }),
  ];
}

export const bench: Bench = { needs: 'cluster', run: benchDeploys };
