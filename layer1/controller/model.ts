/** The controller's resources as people and other services see them: Flynn's shapes. Times are ISO 8601. */
import { appName, processType, serviceName } from '@flynn/kit/names';
import { jobStates } from '@flynn/scheduler/cell';
import { imageSchema } from '@flynn/scheduler/job-template';
import { z } from 'zod';
import { appJsonSchema, cronEntrySchema, scriptsSchema } from './apps/app-json.ts';
import { rolloutSchema } from './deployments/rollout-settings.ts';
import { envSchema } from './processes/env.ts';
import { processSchema } from './processes/process.ts';
import { httpSettingsSchema, tcpSettingsSchema } from './routes/settings.ts';

const id = z.string();
const time = z.string();
export const metaSchema = z.record(z.string(), z.string());

/** The app is a datastore: what its members are, and the resource that leads other apps to it and goes with it. */
export const datastoreSchema = z.object({ appliance: z.string(), resourceId: id });

export const appSchema = z.object({
  id,
  name: appName,
  meta: metaSchema,
  /** Part of the platform itself: shown by `flynn apps --all`, never deleted. */
  isSystem: z.boolean(),
  /** The release that is live, once there is one. */
  releaseId: id.optional(),
  /** A deployment of which nothing more comes up for this long fails and is rolled back. */
  deployTimeoutMs: z.int().positive(),
  rollout: rolloutSchema.optional(),
  /** Of a datastore: which kind it is, and of which resource it is what was made. */
  datastore: datastoreSchema.optional(),
  createdAt: time,
  updatedAt: time,
});
export type App = z.output<typeof appSchema>;

export const artifactSchema = z.object({
  id,
  type: z.enum(['image', 'slug']),
  image: imageSchema,
  meta: metaSchema,
  createdAt: time,
});
export type Artifact = z.output<typeof artifactSchema>;

export const releaseSchema = z.object({
  id,
  appId: id,
  /** v1, v2 … of the app. */
  version: z.int().positive(),
  artifactId: id.optional(),
  /** What programs are given: references have come to what they refer to. */
  env: envSchema,
  /** Variables that refer to others, as they were written: `postgres://${USER}@db`. */
  references: envSchema.optional(),
  processes: z.record(processType, processSchema),
  /** Services of other apps that all its jobs may reach: of the datastores it was given. */
  links: z.array(serviceName).max(100).optional(),
  /** What is run once around its deployment. */
  scripts: scriptsSchema.optional(),
  /** What is run on a schedule while it is live. */
  cron: z.array(cronEntrySchema).max(100).optional(),
  meta: metaSchema,
  createdAt: time,
});
export type Release = z.output<typeof releaseSchema>;

export const formationSchema = z.object({
  appId: id,
  releaseId: id,
  processes: z.record(processType, z.int().nonnegative()),
  createdAt: time,
  updatedAt: time,
});
export type Formation = z.output<typeof formationSchema>;

export const jobSchema = z.object({
  /** The host's job id. Of a workload's jobs without a place the first has the workload's id, the others `<that>.2` and so on. */
  id,
  workloadId: id,
  appId: id,
  releaseId: id,
  /** `run` for one-off jobs, `build` for slug builds. */
  type: z.string(),
  state: z.enum(jobStates),
  hostId: z.string().optional(),
  address: z.string().optional(),
  exitCode: z.int().optional(),
  error: z.string().optional(),
  restarts: z.int(),
  /** Of one that was started again: how it ended before, unless somebody asked for that. */
  lastError: z.string().optional(),
  /** Of one that ended and is started again: when. */
  nextStartAt: time.optional(),
  createdAt: time,
  startedAt: time.optional(),
  endedAt: time.optional(),
});
export type Job = z.output<typeof jobSchema>;

export const deploymentSchema = z.object({
  id,
  appId: id,
  oldReleaseId: id.optional(),
  newReleaseId: id,
  /**
   * `releasing`: what the release wants run before it takes over is running. `canary`: its canaries are up, it waits for
   * promote or abort, or until it was healthy for the rollout's `autoPromoteMs`. `finishing`: the new release is live, jobs of
   * the old one are ending. `rolling_back`: it failed, and the old release gets its jobs back before the new ones go.
   */
  state: z.enum([
    'pending',
    'releasing',
    'running',
    'canary',
    'paused',
    'finishing',
    'rolling_back',
    'complete',
    'failed',
  ]),
  rollout: rolloutSchema.optional(),
  /** Of each process type, how many jobs of either release are up. */
  progress: z.record(z.string(), z.object({ wanted: z.int(), up: z.int(), old: z.int() })),
  /** The job of `releasing`, whose output tells how that goes. */
  releaseJobId: id.optional(),
  /** The job of `postdeploy`, once the release is live: until it ended the deployment is `finishing`. */
  postdeployJobId: id.optional(),
  /** What went wrong without undoing it: the release is live, but its `postdeploy` failed. */
  warning: z.string().optional(),
  /** Why it failed: what happened, for people. */
  error: z.string().optional(),
  /** The job whose end failed it, with its last lines. */
  failedJob: z.object({ id, type: z.string(), exitCode: z.int().optional(), lines: z.array(z.string()) }).optional(),
  createdAt: time,
  endedAt: time.optional(),
});
export type Deployment = z.output<typeof deploymentSchema>;

export const routeSchema = z.object({
  id,
  appId: id,
  type: z.enum(['http', 'tcp']),
  /** http: the host name, lower case; `*.example.com` matches one label, `*` whatever no other route has. */
  domain: z.string().optional(),
  /** http: the path prefix; the longest wins. */
  path: z.string().startsWith('/').default('/'),
  /** tcp: the port on every host. */
  port: z.int().optional(),
  /** The service in discovery that answers. */
  service: serviceName,
  http: httpSettingsSchema.prefault({}),
  tcp: tcpSettingsSchema.prefault({}),
  /** http: the release that a deployment takes away at this time: its weight is the most it gets, however few jobs it has. */
  leavingReleaseId: id.optional(),
  createdAt: time,
  /** Of this state: who changes it may ask that nobody else has changed it since. */
  revision: z.int().optional(),
});
export type Route = z.output<typeof routeSchema>;

export const keySchema = z.object({
  /** SHA256:… as ssh-keygen -l prints it. */
  fingerprint: z.string(),
  /** `type base64`, without the comment. */
  publicKey: z.string(),
  comment: z.string(),
  /** Whose it is: what is pushed with it is their act. Without one, the cluster's. */
  userId: id.optional(),
  /** The owner's name, where keys are listed. */
  user: z.string().optional(),
  createdAt: time,
});
export type Key = z.output<typeof keySchema>;

/** Lines that never arrive: how many lately, and when the last of them was missed. */
const missedSchema = z.object({ count: z.int(), at: time, why: z.string() });

export const drainSchema = z.object({
  id,
  /** Else it gets the lines of all apps. */
  appId: id.optional(),
  /** Without its secrets. */
  url: z.string(),
  createdAt: time,
  /** Lines since it was added; left out while the log aggregator cannot be asked. */
  progress: z
    .object({
      sent: z.int(),
      /** What the other side refused for good. */
      failed: z.int(),
      /** What was deleted to make room before it could be sent, and what the disk did not keep. */
      skipped: z.int(),
      waiting: z.int(),
      /** Why nothing goes out, while nothing does. */
      error: z.string().optional(),
      /** The last of `failed`; and of `skipped`, of what was deleted and of what the disk did not keep. Told for a day. */
      gaveUp: missedSchema.optional(),
      lost: missedSchema.optional(),
      damaged: missedSchema.optional(),
    })
    .optional(),
});
export type Drain = z.output<typeof drainSchema>;

export const operationKinds = ['build', 'release', 'deploy', 'poll'] as const;
export const operationStates = ['queued', 'waiting', 'running', 'complete', 'failed', 'cancelled'] as const;
export const labelsSchema = z.record(z.string().min(1), z.string());

/** Which runners may have it: that one, or those with all of these labels. Without either any may. */
export const targetSchema = z.object({ runnerId: id.optional(), labels: labelsSchema.optional() });

/** Of a build that was under way: who carried it out is gone, and it was begun again, or is to be. */
export const lossSchema = z.object({
  at: time,
  /** Who saw to it. */
  runnerId: z.string().optional(),
  /** What it was built on, or was to be, where it is that host that was lost. */
  hostId: z.string().optional(),
  /** Whether it had begun there: then it may have been the build that brought its host down. */
  hasRun: z.boolean(),
  /** The host is not lost: it was drained, and what ran there longer than the deadline was stopped. */
  isDrained: z.boolean().optional(),
});
export type Loss = z.output<typeof lossSchema>;

/** Of one that its runner gave back, as it was stopped: what the next one has to know. */
export const handoverSchema = z.object({
  at: time,
  runnerId: z.string(),
  attempt: z.int(),
  /** Of a build whose job runs on: so many lines of either output are in the log. */
  told: z.object({ stdout: z.int().nonnegative(), stderr: z.int().nonnegative() }).optional(),
});
export type Handover = z.output<typeof handoverSchema>;

export const operationSchema = z.object({
  id,
  appId: id,
  kind: z.enum(operationKinds),
  /** Runs once those have ended; cancelled when one of them does not complete, unless `mayFail` names it. */
  dependsOn: z.array(id).optional(),
  mayFail: z.array(id).optional(),
  /** The push they belong to: ids of the chain share it. */
  pushId: id,
  input: z.object({
    sourceDigest: z.string().optional(),
    commit: z.string().optional(),
    branch: z.string().optional(),
    /** What of the repository the source is, and the Dockerfile in it, where the app says: see builds/place.ts. */
    folder: z.string().optional(),
    dockerfile: z.string().optional(),
    /** Of a build that is none: an image in a registry, to be fetched once. */
    imageRef: z.string().max(1_000).optional(),
    /** Of a poll: what it looks at. */
    url: z.string().optional(),
    /** The addresses of the url's host that were found to be outside, with commas between them: it goes nowhere else. */
    addresses: z.string().optional(),
    /** Of a release that follows no build: the blob that says what it is made of. */
    resultDigest: z.string().optional(),
  }),
  target: targetSchema.optional(),
  /** Of an app's queued operations with the same one only the newest stays, in the place of the oldest. */
  singletonId: id.optional(),
  /** `waiting`: given to a runner that has not said yet that it begins. */
  state: z.enum(operationStates),
  /** What it waits for, for people; only while it is queued or waiting. */
  waitsFor: z.string().optional(),
  runnerId: z.string().optional(),
  /** How often it was given to a runner. */
  attempt: z.int().optional(),
  /** Asked for while it runs: it ends when its runner says so. */
  isCancelRequested: z.boolean().optional(),
  /** Of a build: after each of these it was begun again. */
  losses: z.array(lossSchema).optional(),
  /** The last time that a runner gave it back, unless it was lost since; and how often that was. */
  handover: handoverSchema.optional(),
  handovers: z.int().optional(),
  error: z.string().optional(),
  /** What the operation produced, for the next in the chain: build {resultDigest}; release {releaseId}; deploy {deploymentId}. */
  output: z.record(z.string(), z.string()).default({}),
  createdAt: time,
  /** When it does not run by then it fails. */
  expiresAt: time.optional(),
  assignedAt: time.optional(),
  startedAt: time.optional(),
  endedAt: time.optional(),
});
export type Operation = z.output<typeof operationSchema>;

export const runnerSchema = z.object({
  id,
  labels: labelsSchema,
  version: z.string(),
  /** How many operations it takes at a time. */
  slots: z.int(),
  /** It takes only what names it. */
  isByIdOnly: z.boolean(),
  /** Part of the platform: it showed the cluster's runner token. */
  isPlatform: z.boolean(),
  state: z.enum(['pending', 'adopted', 'rejected']),
  /** Ids of the operations it holds. */
  operations: z.array(id),
  createdAt: time,
  /** To some 15 seconds. */
  seenAt: time,
});
export type Runner = z.output<typeof runnerSchema>;

/**
 * What a build leaves in the blob store under the name `builds/<operation id>`, as JSON; and what an image that was pushed is
 * known by: the digest of this.
 */
export const buildResultSchema = z.object({
  /** Layers, lowest first: of the image, or to stack on the slug runner's. */
  layers: z.array(z.object({ digest: z.string(), sizeBytes: z.int() })),
  /** Of an image, and not of a slug: its configuration, and what that says of how it is run. */
  image: z
    .object({
      config: z.object({ digest: z.string(), sizeBytes: z.int() }),
      /** One that is the app's: a base's shell or interpreter is not, where a Procfile names types. */
      hasCommand: z.boolean(),
      port: z.int().min(1).max(65_535).optional(),
    })
    .optional(),
  sizeBytes: z.int(),
  /** Process types and their shell command lines. An image with a command of its own has `web` without a line here. */
  processTypes: z.record(processType, z.string()),
  buildpack: z.string(),
  /** What the source's app.json says, if there is one. */
  appJson: appJsonSchema.optional(),
  meta: metaSchema.default({}),
});
export type BuildResult = z.output<typeof buildResultSchema>;

/** One thing that changed, as the events stream tells it; `id` of the stream's event is the revision to resume after. */
export type ControllerEvent = {
  event: 'app' | 'release' | 'formation' | 'deployment' | 'job' | 'route' | 'key' | 'operation' | 'current';
  data: { type: 'put' | 'delete'; id: string; appId?: string; object?: unknown };
};
