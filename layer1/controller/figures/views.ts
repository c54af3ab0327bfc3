/** The history as the API shows it: columns, rounded to what can be told, null for what is not known. Pure. */
import { iso } from '../jobs/views.ts';
import { requestFields, typeFields } from './model.ts';
import type { Figures, LatestFigures, RequestField, TypeField } from './model.ts';
import type { FiguresHistory } from './history.ts';
import { stepMs } from './ring.ts';
import type { Step } from './ring.ts';

/** Digits after the point. */
const places: Readonly<Record<TypeField | RequestField, number>> = {
  jobs: 0,
  cpu: 3,
  memoryBytes: 0,
  memoryLimitBytes: 0,
  perSecond: 2,
  clientErrorsPerSecond: 2,
  serverErrorsPerSecond: 2,
  inFlight: 0,
  p50Ms: 1,
  p95Ms: 1,
  p99Ms: 1,
};

const noneAt = (step: Step) => ({ first: step + 1, last: step });

type Told = number | null;

function told(field: TypeField | RequestField, value: number): Told {
  if (Number.isNaN(value)) return null;
  const scale = 10 ** places[field];
  return Math.round(value * scale) / scale;
}

/** `since`: a moment after which points are wanted. */
export function figuresOf(
  history: FiguresHistory,
  appId: string,
  { since, nowMs }: { since: string | undefined; nowMs: number },
): Figures {
  const { span } = history;
  const { first: oldest, last } = span ?? noneAt(Math.floor(nowMs / stepMs));
  const wanted = since === undefined ? oldest : Math.floor(Date.parse(since) / stepMs) + 1;
  const first = Math.min(Math.max(oldest, wanted), last + 1);
  const points = last - first + 1;
  const known = history.of(appId);
  const column = <Field extends TypeField | RequestField>(
    ring: { column: (field: Field, first: number, last: number) => number[] },
    field: Field,
  ) => ring.column(field, first, last).map((value) => told(field, value));
  const requests = known?.requests;
  return {
    from: iso(first * stepMs),
    stepMs,
    points,
    ...(span === undefined ? {} : { knownSince: iso(span.first * stepMs) }),
    isLeftOut: history.isLeftOut(appId),
    types: sorted(known?.types ?? new Map()).map(([type, ring]) =>
      Object.assign(
        { type },
        recordOf(typeFields, (field) => column(ring, field)),
      ),
    ),
    ...(requests === undefined ? {} : { requests: recordOf(requestFields, (field) => column(requests, field)) }),
  };
}

/** Of the last look. Types that have no job then are left out. */
export function latestOf(
  history: FiguresHistory,
  appId: string,
): Pick<LatestFigures['apps'][number], 'types' | 'requests'> {
  const { span } = history;
  const known = history.of(appId);
  if (span === undefined || known === undefined) return { types: [] };
  const { types, requests } = known;
  return {
    types: sorted(types)
      .filter(([, ring]) => ring.at('jobs', span.last) > 0)
      .map(([type, ring]) =>
        Object.assign(
          { type },
          recordOf(typeFields, (field) => told(field, ring.at(field, span.last))),
        ),
      ),
    ...(requests === undefined
      ? {}
      : { requests: recordOf(requestFields, (field) => told(field, requests.at(field, span.last))) }),
  };
}

function sorted<T>(types: ReadonlyMap<string, T>): [string, T][] {
  return [...types].toSorted(([a], [b]) => (a < b ? -1 : 1));
}

function recordOf<Field extends string, T>(fields: readonly Field[], of: (field: Field) => T): Record<Field, T> {
  return Object.fromEntries(fields.map((field) => [field, of(field)])) as Record<Field, T>;
}
