/**
 * Three hosts with nothing of flynn on them, from a bundle: what has to be typed, and how long it takes, to the first push
 * live.
 */
import { makeBundle } from '@flynn/bootstrap/bundle/make';
import { InstalledHosts } from '../installed-hosts.ts';
import type { Bench } from './bench.ts';
import { report, withFolder } from './bundles.ts';
import { type Figure, figure, timeSeconds } from './figure.ts';

const hosts = 3;

export const bench: Bench = {
  needs: 'nothing',
  run: (): Promise<Figure[]> =>
    withFolder(async (folder) => {
      const bundle = await makeBundle({ folder, now: new Date(), report });
      await using installed = await InstalledHosts.create(2, hosts);
      const { cluster } = installed;
      const installing = await timeSeconds(() => installed.install(cluster.host, bundle));
      // The others are installed and join by one command each, once there is a token.
      let joined = 0;
      const forming = await timeSeconds(() =>
        installed.form(async (host, token) => {
          await installed.install(host, bundle, '--join', token);
          joined += 1;
        }, report),
      );
      await cluster.untilHealthy();
      const { typed } = installed;
      return [
        figure({ name: 'a host installed from a bundle', value: installing, unit: 's' }),
        figure({
          name: `cluster of ${joined + 1} with the sample app pushed and live`,
          value: forming,
          unit: 's',
          must: '<= 180 s',
        }),
        figure({ name: 'commands from bare hosts to the first push live', value: typed, unit: '', must: '<= 5' }),
      ];
    }),
};
