/** The last hour of an app, put together of what controllers answered: each knows only what it saw itself. Pure. */
import type { Figures } from '@flynn/controller/figures/model';

export const pointsKept = 240;

/** Of `pointsKept` points, the last of which is the hour's end. */
export type Column = readonly (number | null)[];

type TypeColumns = Readonly<{
  type: string;
  jobs: Column;
  cpu: Column;
  memoryBytes: Column;
  memoryLimitBytes: Column;
}>;
type RequestColumns = Readonly<Record<keyof NonNullable<Figures['requests']>, Column>>;

export type Hour = Readonly<{
  endMs: number;
  stepMs: number;
  /** From when on whoever was asked has looked; undefined if nobody has yet. */
  knownSinceMs: number | undefined;
  isLeftOut: boolean;
  types: readonly TypeColumns[];
  requests: RequestColumns | undefined;
}>;

export function startOf({ endMs, stepMs }: Hour): number {
  return endMs - (pointsKept - 1) * stepMs;
}

/** Whoever answered has looked for longer than those before: of what it knows only the end was asked for. */
export function knowsMore({ knownSince }: Figures, before: Hour | undefined): boolean {
  if (knownSince === undefined || before === undefined) return false;
  return Date.parse(knownSince) < (before.knownSinceMs ?? Infinity);
}

/** What is told now, and before that what was told before: another controller may have looked for longer. */
export function hourOf(told: Figures, before?: Hour): Hour {
  const { stepMs, points, isLeftOut } = told;
  const fromMs = Date.parse(told.from);
  const endMs = Math.max(fromMs + (points - 1) * stepMs, before?.endMs ?? 0);
  const columnOf = (now: Column | undefined, earlier: Column | undefined): Column =>
    Array.from({ length: pointsKept }, (_, index) => {
      const at = endMs - (pointsKept - 1 - index) * stepMs;
      const known = now?.[(at - fromMs) / stepMs];
      if (known !== undefined && known !== null) return known;
      if (before === undefined || earlier === undefined) return null;
      return earlier[index + (endMs - before.endMs) / stepMs] ?? null;
    });
  const names = new Set([...told.types, ...(before?.types ?? [])].map(({ type }) => type));
  const types = [...names].toSorted().map((type) => {
    const now = told.types.find((one) => one.type === type);
    const earlier = before?.types.find((one) => one.type === type);
    return {
      type,
      jobs: columnOf(now?.jobs, earlier?.jobs),
      cpu: columnOf(now?.cpu, earlier?.cpu),
      memoryBytes: columnOf(now?.memoryBytes, earlier?.memoryBytes),
      memoryLimitBytes: columnOf(now?.memoryLimitBytes, earlier?.memoryLimitBytes),
    };
  });
  const { requests } = told;
  const shape = requests ?? before?.requests;
  const since = [
    // What was not asked for is not known here.
    told.knownSince === undefined ? Infinity : Math.max(Date.parse(told.knownSince), fromMs),
    before?.knownSinceMs ?? Infinity,
  ];
  const knownSinceMs = Math.min(...since);
  return {
    endMs,
    stepMs,
    isLeftOut,
    knownSinceMs: knownSinceMs === Infinity ? undefined : knownSinceMs,
    types: types.filter(({ jobs }) => jobs.some((count) => count !== null && count > 0)),
    requests:
      shape === undefined
        ? undefined
        : (Object.fromEntries(
            (Object.keys(shape) as (keyof RequestColumns)[]).map((name) => [
              name,
              columnOf(requests?.[name], before?.requests?.[name]),
            ]),
          ) as RequestColumns),
  };
}

/** Of all types at each point. What is not known of one that has jobs then is not known of all: a sum without it would be less. */
export function sumOf(types: readonly TypeColumns[], field: 'cpu' | 'memoryBytes'): Column {
  return Array.from({ length: pointsKept }, (_, index) => {
    let sum: number | null = null;
    for (const type of types) {
      const value = type[field][index] ?? null;
      if (value !== null) sum = (sum ?? 0) + value;
      else if ((type.jobs[index] ?? 0) > 0) return null;
    }
    return sum;
  });
}

/** Too old to be called now. */
export function isOld({ endMs, stepMs }: Hour, nowMs: number): boolean {
  return nowMs - endMs > 3 * stepMs;
}

/** Of each span of so many points, the last one at the end: the average, or the highest, of what is known. */
export function spansOf(column: Column, points: number, of: 'average' | 'highest'): (number | undefined)[] {
  return Array.from({ length: pointsKept / points }, (_, index) => {
    const known = column.slice(index * points, (index + 1) * points).flatMap((value) => value ?? []);
    if (known.length === 0) return undefined;
    return of === 'highest' ? Math.max(...known) : known.reduce((sum, value) => sum + value, 0) / known.length;
  });
}
