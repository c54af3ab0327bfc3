/**
 * The words of the cell: what schedulers, host agents and Layer 1 write to and read from the shared state.
 *
 * Who writes what:
 * - `hosts/<host>`: the host agent, on its lease. Gone means the host is lost.
 * - `settings/<host>`: operators, through the controller or a host agent: cordon, drain, tags. Outlives the host's lease.
 * - `workloads/<workload>`, `templates/<workload>/<version>`, `evaluations/<id>`: whoever wants something run, all in one
 *   transaction (`evaluations.ts`). A template never changes; schedulers do not read it, hosts do. Schedulers remove the
 *   templates that no job and no workload names any more, and write how evaluations end.
 * - `claims/<host>` and `assignments/<host>/<plan>`: schedulers, in one transaction that compares the claim's revision and
 *   the host's lease epoch (the createRevision of `hosts/<host>`).
 * - `plans/<workload>`: schedulers, with every plan for the workload, comparing the one before: two of them never fill
 *   one slot twice, whatever they worked from.
 * - `status/<host>/<job>`: only the host itself; a status that ends a job puts an evaluation in the same transaction.
 */
import { z } from 'zod';
import { type JobTemplate, jobTemplateSchema } from './job-template.ts';
import { resourcesSchema } from './resources.ts';

export const cellPrefix = '/flynn/cell/';

export const cellKeys = {
  hosts: `${cellPrefix}hosts/`,
  settings: `${cellPrefix}settings/`,
  workloads: `${cellPrefix}workloads/`,
  templates: `${cellPrefix}templates/`,
  evaluations: `${cellPrefix}evaluations/`,
  claims: `${cellPrefix}claims/`,
  assignments: `${cellPrefix}assignments/`,
  status: `${cellPrefix}status/`,
  plans: `${cellPrefix}plans/`,
  host: (host: string) => `${cellPrefix}hosts/${host}`,
  hostSettings: (host: string) => `${cellPrefix}settings/${host}`,
  workload: (workload: string) => `${cellPrefix}workloads/${workload}`,
  templatesOf: (workload: string) => `${cellPrefix}templates/${workload}/`,
  template: (workload: string, version: string) => `${cellPrefix}templates/${workload}/${version}`,
  evaluation: (evaluation: string) => `${cellPrefix}evaluations/${evaluation}`,
  claim: (host: string) => `${cellPrefix}claims/${host}`,
  hostAssignments: (host: string) => `${cellPrefix}assignments/${host}/`,
  assignment: (host: string, plan: string) => `${cellPrefix}assignments/${host}/${plan}`,
  hostStatus: (host: string) => `${cellPrefix}status/${host}/`,
  jobStatus: (host: string, job: string) => `${cellPrefix}status/${host}/${job}`,
  lastPlan: (workload: string) => `${cellPrefix}plans/${workload}`,
} as const;

/** What one job of a workload takes of a host: all that placing needs to know of a template. */
export const demandSchema = resourcesSchema.extend({
  /** Ports of the host itself, ascending. */
  hostPorts: z.array(z.int()).default([]),
  /** Jobs of one family may listen on the same host port: an update runs two versions side by side. */
  family: z.string(),
  /** Named volumes: they are on the host where the slot's job was first, so the slot stays there. */
  volumes: z.array(z.string()).default([]),
  /** All its volumes are replaceable: the slot stays where they are while that host is there and takes jobs. */
  canLeaveVolumes: z.boolean().optional(),
});
export type Demand = z.output<typeof demandSchema>;

export const constraintSchema = z.object({
  attribute: z.string(),
  operator: z.enum(['in', 'not_in', 'exists', 'missing', 'distinct']).default('in'),
  /** For `in` and `not_in`. `distinct`: no two jobs of the workload on hosts with the same value (`host` is the host's id). */
  values: z.array(z.string()).default([]),
});
export type Constraint = z.output<typeof constraintSchema>;

/** When a job that ended for good is replaced: the n-th failure within `intervalMs` waits `delayMs` × 2^(n−1), capped. */
export const rescheduleSchema = z.object({
  /** How many failures within an interval are replaced: one more, and the version is given up. Without: all, for ever. */
  attempts: z.int().nonnegative().optional(),
  intervalMs: z
    .int()
    .positive()
    .default(10 * 60_000),
  delayMs: z.int().nonnegative().default(1_000),
  maxDelayMs: z.int().positive().default(60_000),
});

export const workloadSchema = z.object({
  id: z.string(),
  /** The scheduler that plans for it: `service`, `omni`, `ephemeral`, `gang`, or one loaded by configuration. */
  kind: z.string().min(1),
  /** service, gang: how many jobs; ephemeral: how many runs that have not ended; omni: per host, where 0 means none. */
  count: z.int().nonnegative(),
  /** omni: on so many hosts at most; those that have a job keep it. */
  maxHosts: z.int().positive().optional(),
  /** Changes exactly when the template does; jobs of another version are replaced. */
  version: z.string(),
  demand: demandSchema,
  constraints: z.array(constraintSchema).default([]),
  /** Over which attributes' values jobs are spread, the first one first; hosts come last of themselves. */
  spread: z.array(z.string()).default(['zone']),
  /** 0–100. From 80 on a workload may take the place of lower ones (pre-emption), if `mayPreempt`. */
  priority: z.int().min(0).max(100).default(50),
  mayPreempt: z.boolean().default(false),
  /** How a changed version replaces jobs: `stop_first` when two may not run at once (volumes). */
  update: z.enum(['start_first', 'stop_first']).default('start_first'),
  /** How many jobs an update replaces at a time; default max(4, a quarter of the count), 1 where the old stops first. */
  maxParallel: z.int().positive().optional(),
  reschedule: rescheduleSchema.prefault({}),
  /** Never two of a slot at once, not even when its host was cut off: the host stops it before the cell gives it away. */
  singleton: z.boolean().default(false),
});
export type Workload = z.output<typeof workloadSchema>;

/** A workload together with its template, as `workloadChange` takes it: the demand follows from the template. */
export const workloadInputSchema = workloadSchema.omit({ demand: true }).extend({ template: jobTemplateSchema });
export type WorkloadInput = z.input<typeof workloadInputSchema>;

export const hostRecordSchema = z.object({
  id: z.string().regex(/^[a-z0-9]+$/),
  /** Where other hosts and Layer 1 reach the agent's API. */
  address: z.string(),
  /** Of one behind NAT: where it is in its own network. Its address is the tunnel's. */
  localAddress: z.ipv4().optional(),
  apiPort: z.int(),
  capacity: resourcesSchema,
  attributes: z.record(z.string(), z.string()).default({}),
  /** No new jobs are placed here. */
  cordoned: z.boolean().default(false),
  startedAt: z.number(),
  /** The id of the sealing key it reads the cluster's secrets with; hosts of old have none, and read them in clear only. */
  sealingKeyId: z.string().optional(),
  /** Of all it has: two while the key is made anew. Hosts of a version that has the same key for its life do not say. */
  sealingKeyIds: z.array(z.string()).optional(),
  /** Whose authorities it trusts, and issues by. Hosts of a version that has the same ones for its life do not say. */
  authorityRound: z.int().optional(),
  /**
   * Its agent shows a certificate with its role, and knows those of others. `withoutIdentity`: how many of its jobs could
   * reach agents and have none: until they are replaced agents take their key alone. `keyAlone`: how many may ask parts of
   * the platform with no more than their key, which these take until there are none; a host that does not say counts as one.
   */
  mutual: z.object({ withoutIdentity: z.int().nonnegative(), keyAlone: z.int().nonnegative().optional() }).optional(),
  /**
   * Which run of an agent wrote it, and from which one it took the record over: by that an agent knows its own from one of a copy
   * of its machine. Agents of before do not say.
   */
  run: z.object({ id: z.string(), after: z.string().optional() }).optional(),
});
export type HostRecord = z.output<typeof hostRecordSchema>;

/** What operators want of a host. It counts whether the host is there or not. */
export const hostSettingsSchema = z.object({
  /** No new jobs are placed there. Nor are they while it drains, which is another matter. */
  cordoned: z.boolean().default(false),
  /** Its jobs move elsewhere, at most `maxParallel` of a workload at a time; what is left at `deadlineAt` is stopped. */
  drain: z
    .object({
      startedAt: z.number(),
      deadlineAt: z.number().optional(),
      maxParallel: z.int().positive().default(1),
      /** Its end changes nothing of `cordoned`. Drains of versions that cordoned the host along with it do not say so. */
      leavesCordon: z.boolean().optional(),
    })
    .optional(),
  /** Attributes people gave it; they win over the host's own. */
  tags: z.record(z.string(), z.string()).default({}),
});
export type OperatorSettings = z.output<typeof hostSettingsSchema>;

/** What is taken of a host, as sums: as large for one job as for a thousand. */
export const claimSchema = resourcesSchema.extend({
  memoryBytes: z.int().nonnegative(),
  /** The plan that wrote this claim last: a retry after a lost reply recognises its own commit. */
  planId: z.string(),
  jobs: z.int().nonnegative(),
  /** Host ports taken: the family that holds each, and by how many jobs. */
  ports: z.record(z.string(), z.object({ family: z.string(), jobs: z.int().positive() })).default({}),
});
export type Claim = z.output<typeof claimSchema>;

/** One job as its host is told to run it; the template is at `templates/<workload>/<version>`. */
export const assignedJobSchema = z.object({
  /** `<host>-<id>`; host ids contain no dash. */
  id: z.string(),
  /** The slot of the workload, from 0: stable over replacements, so a volume can belong to it. */
  index: z.int().nonnegative(),
  desired: z.enum(['run', 'stop']).default('run'),
  createdAt: z.number(),
});
export type AssignedJob = z.output<typeof assignedJobSchema>;

/** Jobs of one version of one workload that a plan put on a host, with what each of them claims. */
export const assignedGroupSchema = z.object({
  workloadId: z.string(),
  version: z.string(),
  demand: demandSchema,
  singleton: z.boolean().default(false),
  jobs: z.array(assignedJobSchema).min(1),
});
export type AssignedGroup = z.output<typeof assignedGroupSchema>;

export const assignmentSchema = z.object({ planId: z.string(), groups: z.array(assignedGroupSchema) });
export type Assignment = z.output<typeof assignmentSchema>;

/** A job with all its host needs to run it: what an assignment says, and the template it names. */
export type HostJob = Readonly<{
  id: string;
  workloadId: string;
  version: string;
  index: number;
  desired: 'run' | 'stop';
  singleton: boolean;
  createdAt: number;
  template: JobTemplate;
}>;

/**
 * What `plans/<workload>` holds: the last plan that put or stopped jobs of the workload. `homes`, of one with volumes: by slot the
 * host where its job was last, also of slots that it has no more and may have again. A scheduler that knows nothing of homes
 * forgets them: then a slot that comes back is as one that is new.
 */
export const lastPlanSchema = z.object({ planId: z.string(), homes: z.record(z.string(), z.string()).optional() });
export type LastPlan = z.output<typeof lastPlanSchema>;
export type Homes = NonNullable<z.output<typeof lastPlanSchema>['homes']>;

export const jobStates = ['pending', 'starting', 'running', 'stopping', 'done', 'crashed', 'failed', 'lost'] as const;
export type JobState = (typeof jobStates)[number];

export const jobStatusSchema = z.object({
  id: z.string(),
  hostId: z.string(),
  workloadId: z.string(),
  version: z.string(),
  meta: z.record(z.string(), z.string()).default({}),
  /** `running` means healthy, where there is a check. `crashed` may be followed by `starting` again (see restarts). */
  state: z.enum(jobStates),
  /** Whether the host is done with the job for good: it never runs again under this id. */
  isFinal: z.boolean(),
  address: z.string().optional(),
  exitCode: z.int().optional(),
  /** What a person should know: "could not pull …", "killed: out of memory (limit 512 MiB)". */
  error: z.string().optional(),
  restarts: z.int().nonnegative().default(0),
  /** Of a job that was started again: how its run before ended, unless somebody asked for that. */
  lastError: z.string().optional(),
  /** With what code that run ended. A host of a version before does not tell. */
  lastExitCode: z.int().optional(),
  /** When a crashed job is started again. */
  nextStartAt: z.number().optional(),
  createdAt: z.number(),
  startedAt: z.number().optional(),
  /** Of a job that was healthy and is not: since when. */
  unhealthySince: z.number().optional(),
  /** It has a role whose holder goes last. */
  goesLast: z.literal(true).optional(),
  endedAt: z.number().optional(),
});
export type JobStatus = z.output<typeof jobStatusSchema>;
