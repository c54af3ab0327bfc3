/** One change of the cell as whoever keeps it tells of it, after it was folded in: what triggers are made of. */
import type { Claim, HostRecord, OperatorSettings, Workload } from './cell.ts';
import type { Evaluation } from './evaluation.ts';
import type { JobFacts } from './cell-view.ts';

type Changed<T> = Readonly<{ before: T | undefined; after: T | undefined }>;

/** Changes of assignments and templates are not told: who needs to know made them. */
export type CellChange =
  | (Readonly<{ kind: 'host'; hostId: string }> & Changed<HostRecord>)
  | (Readonly<{ kind: 'settings'; hostId: string }> & Changed<OperatorSettings>)
  | (Readonly<{ kind: 'claim'; hostId: string }> & Changed<Claim>)
  | (Readonly<{ kind: 'workload'; workloadId: string }> & Changed<Workload>)
  /** Also of those that ended, which the cell does not keep: then `after` is told once. */
  | (Readonly<{ kind: 'evaluation'; evaluationId: string }> & Changed<Evaluation>)
  | (Readonly<{ kind: 'status'; hostId: string; jobId: string; workloadId: string }> & Changed<JobFacts>);
