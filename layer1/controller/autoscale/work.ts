/** How much there is to do for a type, by what was measured: in jobs' worth for the law, and in words for people. Pure. */
import type { Process } from '../processes/process.ts';
import { signals } from './model.ts';
import type { Settings, Signal } from './model.ts';
import { tolerance } from './law.ts';
import type { Load } from './law.ts';
import type { Average, CpuUse, Doubt } from './meters.ts';

export type Seen = Readonly<{
  /** How many jobs are wanted now. */
  count: number;
  cpu: CpuUse;
  /** Some of its jobs are on hosts that could not be asked. */
  hasSilentHosts: boolean;
  /** Of all its jobs; undefined until it was looked at for long enough. */
  perSecond: Average | undefined;
  inFlight: Average | undefined;
  /** How many of them run. */
  running: number;
}>;

/**
 * `text`: what there is for each job, and its target; undefined while nothing is known. `why` there may be any more to do, where
 * those who were asked told of it.
 */
export type Work = Readonly<{ signal: Signal; load: Load; text: string | undefined; why?: string }>;

const unknown: Load = { low: 0, high: Infinity };

const whyOf: Readonly<Record<Doubt, string>> = {
  part: 'in the last window a router or a route came or went or did not answer',
  failures: 'too many of its requests failed in the last window, or were kept away',
};

export function workOf(settings: Settings, process: Pick<Process, 'cpuMillis'>, seen: Seen): Work[] {
  return signals.flatMap((signal): Work[] => {
    const target = settings[signal];
    return target === undefined ? [] : [{ signal, ...measured[signal](target, process, seen) }];
  });
}

type Measured = (target: number, process: Pick<Process, 'cpuMillis'>, seen: Seen) => Omit<Work, 'signal'>;

const measured: Readonly<Record<Signal, Measured>> = {
  cpuPercent(target, { cpuMillis }, { count, cpu, hasSilentHosts }) {
    if (cpu.measured === 0) return { load: unknown, text: undefined };
    const percents = (cpu.cores / (cpuMillis / 1_000)) * 100;
    const low = percents / target;
    // Jobs that have just begun have their share to do, as far as anybody knows.
    const high = hasSilentHosts ? Infinity : low + Math.max(0, count - cpu.measured);
    return { load: { low, high }, text: `cpu ${rounded(percents / cpu.measured)}% of ${target}%` };
  },
  requestsPerSecond: (target, _process, { perSecond, ...seen }) => ofRouters(perSecond, target, ' requests/s', seen),
  requestsInFlight: (target, _process, { inFlight, ...seen }) => ofRouters(inFlight, target, ' in flight', seen),
};

function ofRouters(
  total: Average | undefined,
  target: number,
  unit: string,
  { count, running }: Pick<Seen, 'count' | 'running'>,
): Omit<Work, 'signal'> {
  if (total === undefined) return { load: unknown, text: undefined };
  const low = total.value / target;
  const text = `${rounded(total.value / Math.max(1, count))} of ${target}${unit}`;
  const why = total.doubt === undefined ? shortWhy(low, { count, running }) : whyOf[total.doubt];
  if (why !== undefined) return { load: { low, high: Infinity }, text, why };
  return { load: { low, high: total.most / target }, text };
}

/** Where those that run have all that they are to have, what they did says nothing of what there is to do. */
function shortWhy(low: number, { count, running }: Pick<Seen, 'count' | 'running'>): string | undefined {
  if (running >= count) return undefined;
  if (running === 0) return `none of its ${count} jobs runs`;
  return low > running * (1 - tolerance) ? `${running} of its ${count} jobs run, and have enough to do` : undefined;
}

/** Whole numbers from ten on, else with a place. */
function rounded(value: number): string {
  return value >= 10 ? String(Math.round(value)) : String(Math.round(value * 10) / 10);
}

/** `a job has cpu 140% of 70%, 12 of 50 requests/s`; undefined while nothing is known. */
export function figuresText(work: readonly Work[]): string | undefined {
  const known = work.flatMap(({ text }) => text ?? []);
  return known.length === 0 ? undefined : known.join(', ');
}
