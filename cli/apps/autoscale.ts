/** Types that are scaled by themselves, in words: by which range, by what, and how that goes. */
import { autoscales } from '@flynn/controller/autoscale/api';
import type { Autoscale } from '@flynn/controller/autoscale/model';
import { hasCode } from '@flynn/kit/errors';
import type { Context } from '../context.ts';
import { formatAge } from '../output.ts';

/** Of the app. A controller of a version before has none. */
export async function listAutoscales(context: Context, app: string): Promise<Autoscale[]> {
  const client = await context.client();
  try {
    return await client.call(autoscales.list, { params: { app } });
  } catch (error) {
    if (hasCode(error, 'not_found')) return [];
    throw error;
  }
}

/** `2 to 10, by cpu 70%, 50 requests/s`. */
export function rangeText({ min, max, ...settings }: Autoscale): string {
  return `${min} to ${max}, by ${targetsText(settings)}`;
}

export function targetsText(
  settings: Pick<Autoscale, 'cpuPercent' | 'requestsPerSecond' | 'requestsInFlight'>,
): string {
  const { cpuPercent, requestsPerSecond, requestsInFlight } = settings;
  return [
    cpuPercent === undefined ? [] : [`cpu ${cpuPercent}%`],
    requestsPerSecond === undefined ? [] : [`${requestsPerSecond} requests/s`],
    requestsInFlight === undefined ? [] : [`${requestsInFlight} in flight`],
  ]
    .flat()
    .join(', ');
}

/** Why the count stays as it is, or the last change of it. */
export function noteText({ held, last }: Autoscale, nowMs: number): string | undefined {
  if (held !== undefined && held.reason !== 'measuring') return `held: ${held.why}`;
  if (last === undefined) return held?.why;
  return `${last.from} to ${last.to} ${formatAge(last.at, nowMs)} ago: ${last.why}`;
}

/** A line for each, below a table: `web is scaled by itself, 2 to 10, by cpu 70%; 2 to 4 3m ago: …`. */
export function autoscaleLines(all: readonly Autoscale[], nowMs: number): string {
  return all
    .map((one) => {
      const note = noteText(one, nowMs);
      return `\n${one.type} is scaled by itself, ${rangeText(one)}${note === undefined ? '' : `; ${note}`}`;
    })
    .join('');
}
