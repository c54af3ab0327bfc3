/** How much longer than its app says does a step of a deployment wait, as its processes say that they take longer? */
import { beforeDeploymentMs, defaultCheck } from '../processes/check-defaults.ts';
import { defaultStopTimeoutMs, type Process } from '../processes/process.ts';

/** A host that ends a job tells it within this. */
const afterStopMs = 60_000;

export type Patient = Readonly<Record<string, Pick<Process, 'ports' | 'stopTimeoutMs' | 'drainMs'>>>;

/** For a job of it to come up: a check that waits so long is believed. 0 where none says more than usual. */
export function startPatienceMs(processes: Patient = {}): number {
  const said = Object.values(processes).flatMap(({ ports }) =>
    ports.flatMap(({ service }) => service?.check?.startTimeoutMs ?? []),
  );
  const starts = said.filter((startMs) => startMs > defaultCheck.startTimeoutMs);
  return Math.max(0, ...starts.map((startMs) => startMs + beforeDeploymentMs));
}

/** For the slowest job of it to have answered what it had, and ended. 0 where none says more than usual. */
export function stopPatienceMs(processes: Patient = {}): number {
  const said = Object.values(processes).map(({ stopTimeoutMs, drainMs = 0 }) => stopTimeoutMs + drainMs);
  const stops = said.filter((stopMs) => stopMs > defaultStopTimeoutMs);
  return Math.max(0, ...stops.map((stopMs) => stopMs + afterStopMs));
}
