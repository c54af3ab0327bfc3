/** A host whose disk is full. */
import assert from 'node:assert/strict';
import { isUp } from './cell-watch.ts';
import { type Stage, scenario } from './stage.ts';
import { names, put, web, webCount } from './workloads.ts';

const more = 6;

/** `place`: of the host with a disk of its own. */
export function describeDisk(theStage: () => Stage, place: number): void {
  scenario(
    theStage,
    "a host's disk is full: it takes no new jobs and keeps those it has, until there is room",
    async (stage, t) => {
      const host = stage.hosts[place];
      assert.ok(host !== undefined);
      const isCordoned = (): boolean => stage.cell.hosts.get(host.name)?.value.cordoned === true;
      const before = stage.witness.runs(names.web).filter((run) => run.host === host.name);
      const startedMs = performance.now();
      await host.fillDisk();
      try {
        await stage.watch.until(() => (isCordoned() ? [] : [`${host.name} takes jobs`]), {
          what: 'the host to take no new jobs',
          deadlineMs: 180_000,
        });
        t.diagnostic(`it took no new jobs ${((performance.now() - startedMs) / 1_000).toFixed(1)} s later`);
        await put(stage.store, [web(stage.image, webCount + more)]);
        await stage.watch.until(
          (cell) => {
            const up = cell.jobsOf(names.web).filter((job) => isUp(cell, job)).length;
            return up === webCount + more ? [] : [`${up} run`];
          },
          { what: 'more jobs to run elsewhere', deadlineMs: 180_000 },
        );
        assert.deepEqual(
          before.filter(({ endedMs }) => endedMs !== undefined),
          [],
          'jobs on the full disk were stopped',
        );
        await put(stage.store, [web(stage.image)]);
      } finally {
        await host.freeDisk();
      }
      stage.since('there was room again');
      await stage.watch.until(() => (isCordoned() ? [`${host.name} takes no jobs`] : []), {
        what: 'the host to take jobs again',
        deadlineMs: 180_000,
      });
    },
  );
}
