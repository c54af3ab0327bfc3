/**
 * What people set of the platform's own processes (`flynn limit set`, `flynn constraint set`), as a manifest gives it: kept beside
 * a release, it tells later what of the release is theirs. Pure.
 */
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { processSchema } from '../processes/process.ts';
import type { Process } from '../processes/process.ts';

const limitsSchema = processSchema.pick({ memoryBytes: true, cpuMillis: true, constraints: true });
/** By type of process. */
export const platformLimitsSchema = z.record(z.string(), limitsSchema);
export type PlatformLimits = Readonly<z.output<typeof platformLimitsSchema>>;
type Limits = PlatformLimits[string];
type Constraints = NonNullable<Limits['constraints']>;

export function limitsOf(processes: Readonly<Record<string, z.input<typeof limitsSchema>>>): PlatformLimits {
  return platformLimitsSchema.parse(processes);
}

/** Of a release's meta; undefined for what does not tell. */
export function parseLimits(text: string | undefined): PlatformLimits | undefined {
  if (text === undefined) return undefined;
  try {
    return platformLimitsSchema.safeParse(JSON.parse(text)).data;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/**
 * `wanted` of a manifest with what people set since `given`, an earlier manifest's: what of `set` differs from that is theirs.
 * Nothing is theirs of a type that was not given.
 */
export function withSetLimits(
  wanted: Readonly<Record<string, Process>>,
  { set, given = {} }: { set: PlatformLimits; given?: PlatformLimits | undefined },
): Record<string, Process> {
  const entries = Object.entries(wanted).map(([type, process]): [string, Process] => {
    const [now, before] = [set[type], given[type]];
    return [
      type,
      now === undefined || before === undefined ? process : { ...process, ...merged(process, now, before) },
    ];
  });
  return Object.fromEntries(entries);
}

function merged(wanted: Limits, now: Limits, before: Limits): Limits {
  const constraints = mergedConstraints(wanted.constraints ?? [], now.constraints ?? [], before.constraints ?? []);
  // The same ones in another order are no change.
  const isAsNow = isDeepStrictEqual(new Set(constraints), new Set(now.constraints ?? []));
  const kept = isAsNow ? now.constraints : constraints;
  return {
    memoryBytes: now.memoryBytes === before.memoryBytes ? wanted.memoryBytes : now.memoryBytes,
    cpuMillis: now.cpuMillis === before.cpuMillis ? wanted.cpuMillis : now.cpuMillis,
    ...(kept === undefined ? {} : { constraints: kept }),
  };
}

/** An attribute of which people changed anything is as they have it. */
function mergedConstraints(wanted: Constraints, now: Constraints, before: Constraints): Constraints {
  const of = (all: Constraints, name: string): Constraints => all.filter(({ attribute }) => attribute === name);
  const attributes = new Set([...wanted, ...now].map(({ attribute }) => attribute));
  return [...attributes].flatMap((name) => {
    const isTheirs = !isDeepStrictEqual(new Set(of(now, name)), new Set(of(before, name)));
    return of(isTheirs ? now : wanted, name);
  });
}
