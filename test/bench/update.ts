/**
 * Three hosts moved to another version and back while somebody uses an app of theirs. The other version is the same
 * sources under another name, so every program, image and release of the platform is replaced.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeBundle } from '@flynn/bootstrap/bundle/make';
import { versionOfThis } from '@flynn/bootstrap/origin';
import { FlynnError } from '@flynn/kit/errors';
import { InstalledHosts } from '../installed-hosts.ts';
import { startSteadyLoad } from '../steady-load.ts';
import type { Bench } from './bench.ts';
import { type Figure, figure, timeSeconds } from './figure.ts';

const hosts = 3;
const lanes = 4;
const report = (line: string): void => void process.stderr.write(`${line}\n`);

export const bench: Bench = {
  needs: 'nothing',
  run: async (): Promise<Figure[]> => {
    const folder = await mkdtemp(join(tmpdir(), 'flynn-bench-'));
    try {
      const [before, after] = [versionOfThis(), `${versionOfThis()}-next`];
      const bundle = await makeBundle({ folder, now: new Date(), report });
      const next = await makeBundle({ folder, version: after, isApart: true, now: new Date(), report });
      await using installed = await InstalledHosts.create(2, hosts);
      await Promise.all(installed.cluster.hosts.map((host) => installed.install(host, bundle)));
      await installed.form(async (host, token) => {
        await installed.type(host, ['flynn-host', 'join', token], report);
      }, report);
      await installed.cluster.untilHealthy();
      return [
        ...(await moved(installed, { name: `to ${after}`, version: after, args: ['--bundle', next] })),
        ...(await moved(installed, { name: `back to ${before}`, version: before, args: ['--to', before] })),
      ];
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  },
};

type Move = { name: string; version: string; args: readonly string[] };

async function moved(installed: InstalledHosts, { name, version, args }: Move): Promise<Figure[]> {
  const { cluster } = installed;
  let place = 0;
  const get = (signal: AbortSignal) => {
    place += 1;
    return cluster.get('hello', '/', { signal, host: cluster.hosts[place % hosts] ?? cluster.host });
  };
  const load = startSteadyLoad(get, { lanes, pauseMs: 20, maxMs: 15 * 60_000 });
  let seconds: number;
  try {
    seconds = await timeSeconds(() => installed.type(cluster.host, ['flynn-host', 'update', ...args], report));
  } finally {
    const { requests, failures } = await load.stop();
    report(`${requests} requests, ${failures.length} failed ${[...new Set(failures)].slice(0, 5).join(' | ')}`);
  }
  const { requests, failures } = await load.stop();
  for (const host of cluster.hosts) {
    const said = await installed.type(host, ['flynn-host', '--version']);
    if (said.trim() !== version) throw new FlynnError('internal', `${host.name} says ${said.trim()}, not ${version}`);
  }
  return [
    figure({ name: `${hosts} hosts and the platform ${name}`, value: seconds, unit: 's' }),
    figure({ name: `requests meanwhile, ${name}`, value: requests, unit: '' }),
    figure({ name: `failed ones, ${name}`, value: failures.length, unit: '', must: '0' }),
  ];
}
