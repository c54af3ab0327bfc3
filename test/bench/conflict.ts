/** Conflicts between schedulers of one cell, on virtual time: counts, not times, so the same on every machine. */
import { measureConflicts } from '@flynn/scheduler/simulator/conflicts';
import type { Bench } from './bench.ts';
import { figure } from './figure.ts';
import type { Figure } from './figure.ts';

export const bench: Bench = {
  needs: 'nothing',
  run: async () => {
    const figures: Figure[] = [];
    for (const fill of [0.6, 0.9]) {
      for (const schedulers of [1, 4, 8]) {
        const counts = measureConflicts({ hosts: 1_000, schedulers, fill, perSecond: 2_000, seed: 1 });
        const name = `conflicts per commit, ${schedulers} schedulers, ${fill * 100} % full`;
        const must = schedulers === 8 && fill === 0.9 ? { must: '<= 0.05 (aim 0.01)' } : {};
        figures.push(figure({ name, value: counts.perTransaction, unit: '', ...must }));
      }
    }
    return figures;
  },
};
