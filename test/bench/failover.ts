/** From a host's power cut to all of its work running on the others, whose engines have the image. */
import type { ClusterHost } from '@flynn/bootstrap/test-hosts/cluster-host';
import { connectStore } from '@flynn/bootstrap/test-hosts/cluster-view';
import { FlynnError } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { CellWatch, isUp } from '../chaos/cell-watch.ts';
import { names, put, web, webCount } from '../chaos/workloads.ts';
import type { Bench } from './bench.ts';
import { type Figure, figure, median } from './figure.ts';

const rounds = 3;
/** What a host announces itself with lasts so long without being renewed: nobody can know of its death much earlier. */
const hostTtlSeconds = 7;

export const bench: Bench = {
  needs: 'three hosts',
  run: async (cluster): Promise<Figure[]> => {
    // At the member of the host that stays: how soon the onlooker notices is no part of the question.
    await using store = await connectStore(cluster.hosts.slice(0, 1));
    await using watch = await CellWatch.open(store);
    const image = { image: process.env['FLYNN_TEST_BASE_IMAGE'] ?? '' };
    await put(store, [web(image)]);
    const seconds: number[] = [];
    for (let round = 0; round < rounds; round += 1) {
      await untilUp(watch, cluster.hosts);
      // Not the first: what the platform keeps there is no part of the question.
      const host = cluster.hosts[1 + (round % 2)];
      if (host === undefined) throw new FlynnError('internal', 'the bench needs three hosts');
      // The others had the image before: each of them ran some of the jobs.
      const startedAt = performance.now();
      await host.cutPower();
      await untilUp(
        watch,
        cluster.hosts.filter((one) => one !== host),
      );
      seconds.push((performance.now() - startedAt) / 1_000);
      await host.boot();
      await waitFor(() => watch.cell.hosts.has(host.name), { what: `${host.name} to be back`, deadlineMs: 60_000 });
      // Spread again, so that the next host to go has some of them.
      await put(store, [web(image, 0)]);
      await watch.until((cell) => cell.jobsOf(names.web).map(({ id }) => `${id} is there`), {
        what: 'the jobs to be gone',
        deadlineMs: 60_000,
      });
      await put(store, [web(image)]);
    }
    return [
      figure({
        name: `power cut to ${webCount} jobs running elsewhere, median of ${rounds}`,
        value: median(seconds),
        unit: 's',
        floor: hostTtlSeconds,
        must: '<= 8 s',
      }),
      figure({ name: 'the slowest of them', value: Math.max(...seconds), unit: 's', floor: hostTtlSeconds }),
    ];
  },
};

function untilUp(watch: CellWatch, hosts: readonly ClusterHost[]): Promise<void> {
  const there = new Set(hosts.map(({ name }) => name));
  return watch.until(
    (cell) => {
      const jobs = cell.jobsOf(names.web);
      const up = jobs.filter((job) => isUp(cell, job) && there.has(job.hostId));
      const absent = [...there].filter((name) => !jobs.some(({ hostId }) => hostId === name));
      return up.length === webCount && jobs.length === webCount ? absent : [`${up.length} of ${jobs.length} run`];
    },
    { what: `${webCount} jobs to run on ${[...there].join(', ')}`, deadlineMs: 120_000 },
  );
}
