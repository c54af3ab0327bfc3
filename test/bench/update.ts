/**
 * Three hosts moved to another version and back while somebody uses an app of theirs, and somebody else pushes and scales
 * another. The other version is the same sources under another name, and told apart, so every program, image and release of
 * the platform is replaced.
 */
import { makeBundle } from '@flynn/bootstrap/bundle/make';
import { versionOfThis } from '@flynn/bootstrap/origin';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import type { Checkout } from '../checkout.ts';
import { InstalledHosts } from '../installed-hosts.ts';
import { startSteadyLoad } from '../steady-load.ts';
import type { Bench } from './bench.ts';
import { report, withFolder } from './bundles.ts';
import { type Figure, figure, timeSeconds } from './figure.ts';

const hosts = 3;
const lanes = 4;

export const bench: Bench = {
  needs: 'nothing',
  run: (): Promise<Figure[]> =>
    withFolder(async (folder) => {
      const [before, after] = [versionOfThis(), `${versionOfThis()}-next`];
      const bundle = await makeBundle({ folder, now: new Date(), report });
      const next = await makeBundle({ folder, version: after, isApart: true, now: new Date(), report });
      await using installed = await InstalledHosts.create(2, hosts);
      await Promise.all(installed.cluster.hosts.map((host) => installed.install(host, bundle)));
      await installed.form(async (host, token) => {
        await installed.type(host, ['flynn-host', 'join', token], report);
      }, report);
      await installed.cluster.untilHealthy();
      const app = await installed.cluster.checkout('static');
      return [
        ...(await moved(installed, app, { name: `to ${after}`, version: after, args: ['--bundle', next] })),
        ...(await moved(installed, app, { name: `back to ${before}`, version: before, args: ['--to', before] })),
      ];
    }),
};

type Move = { name: string; version: string; args: readonly string[] };

async function moved(installed: InstalledHosts, app: Checkout, { name, version, args }: Move): Promise<Figure[]> {
  const { cluster } = installed;
  let place = 0;
  const get = (signal: AbortSignal) => {
    place += 1;
    return cluster.get('hello', '/', { signal, host: cluster.hosts[place % hosts] ?? cluster.host });
  };
  const load = startSteadyLoad(get, { lanes, pauseMs: 20, maxMs: 15 * 60_000 });
  const use = startUse(app, version);
  let seconds: number;
  try {
    seconds = await timeSeconds(() => installed.type(cluster.host, ['flynn-host', 'update', ...args], report));
  } finally {
    const { requests, failures } = await load.stop();
    report(`${requests} requests, ${failures.length} failed ${[...new Set(failures)].slice(0, 5).join(' | ')}`);
    const { rounds, failures: refusals } = await use.stop();
    report(`${rounds} pushes and scales, ${refusals.length} failed ${refusals.slice(0, 5).join(' | ')}`);
  }
  const { requests, failures } = await load.stop();
  const { rounds, failures: refusals } = await use.stop();
  for (const host of cluster.hosts) {
    const said = await installed.type(host, ['flynn-host', '--version']);
    if (said.trim() !== version) throw new FlynnError('internal', `${host.name} says ${said.trim()}, not ${version}`);
  }
  const { stdout } = await cluster.flynn(['version']);
  if (!stdout.includes(`cluster ${version}\n`)) throw new FlynnError('internal', `the controller says ${stdout}`);
  return [
    figure({ name: `${hosts} hosts and the platform ${name}`, value: seconds, unit: 's' }),
    figure({ name: `requests meanwhile, ${name}`, value: requests, unit: '' }),
    figure({ name: `failed ones, ${name}`, value: failures.length, unit: '', must: '0' }),
    figure({ name: `pushes with two scales each meanwhile, ${name}`, value: rounds, unit: '', must: '>= 1' }),
    figure({ name: `failed of these, ${name}`, value: refusals.length, unit: '', must: '0' }),
  ];
}

type Use = { rounds: number; failures: string[] };

/** Pushes, asks and scales until told to stop; what failed is kept, and not tried again. */
function startUse(app: Checkout, text: string): { stop(): Promise<Use> } {
  const use: Use = { rounds: 0, failures: [] };
  const ending = new AbortController();
  const done = (async () => {
    for (; !ending.signal.aborted; use.rounds += 1) {
      try {
        const page = `${text}, round ${use.rounds}\n`;
        await app.write('public/index.html', page);
        await app.commit(page.trim());
        await app.push();
        // A router whose host's agent is being replaced hears of the new jobs a moment later.
        await waitFor(async () => (await app.get()).body === page, { what: page, deadlineMs: 30_000, intervalMs: 50 });
        for (const count of [3, 1]) await app.flynn(['scale', `web=${count}`]);
      } catch (error) {
        use.failures.push(messageOf(error).slice(-600));
      }
    }
  })();
  return {
    async stop() {
      ending.abort();
      await done;
      return use;
    },
  };
}
