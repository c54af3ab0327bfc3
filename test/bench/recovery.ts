/** `recovery 3`: all hosts lose their power at once. From their engines up to every app answering at every host, by itself. */
import { waitFor } from '@flynn/kit/retry';
import type { TestCluster } from '../test-cluster.ts';
import type { Bench } from './bench.ts';
import { figure, median, timeSeconds, type Figure } from './figure.ts';

const apps = ['hello', 'site', 'shop'];
const defaultRounds = 3;
const deadlineMs = 180_000;

async function benchRecovery(cluster: TestCluster, [count]: readonly string[]): Promise<Figure[]> {
  const rounds = count === undefined ? defaultRounds : Number(count);
  await (await cluster.checkout('static', 'site')).push();
  await (await cluster.checkout('express', 'shop')).push();
  for (const app of apps) await cluster.flynn(['-a', app, 'scale', 'web=2']);
  const engines: number[] = [];
  const answers: number[] = [];
  const controllers: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    for (const app of apps) await cluster.untilHealthy(app);
    await Promise.all(cluster.hosts.map((host) => host.cutPower()));
    engines.push(await timeSeconds(() => Promise.all(cluster.hosts.map((host) => host.startEngine()))));
    for (const host of cluster.hosts) host.startAgent();
    const places = cluster.hosts.flatMap((host) => apps.map((app) => ({ host, app })));
    const [untilApps, untilController] = await Promise.all([
      timeSeconds(() => Promise.all(places.map(({ host, app }) => cluster.untilAnswers(app, { host, deadlineMs })))),
      timeSeconds(() => waitFor(() => cluster.flynn(['apps']), { what: 'the controller', deadlineMs })),
    ]);
    answers.push(untilApps);
    controllers.push(untilController);
  }
  return [
    figure({
      name: 'from engines up to all apps answering at all hosts, median',
      value: median(answers),
      unit: 's',
      must: '<= 60 s',
    }),
    figure({ name: 'the slowest', value: Math.max(...answers), unit: 's', must: '<= 60 s' }),
    figure({ name: 'from engines up to the controller answering, median', value: median(controllers), unit: 's' }),
    figure({ name: "the engines' own start, median", value: median(engines), unit: 's' }),
  ];
}

export const bench: Bench = { needs: 'three hosts', run: benchRecovery };
