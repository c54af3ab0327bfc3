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
import { headerName, headerValue } from '@flynn/kit/names';
import { z } from 'zod';

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

export const resourcesSchema = z.object({
  memoryBytes: z.int().positive(),
  /** 1000 is one core. */
  cpuMillis: z.int().nonnegative(),
});
export type Resources = z.output<typeof resourcesSchema>;

export const healthCheckSchema = z.object({
  type: z.enum(['tcp', 'http']),
  /** Where it looks; without one, at the port that it is the check of. */
  port: z.int().min(1).max(65_535).optional(),
  path: z.string().startsWith('/').default('/'),
  /** HTTP: what the request says as `Host`; without one, the job's address and port. */
  host: z
    .string()
    .regex(/^[\w.:[\]-]{1,255}$/, 'it is to be a host name, like "shop.example.com"')
    .optional(),
  /** HTTP: what else the request says. */
  headers: z.record(headerName, headerValue).optional(),
  /** HTTP: the status that counts as healthy. */
  status: z.int().optional(),
  /** HTTP, without `status`: any below this counts as healthy; without either, any below 500. */
  statusBelow: z.int().min(200).max(600).optional(),
  intervalMs: z.int().positive().default(2_000),
  timeoutMs: z.int().positive().default(2_000),
  /** Consecutive answers that change the verdict. */
  threshold: z.int().positive().default(2),
  /** Not healthy this long after its start: the job is stopped and counts as crashed. */
  startTimeoutMs: z.int().positive().default(60_000),
  /**
   * Not healthy this long without a break, having been so: the job is stopped and counts as crashed. 0: never. Default: a
   * minute, filled in by the host, as a new field with a default here would make every template another one.
   */
  restartAfterMs: z.int().nonnegative().optional(),
});
export type HealthCheck = z.output<typeof healthCheckSchema>;

/** How a role is looked at: nothing waits for it, and nothing is stopped or started again for it. */
export const roleCheckSchema = healthCheckSchema.omit({ startTimeoutMs: true, restartAfterMs: true });
export type RoleCheck = z.output<typeof roleCheckSchema>;

/**
 * A further name under which a job is announced at a port, only while the role's check passes: which of several is the primary.
 * It says nothing of whether the job is well.
 */
export const roleSchema = z.object({ name: z.string(), check: roleCheckSchema });

export const portSchema = z.object({
  /** The port the process listens on; the first port's number is also PORT. */
  port: z.int().min(1).max(65_535),
  protocol: z.enum(['tcp', 'udp']).default('tcp'),
  /** Registers the job in discovery under this name once it is healthy. */
  service: z.object({ name: z.string(), check: healthCheckSchema.optional() }).optional(),
  /** Without a default: templates of before are what they were, to the byte. */
  roles: z.array(roleSchema).optional(),
});
export type Port = z.output<typeof portSchema>;

/** A role is let go by its name: under a second thing of the same name a job would stay announced, or be withdrawn for it. */
export function checkRoleNames(ports: readonly Pick<Port, 'service' | 'roles'>[], context: z.RefinementCtx): void {
  const names = new Set(ports.flatMap(({ service }) => service?.name ?? []));
  for (const [index, { roles = [] }] of ports.entries()) {
    for (const [at, { name }] of roles.entries()) {
      if (names.has(name)) {
        const message = `"${name}" is the name of a service or of another role of the same job: give each its own`;
        context.addIssue({ code: 'custom', path: [index, 'roles', at, 'name'], message });
      }
      names.add(name);
    }
  }
}

const blobSchema = z.object({
  digest: z.string().regex(/^sha256:[0-9a-f]{64}$/),
  sizeBytes: z.int().nonnegative(),
});

/** Where a job's root file system comes from. */
export const imageSchema = z.union([
  /** An image the host already has or can pull, by name. */
  z.object({ name: z.string().min(1) }),
  /** An image by name with layers (zstd or gzip tar blobs of the blob store, unpacked at `/`) stacked on it, lowest first. */
  z.object({
    base: z.string().min(1),
    layers: z.array(blobSchema),
  }),
  /**
   * A whole image: its configuration, which names the plain tar files of its layers, and these (plain, zstd or gzip), lowest
   * first. All blobs of the blob store.
   */
  z.object({ config: blobSchema, layers: z.array(blobSchema) }),
]);
export type Image = z.output<typeof imageSchema>;

/** What a job may have that does not say: processes and threads, open files of each process. */
export const defaultPids = 2_048;
export const defaultFiles = 10_000;
/** What it may write outside its volumes that does not say, on a disk four times as large at least: else a quarter of that. */
export const defaultTempDiskBytes = 10 * 1024 ** 3;

/** Keys of the store that jobs share, and nobody else has: see host-agent/keyspaces. */
export const keyspaceSchema = z.object({
  name: z.string().regex(/^[a-z0-9-]{1,63}$/, 'lower-case letters, digits and dashes, at most 63'),
  /** Of the password that a job shows to be let in: it has that from elsewhere. */
  keyDigest: z.string().regex(/^sha256:[0-9a-f]{64}$/),
});
export type Keyspace = z.output<typeof keyspaceSchema>;

export const jobTemplateSchema = z.object({
  image: imageSchema,
  entrypoint: z.array(z.string()).optional(),
  command: z.array(z.string()).optional(),
  env: z.record(z.string(), z.string()).default({}),
  /** Labels of the container and attributes in discovery: app, release, type … Layer 0 gives them no meaning. */
  meta: z.record(z.string(), z.string()).default({}),
  ports: z.array(portSchema).superRefine(checkRoleNames).default([]),
  /** What is set aside for the job on its host: the unit of packing. */
  resources: resourcesSchema,
  /** What it may use: memory is a hard limit, cpu its weight under contention. Default: what is set aside. */
  limits: resourcesSchema.optional(),
  pidsLimit: z.int().positive().default(defaultPids),
  filesLimit: z.int().positive().default(defaultFiles),
  /**
   * What it may write outside its volumes; beyond it the job is stopped, and begins anew without what it wrote. Default:
   * 10 GiB, a quarter of the host's disk where that is less, filled in by the host.
   */
  tempDiskBytes: z.int().positive().optional(),
  /** Size of /dev/shm. Default: the engine's, 64 MiB. */
  shmBytes: z.int().positive().optional(),
  volumes: z
    .array(
      z.object({
        name: z.string(),
        path: z.string().startsWith('/'),
        isReadOnly: z.boolean().optional(),
        /** One can do without what is in it: when its host is lost or drained the job goes on elsewhere, with an empty one. */
        isReplaceable: z.boolean().optional(),
        /** Several jobs may have it at once, each host has one of its own: a cache of whole files. It keeps nobody anywhere. */
        isShared: z.boolean().optional(),
      }),
    )
    .default([]),
  /** Runs in the host's network: its ports are the host's ports. */
  hostNetwork: z.boolean().default(false),
  /** Jobs of one group reach each other at the ports they announce. Default: the workload's id. */
  group: z.string().min(1).optional(),
  /** Services of other groups it may reach as well, by their names in discovery: at the announced ports, nowhere else. */
  links: z.array(z.string().min(1)).default([]),
  /** Parts of the platform it may reach: discovery's HTTP API, host agents' APIs, etcd, every announced service. */
  access: z.array(z.enum(['discovery', 'agents', 'store', 'services'])).default([]),
  /** May read and write its keys, at a door of its host: FLYNN_KEYSPACE_URL. One in the host's network is not let in. */
  keyspace: keyspaceSchema.optional(),
  /** Of the platform's own: the app as which its host gives it a certificate, in FLYNN_IDENTITY_DIR. */
  identity: z
    .string()
    .regex(/^[a-z0-9][a-z0-9-]*$/)
    .optional(),
  /** It shows that wherever it can, for those too whose requests it passes on: nobody has to take its key alone. */
  isAlwaysIdentified: z.boolean().optional(),
  tty: z.boolean().default(false),
  /** Keeps stdin open for an attached client; the job ends when that client is gone if `tty`. */
  stdin: z.boolean().default(false),
  user: z.string().optional(),
  workingDirectory: z.string().optional(),
  /** TERM, this long, then KILL. */
  stopTimeoutMs: z.int().positive().default(30_000),
  /** How long requests in flight may go on after the job left discovery, before TERM. */
  drainMs: z.int().nonnegative().default(0),
  /** A service job that ends is started again with back-off; an ephemeral one never. */
  restart: z.enum(['always', 'never']).default('always'),
  /** Ends a job of its own accord after this long: TERM, then KILL; it counts as failed. */
  maxRuntimeMs: z.int().positive().optional(),
});
export type JobTemplate = z.output<typeof jobTemplateSchema>;

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
  /** When a crashed job is started again. */
  nextStartAt: z.number().optional(),
  createdAt: z.number(),
  startedAt: z.number().optional(),
  /** Of a job that was healthy and is not: since when. */
  unhealthySince: z.number().optional(),
  endedAt: z.number().optional(),
});
export type JobStatus = z.output<typeof jobStatusSchema>;
