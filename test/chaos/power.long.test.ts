/** All three hosts lose their power at once, and come back in every order, or one of them never. Nobody does anything. */
import { after, before, suite, type TestContext } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { TestCluster } from '../test-cluster.ts';
import { wrongs } from './cell-watch.ts';
import { Stage, scenario } from './stage.ts';

const recoverMs = 180_000;

suite('all hosts lose their power at once', () => {
  let cluster: TestCluster;
  let stage: Stage;
  before(async () => {
    cluster = await TestCluster.create(60, { hosts: 3 });
    await cluster.up();
    stage = await Stage.open(cluster, process.env['FLYNN_TEST_BASE_IMAGE'] ?? '');
  });
  after(async () => {
    await stage?.[Symbol.asyncDispose]();
    await cluster?.[Symbol.asyncDispose]();
  });
  const theStage = () => stage;

  for (const order of ['123', '132', '213', '231', '312', '321']) {
    scenario(theStage, `they return one after the other, as ${order}`, (one, t) => comeBack(one, t, order));
  }
  for (const order of ['12', '23', '31']) {
    scenario(theStage, `only ${order} return, and what can move runs on them`, (one, t) => comeBack(one, t, order));
  }
});

/** Each as soon as the one before has its engine. */
async function comeBack(stage: Stage, t: TestContext, order: string): Promise<void> {
  const hosts = order.split('').flatMap((place) => stage.hosts[Number(place) - 1] ?? []);
  await Promise.all(stage.hosts.map((host) => host.cutPower()));
  for (const host of hosts) await host.boot();
  const startedMs = performance.now();
  if (hosts.length === stage.hosts.length) stage.since('the last engine was up');
  await Promise.all(hosts.map((host) => stage.cluster.untilAnswers('hello', { host, deadlineMs: recoverMs })));
  t.diagnostic(`the app answers at all of them ${secondsSince(startedMs)} s after the last engine was up`);
  const [host] = hosts;
  await waitFor(() => stage.cluster.flynn(['apps'], host === undefined ? {} : { host }), {
    what: 'the controller',
    deadlineMs: recoverMs,
    intervalMs: 500,
  });
  t.diagnostic(`the controller does after ${secondsSince(startedMs)} s`);
  const there = hosts.map(({ name }) => name);
  const away = stage.hosts.map(({ name }) => name).filter((name) => !there.includes(name));
  const stillThere = (): string[] =>
    away.filter((name) => stage.cell.hosts.has(name)).map((name) => `${name} is there`);
  await stage.watch.until((cell) => [...stillThere(), ...wrongs(cell, there)], {
    what: `all that can run on ${there.join(', ')}`,
    deadlineMs: recoverMs,
  });
  t.diagnostic(`all that can run there does after ${secondsSince(startedMs)} s`);
  if (away.length > 0) stage.since('the last host was let boot');
}

const secondsSince = (startedMs: number): string => ((performance.now() - startedMs) / 1_000).toFixed(1);
