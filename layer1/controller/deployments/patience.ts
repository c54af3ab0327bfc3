/** For how long does nothing have to come up, or end, before a step of a deployment is given up? */
import { beforeDeploymentMs, defaultCheck } from '../check-defaults.ts';
import { defaultStopTimeoutMs, type Process } from '../process.ts';

/** A host that ends a job tells it within this. */
const afterStopMs = 60_000;

export type Patient = Readonly<Record<string, Pick<Process, 'ports' | 'stopTimeoutMs' | 'drainMs'>>>;

/**
 * As long as the app says, but where its processes say that they take longer: a check of the new release that waits so long is
 * believed, and so is a job of the old one that may take so long to end.
 */
export function stepPatienceMs(timeoutMs: number, next: Patient, old: Patient | undefined): number {
  const said = Object.values(next).flatMap(({ ports }) =>
    ports.flatMap(({ service }) => service?.check?.startTimeoutMs ?? []),
  );
  const starts = said.filter((startMs) => startMs > defaultCheck.startTimeoutMs);
  return Math.max(timeoutMs, ...starts.map((startMs) => startMs + beforeDeploymentMs), stopPatienceMs(old));
}

/** Until the slowest job of a release has answered what it had, and ended; 0 where none is said to be slow. */
export function stopPatienceMs(processes: Patient = {}): number {
  const said = Object.values(processes).map(({ stopTimeoutMs, drainMs = 0 }) => stopTimeoutMs + drainMs);
  const stops = said.filter((stopMs) => stopMs > defaultStopTimeoutMs);
  return Math.max(0, ...stops.map((stopMs) => stopMs + afterStopMs));
}
