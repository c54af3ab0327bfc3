/** A host whose clock is set while it runs. No clock of the machine is touched: its agent is told another time. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { systemClock } from '@flynn/kit/clock';
import { excusedBy } from './hosts.ts';
import { Pulse } from './pulse.ts';
import { type Stage, scenario } from './stage.ts';
import { names, put, web, webCount } from './workloads.ts';

const stepMs = 600_000;
/** Longer than the lease of a host. */
const afterStepMs = 9_000;

/** What the agent loads before its program: its wall clock is the machine's and what the file says. */
const program = (file: string): string => `
import { readFileSync } from 'node:fs';
const RealDate = Date;
let offsetMs = 0;
const look = () => { try { offsetMs = Number(readFileSync(${JSON.stringify(file)}, 'utf8')); } catch { offsetMs = 0; } };
look();
setInterval(look, 50).unref();
globalThis.Date = class Date extends RealDate {
  constructor(...args) { if (args.length === 0) super(RealDate.now() + offsetMs); else super(...args); }
  static now() { return RealDate.now() + offsetMs; }
};
`;

export function describeClock(theStage: () => Stage): void {
  scenario(
    theStage,
    "a host's clock is set ten minutes on, then back: no job notices, and changes go on",
    async (stage, t) => {
      const host = stage.hostOf(names.single);
      const offsetFile = join(host.directory, 'clock-offset');
      const programFile = join(host.directory, 'clock.mjs');
      const environmentFile = join(host.stateDir, 'agent.env');
      const environment = await readFile(environmentFile, 'utf8');
      await writeFile(programFile, program(offsetFile));
      await writeFile(offsetFile, '0');
      try {
        await writeFile(environmentFile, `${environment}NODE_OPTIONS=--import=${programFile}\n`);
        await host.restartAgent();
        await stage.untilHealthy();
        // What the restart cost on a machine that was too slow for it is not the clock's doing.
        const fromMs = performance.now();
        await using pulse = new Pulse(stage.store);
        for (const offsetMs of [stepMs, -stepMs, 0]) {
          await writeFile(offsetFile, String(offsetMs));
          await put(stage.store, [web(stage.image, webCount + 3)]);
          await stage.untilHealthy();
          await put(stage.store, [web(stage.image)]);
          await stage.untilHealthy();
          await systemClock.sleep(afterStepMs, { signal: t.signal });
          await stage.untilHealthy();
        }
        const excused = excusedBy(await pulse.stop(), stage, t);
        const stopped = stage.witness
          .changes()
          .filter(({ name }) => (name === names.single || name === names.volume) && !excused.includes(name))
          .filter(({ startedMs, endedMs = 0 }) => Math.max(startedMs, endedMs) >= fromMs);
        assert.deepEqual(stopped, [], 'a singleton was stopped for a clock');
      } finally {
        await writeFile(environmentFile, environment);
        stage.since('the agent was restarted with the right time');
        await host.restartAgent();
      }
    },
  );
}
