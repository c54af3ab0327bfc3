/** Five clients use the controllers behind every host while hosts, members of etcd and links fail: is what they see one history? */
import assert from 'node:assert/strict';
import { after, before, suite } from 'node:test';
import { systemClock } from '@flynn/kit/clock';
import { waitFor } from '@flynn/kit/retry';
import { Clients } from '../linearizable/clients.ts';
import { TestCluster } from '../test-cluster.ts';
import { leaderOf } from './store.ts';
import { Stage, scenario } from './stage.ts';

const clientCount = 5;
const pauseMs = 60;
/** Of a fault, and of the time after it. */
const faultMs = 15_000;
const someAnswers = 100;

type Fault = (stage: Stage, signal: AbortSignal) => Promise<void>;

const pause = (signal: AbortSignal): Promise<void> => systemClock.sleep(faultMs, { signal });

const faults: readonly (readonly [string, Fault])[] = [
  ['nothing fails', (_stage, signal) => pause(signal)],
  [
    'each host in turn loses its power',
    async (stage, signal) => {
      for (const host of stage.hosts) {
        await host.cutPower();
        await pause(signal);
        await host.boot();
        await stage.cluster.untilHealthy('hello');
      }
    },
  ],
  [
    'the leader of etcd is killed, and the next stands still',
    async (stage, signal) => {
      process.kill((await leaderOf(stage.hosts)).storePid(), 'SIGKILL');
      await pause(signal);
      const leader = await leaderOf(stage.hosts);
      leader.freezeStore();
      await pause(signal);
      leader.thawStore();
    },
  ],
  [
    'each host in turn is cut off from the others',
    async (stage, signal) => {
      for (const host of stage.hosts) {
        await stage.cluster.partition([host], stage.others(host));
        await pause(signal);
        await stage.cluster.heal();
        await pause(signal);
      }
    },
  ],
  [
    'links are slow and lose packets',
    async (stage, signal) => {
      const [first, ...others] = stage.hosts;
      assert.ok(first);
      await stage.cluster.partition([first], others, { lossPercent: 10 });
      try {
        await first.throttle(2_000);
        await pause(signal);
        await pause(signal);
      } finally {
        await first.throttle();
      }
      await stage.cluster.heal();
    },
  ],
  [
    'all hosts lose their power at once',
    async (stage) => {
      await Promise.all(stage.hosts.map((host) => host.cutPower()));
      await stage.bootAll();
    },
  ],
];

suite('what clients of the control plane see could have happened one after the other', () => {
  let cluster: TestCluster;
  let stage: Stage;
  before(async () => {
    cluster = await TestCluster.create(60, { hosts: 3 });
    await cluster.up();
    await cluster.flynn(['-a', 'controller', 'scale', 'web=3']);
    // Clients choose their door by its address, for which there is no certificate.
    await cluster.flynn(['-a', 'controller', 'env', 'set', 'FLYNN_PLAIN_HTTP=allowed']);
    stage = await Stage.open(cluster, process.env['FLYNN_TEST_BASE_IMAGE'] ?? '');
  });
  after(async () => {
    await stage?.[Symbol.asyncDispose]();
    await cluster?.[Symbol.asyncDispose]();
  });

  for (const [place, [name, fault]] of faults.entries()) {
    scenario(
      () => stage,
      name,
      async (one, t) => {
        const app = `register${place}`;
        await cluster.flynn(['create', app]);
        const clients = await clientsOf(cluster, app);
        await using _ = clients;
        await fault(one, t.signal);
        one.since('the end of the fault');
        const { answered } = clients.counts;
        await waitFor(() => clients.counts.answered > answered + someAnswers, {
          what: 'clients to be answered again',
          deadlineMs: 90_000,
        });
        await clients.stop();
        t.diagnostic(`${clients.counts.answered} calls were answered, of ${clients.counts.unknown} nobody knows`);
        t.diagnostic(`no change was answered for ${(clients.writeOutageMs / 1_000).toFixed(1)} s at most`);
        assert.deepEqual(clients.violations(), []);
      },
    );
  }
});

async function clientsOf(cluster: TestCluster, app: string): Promise<Clients> {
  return new Clients({
    doors: cluster.hosts.map(({ address }) => `http://${address}`),
    token: await cluster.adminKey(),
    domain: `controller.${cluster.domain}`,
    app,
    count: clientCount,
    pauseMs,
  });
}
