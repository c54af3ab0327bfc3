/** What an entry of the cell says: its key taken apart, its value checked. */
import { z } from 'zod';
import {
  assignmentSchema,
  cellPrefix,
  claimSchema,
  hostRecordSchema,
  hostSettingsSchema,
  jobStatusSchema,
  lastPlanSchema,
  workloadSchema,
} from '../cell.ts';
import { evaluationSchema } from '../evaluation.ts';

export const cellKinds = [
  'hosts',
  'settings',
  'workloads',
  'evaluations',
  'claims',
  'plans',
  'assignments',
  'status',
] as const;
export type CellKind = (typeof cellKinds)[number];

/** `rest` is a second id: the plan of an assignment, the job of a status. Undefined for keys that planning does not read. */
export type CellKey = Readonly<{ kind: CellKind; id: string; rest: string }>;

const kinds: ReadonlySet<string> = new Set(cellKinds);

export function parseCellKey(key: string): CellKey | undefined {
  const end = key.indexOf('/', cellPrefix.length);
  const kind = key.slice(cellPrefix.length, end);
  if (!isKind(kind)) return undefined;
  const isOfHost = kind === 'assignments' || kind === 'status';
  const at = isOfHost ? key.indexOf('/', end + 1) : key.length;
  return at < 0 ? undefined : { kind, id: key.slice(end + 1, at), rest: key.slice(at + 1) };
}

function isKind(text: string): text is CellKind {
  return kinds.has(text);
}

/** Only what planning asks of a status. */
const factsSchema = jobStatusSchema.pick({
  workloadId: true,
  version: true,
  state: true,
  isFinal: true,
  createdAt: true,
  startedAt: true,
  endedAt: true,
  goesLast: true,
});
export type StatusFacts = z.output<typeof factsSchema>;

/** Throw for what is no such value. */
export const decode = {
  hosts: (text: string) => hostRecordSchema.parse(JSON.parse(text)),
  settings: (text: string) => hostSettingsSchema.parse(JSON.parse(text)),
  workloads: (text: string) => workloadSchema.parse(JSON.parse(text)),
  evaluations: (text: string) => evaluationSchema.parse(JSON.parse(text)),
  claims: (text: string) => claimSchema.parse(JSON.parse(text)),
  plans: (text: string) => lastPlanSchema.parse(JSON.parse(text)),
  assignments: (text: string) => assignmentSchema.parse(JSON.parse(text)),
  status: (text: string) => factsSchema.parse(JSON.parse(text)),
} as const;
