/** What apps take now, as a table for people: the hungriest first. Pure. */
import type { LatestFigures } from '@flynn/controller/figures/model';
import { formatAge, formatTable } from '../output.ts';
import { latencyText, sizeText } from '../routes/figures.ts';

type AppFigures = LatestFigures['apps'][number];
type TypeFigures = AppFigures['types'][number];

const header = ['APP', 'TYPE', 'JOBS', 'CPU', 'MEMORY', 'REQ/S', '4XX/S', '5XX/S', 'P95', 'IN-FLIGHT'];

/** Twice as long as until there are others, at most. */
const oldMs = 30_000;

/** Said of figures that are not of now. */
export function oldNote({ at }: Pick<LatestFigures, 'at'>, nowMs: number): string {
  if (at === undefined || nowMs - Date.parse(at) <= oldMs) return '';
  return `these are of ${formatAge(at, nowMs)} ago: the controller has not looked since; its log says why: flynn log -a controller\n`;
}

/** By processors, then by memory; what is not known of one is nothing. */
export function hungriestFirst(apps: readonly AppFigures[]): AppFigures[] {
  return apps
    .map(({ types, ...app }) => ({ ...app, types: types.toSorted(byHunger) }))
    .toSorted((a, b) => byHunger(sumOf(a), sumOf(b)) || (a.name < b.name ? -1 : 1));
}

type Hunger = Pick<TypeFigures, 'cpu' | 'memoryBytes'>;

function byHunger(a: Hunger, b: Hunger): number {
  return (b.cpu ?? 0) - (a.cpu ?? 0) || (b.memoryBytes ?? 0) - (a.memoryBytes ?? 0);
}

function sumOf({ types }: AppFigures): Hunger {
  const sum = (field: 'cpu' | 'memoryBytes') => types.reduce((total, type) => total + (type[field] ?? 0), 0);
  return { cpu: sum('cpu'), memoryBytes: sum('memoryBytes') };
}

/** One line for each type that has jobs. What an app is asked stands at its `web`, else at its first. */
export function figuresTable(apps: readonly AppFigures[]): string {
  return formatTable(header, hungriestFirst(apps).flatMap(rowsOf));
}

function rowsOf({ name, types, requests }: AppFigures): (string | undefined)[][] {
  const asked = [
    numberText(requests?.perSecond, 1),
    numberText(requests?.clientErrorsPerSecond, 1),
    numberText(requests?.serverErrorsPerSecond, 1),
    typeof requests?.p95Ms === 'number' ? latencyText(requests.p95Ms) : undefined,
    numberText(requests?.inFlight, 0),
  ];
  const isAsked = (requests?.perSecond ?? 0) > 0 || (requests?.inFlight ?? 0) > 0;
  if (types.length === 0) return isAsked ? [[name, undefined, '0', undefined, undefined, ...asked]] : [];
  const at = Math.max(
    0,
    types.findIndex(({ type }) => type === 'web'),
  );
  return types.map(({ type, jobs, cpu, memoryBytes, memoryLimitBytes }, index) => [
    name,
    type,
    numberText(jobs, 0),
    numberText(cpu, 2),
    memoryText(memoryBytes, memoryLimitBytes),
    ...(index === at ? asked : []),
  ]);
}

function numberText(value: number | null | undefined, places: number): string | undefined {
  return value === null || value === undefined ? undefined : value.toFixed(places);
}

function memoryText(bytes: number | null, limit: number | null): string | undefined {
  if (bytes === null) return undefined;
  return limit === null ? sizeText(bytes) : `${sizeText(bytes)}/${sizeText(limit)}`;
}

/** No line is longer than the terminal is wide, and there are no more than it has room for. */
export function fitted(text: string, { columns, rows }: { columns: number; rows: number }): string[] {
  const lines = text.trimEnd().split('\n');
  const shown = lines.length <= rows ? lines : lines.slice(0, Math.max(1, rows - 1));
  const left = lines.length - shown.length;
  return [...shown, ...(left === 0 ? [] : [`… and ${left} more`])].map((line) => line.slice(0, columns));
}
