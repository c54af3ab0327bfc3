/** The controller's HTTP API. `:app` is an app's id or name, `:release` a release's id or `v3`. */
import { booleanFlag } from '@flynn/kit/config';
import { appName, processType, serviceName } from '@flynn/kit/names';
import { attachQuerySchema, execQuerySchema } from '@flynn/host-agent/api';
import { linesQuerySchema } from '@flynn/log-aggregator/api';
import { imageSchema } from '@flynn/scheduler/cell';
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import { cronEntrySchema, scriptsSchema } from './app-json.ts';
import {
  appSchema,
  artifactSchema,
  deploymentSchema,
  drainSchema,
  envSchema,
  formationSchema,
  jobSchema,
  keySchema,
  metaSchema,
  operationSchema,
  processSchema,
  releaseSchema,
  rolloutChangeSchema,
  routeSchema,
} from './model.ts';
import { pageQuery } from './paging.ts';
import { httpChangeSchema, maintenanceSchema, tcpChangeSchema } from './routes/settings.ts';

const appChange = z.object({
  meta: metaSchema.optional(),
  deployTimeoutMs: z.int().min(1_000).max(3_600_000).optional(),
  rollout: rolloutChangeSchema.optional(),
});

export const apps = {
  create: defineRoute({
    method: 'POST',
    path: '/apps',
    access: 'cluster developer',
    body: z.object({ name: appName.optional(), meta: metaSchema.default({}), isSystem: z.boolean().default(false) }),
    response: appSchema,
    summary: 'Create an app with its default route NAME.DOMAIN; without a name one is made up',
  }),
  list: defineRoute({
    method: 'GET',
    path: '/apps',
    access: 'anybody',
    query: pageQuery,
    response: z.array(appSchema),
    summary: 'All apps, by name',
  }),
  get: defineRoute({
    method: 'GET',
    path: '/apps/:app',
    access: 'app viewer',
    response: appSchema,
    summary: 'One app',
  }),
  update: defineRoute({
    method: 'PATCH',
    path: '/apps/:app',
    access: 'app developer',
    body: appChange,
    response: appSchema,
    summary: "Change an app's metadata or limits",
  }),
  remove: defineRoute({
    method: 'DELETE',
    path: '/apps/:app',
    access: 'app admin',
    response: z.object({ routes: z.int(), releases: z.int(), jobs: z.int(), artifacts: z.int().default(0) }),
    summary: 'Delete an app with everything it has; answers once its jobs have stopped',
  }),
} as const;

export const releases = {
  createArtifact: defineRoute({
    method: 'POST',
    path: '/artifacts',
    access: 'developer of some app',
    body: z.object({ type: z.enum(['image', 'slug']), image: imageSchema, meta: metaSchema.default({}) }),
    response: artifactSchema,
    summary: 'Register an immutable image or slug',
  }),
  getArtifact: defineRoute({
    method: 'GET',
    path: '/artifacts/:artifact',
    access: 'developer of some app',
    response: artifactSchema,
    summary: 'One artifact',
  }),
  create: defineRoute({
    method: 'POST',
    path: '/apps/:app/releases',
    access: 'app developer',
    body: z.object({
      /** What is left out is taken over from the app's live release. */
      artifactId: z.string().optional(),
      env: envSchema.optional(),
      processes: z.record(processType, processSchema).optional(),
      scripts: scriptsSchema.optional(),
      cron: z.array(cronEntrySchema).max(100).optional(),
      meta: metaSchema.default({}),
    }),
    response: releaseSchema,
    summary: 'Make a release; it does nothing until deployed',
  }),
  list: defineRoute({
    method: 'GET',
    path: '/apps/:app/releases',
    access: 'app viewer',
    query: pageQuery,
    response: z.array(releaseSchema),
    summary: 'Releases, newest first',
  }),
  get: defineRoute({
    method: 'GET',
    path: '/apps/:app/releases/:release',
    access: 'app viewer',
    response: releaseSchema,
    summary: 'One release',
  }),
  remove: defineRoute({
    method: 'DELETE',
    path: '/apps/:app/releases/:release',
    access: 'app developer',
    response: 'empty',
    summary: 'Delete a release, and its slug if no other has it; the live one is refused',
  }),
} as const;

export const formations = {
  get: defineRoute({
    method: 'GET',
    path: '/apps/:app/formations/:release',
    access: 'app viewer',
    response: formationSchema,
    summary: 'Desired counts of a release',
  }),
  put: defineRoute({
    method: 'PUT',
    path: '/apps/:app/formations/:release',
    access: 'app developer',
    body: z.object({ processes: z.record(z.string(), z.int()) }),
    response: formationSchema,
    summary: 'Scale: types left out stay as they are; an unknown type or a count below zero is refused',
  }),
} as const;

export const deployments = {
  create: defineRoute({
    method: 'POST',
    path: '/apps/:app/deployments',
    access: 'app developer',
    /** `rollout` changes how the app's releases are rolled out for this one deployment. */
    body: z.object({ releaseId: z.string(), rollout: rolloutChangeSchema.optional() }),
    response: deploymentSchema,
    summary: 'Roll out a release; a deployment under way makes it `conflict`',
  }),
  list: defineRoute({
    method: 'GET',
    path: '/apps/:app/deployments',
    access: 'app viewer',
    query: pageQuery,
    response: z.array(deploymentSchema),
    summary: 'Deployments, newest first',
  }),
  get: defineRoute({
    method: 'GET',
    path: '/deployments/:deployment',
    access: 'app viewer',
    response: deploymentSchema,
    summary: 'One deployment',
  }),
  /**
   * Events `deployment` with the Deployment as data, at each change, and `job` with {id, type, releaseId, state: up | down}
   * for each job of either release, in the order they came up and ended; the stream ends after the last.
   */
  events: defineRoute({
    method: 'GET',
    path: '/deployments/:deployment/events',
    access: 'app viewer',
    response: 'events',
    summary: 'A deployment as it goes',
  }),
} as const;

export const jobs = {
  list: defineRoute({
    method: 'GET',
    path: '/apps/:app/jobs',
    access: 'app viewer',
    query: pageQuery.extend({ all: booleanFlag.optional() }),
    response: z.array(jobSchema),
    summary: 'Jobs that are up or wanted; with all=true ended ones too',
  }),
  get: defineRoute({
    method: 'GET',
    path: '/apps/:app/jobs/:job',
    access: 'app viewer',
    response: jobSchema,
    summary: 'One job, by job or workload id',
  }),
  run: defineRoute({
    method: 'POST',
    path: '/apps/:app/jobs',
    access: 'app developer',
    body: z.object({
      releaseId: z.string().optional(),
      command: z.array(z.string()).min(1),
      env: envSchema.default({}),
      tty: z.boolean().default(false),
      stdin: z.boolean().default(false),
      memoryBytes: z.int().positive().optional(),
      maxRuntimeMs: z.int().positive().optional(),
    }),
    response: jobSchema,
    summary: "Run a one-off job in a release's image and env",
  }),
  build: defineRoute({
    method: 'POST',
    path: '/apps/:app/builds',
    body: z.object({
      operationId: z.string(),
      sourceDigest: z.string(),
      commit: z.string().default(''),
      /** What the source looks like; the app's BUILDPACK_URL decides otherwise. */
      kind: z.enum(['slug', 'dockerfile']).default('slug'),
    }),
    response: jobSchema,
    summary: 'Run the slug builder on a source; asked again for the same operation it answers the same job',
  }),
  /** Frames of @flynn/kit/frames, from the job's host. */
  attach: defineRoute({
    method: 'GET',
    path: '/apps/:app/jobs/:job/attach',
    access: 'app developer',
    query: attachQuerySchema,
    response: 'upgrade',
    summary: "Attach to a job's streams",
  }),
  /** Frames of @flynn/kit/frames, from the job's host. */
  exec: defineRoute({
    method: 'GET',
    path: '/apps/:app/exec',
    access: 'app developer',
    query: execQuerySchema.extend({ job: z.string().optional(), type: z.string().optional() }),
    response: 'upgrade',
    summary: 'Run a program beside a running job: the one named, else one of the type on the host with the most room',
  }),
  stop: defineRoute({
    method: 'DELETE',
    path: '/apps/:app/jobs/:job',
    access: 'app developer',
    response: 'empty',
    summary: 'Stop a job; one of a formation is started again',
  }),
} as const;

export const routing = {
  create: defineRoute({
    method: 'POST',
    path: '/apps/:app/routes',
    access: 'app developer',
    body: z.strictObject({
      type: z.enum(['http', 'tcp']).default('http'),
      domain: z.string().optional(),
      path: z.string().optional(),
      port: z.int().optional(),
      service: serviceName.optional(),
      http: httpChangeSchema.optional(),
      tcp: tcpChangeSchema.optional(),
    }),
    response: routeSchema,
    summary: 'Add a route; the service is APP-web unless named; a tcp port is found unless given',
  }),
  /** `:route` is its id, or where it is: `shop.example.com/blog`, `tcp:3000`. */
  get: defineRoute({
    method: 'GET',
    path: '/apps/:app/routes/:route',
    access: 'app viewer',
    response: routeSchema,
    summary: 'One route',
  }),
  update: defineRoute({
    method: 'PATCH',
    path: '/apps/:app/routes/:route',
    access: 'app developer',
    body: z.strictObject({
      service: serviceName.optional(),
      http: httpChangeSchema.optional(),
      tcp: tcpChangeSchema.optional(),
      /** As If-Match: `conflict` if somebody changed it since. */
      revision: z.int().optional(),
    }),
    response: routeSchema,
    summary: 'Change how a route answers; what is left out stays, null takes a setting back',
  }),
  reach: defineRoute({
    method: 'POST',
    path: '/apps/:app/route-reach',
    access: 'app viewer',
    body: z.strictObject({
      /** As the answer to the change had it; without a revision: it was removed. */
      routes: z
        .array(z.strictObject({ id: z.string(), revision: z.int().optional() }))
        .min(1)
        .max(1_000),
      waitMs: z.int().min(0).max(20_000).default(5_000),
    }),
    /** Addresses of the routers that do not have it yet: empty once every request is answered by it. */
    response: z.object({ missing: z.array(z.string()) }),
    summary: 'Wait until every router has a change of routes, and tell which have not',
  }),
  beginMaintenance: defineRoute({
    method: 'PUT',
    path: '/apps/:app/maintenance',
    access: 'app developer',
    body: maintenanceSchema,
    response: z.array(routeSchema),
    summary: "Answer all requests to an app's http routes with 503 and the maintenance page",
  }),
  endMaintenance: defineRoute({
    method: 'DELETE',
    path: '/apps/:app/maintenance',
    access: 'app developer',
    response: z.array(routeSchema),
    summary: 'Let requests through to the app again',
  }),
  list: defineRoute({
    method: 'GET',
    path: '/apps/:app/routes',
    access: 'app viewer',
    query: pageQuery,
    response: z.array(routeSchema),
    summary: "An app's routes",
  }),
  remove: defineRoute({
    method: 'DELETE',
    path: '/apps/:app/routes/:route',
    access: 'app developer',
    response: 'empty',
    summary: 'Remove a route',
  }),
  /** Events `set` (a Route) for every route, `current`, then `set` and `remove` ({id}); the event's id is the revision to resume after. Resumed, `current` comes first. */
  events: defineRoute({
    method: 'GET',
    path: '/routes/events',
    response: 'events',
    summary: 'All routes, then changes',
  }),
} as const;

export const keys = {
  create: defineRoute({
    method: 'POST',
    path: '/keys',
    access: 'anybody',
    body: z.object({ publicKey: z.string() }),
    response: keySchema,
    summary: 'Let an SSH public key push; the same key again is fine',
  }),
  list: defineRoute({
    method: 'GET',
    path: '/keys',
    access: 'anybody',
    query: pageQuery,
    response: z.array(keySchema),
    summary: 'SSH keys',
  }),
  get: defineRoute({
    method: 'GET',
    path: '/keys/:fingerprint',
    response: keySchema,
    summary: 'One key; the fingerprint url-encoded',
  }),
  remove: defineRoute({
    method: 'DELETE',
    path: '/keys/:fingerprint',
    access: 'anybody',
    response: 'empty',
    summary: 'Take a key back',
  }),
} as const;

/** What is said of a push goes for each: what is left out does not matter. */
const newOperationSchema = operationSchema
  .pick({ dependsOn: true, mayFail: true, input: true, target: true, singletonId: true })
  .extend({
    /** Looks at repositories the platform makes itself. */
    kind: operationSchema.shape.kind.exclude(['poll']),
    /** To be able to ask twice; else one is made. */
    id: z
      .string()
      .regex(/^[\w.:@+-]{1,200}$/)
      .optional(),
    expiresAt: z.iso.datetime().optional(),
  });

const operationListQuery = z.object({
  ...pageQuery.shape,
  /** Ended ones too, default: yes. */
  ended: booleanFlag.optional(),
});

/** Of the runner, as it registered with. */
const runnerToken = z.string().default('');

const attemptSchema = z.object({ id: z.string(), attempt: z.int() });
const resultSchema = z.object({
  id: z.string(),
  state: z.enum(['complete', 'failed', 'cancelled']),
  error: z.string().optional(),
  output: z.record(z.string(), z.string()).default({}),
});
export const drains = {
  create: defineRoute({
    method: 'POST',
    path: '/drains',
    access: 'anybody',
    body: z.object({
      url: z.string(),
      app: z.string().optional(),
      /** Whom to trust behind a TLS address, as PEM; else whom everybody trusts. */
      ca: z.string().optional(),
    }),
    response: drainSchema,
    summary: 'Send the lines of an app, or of all apps, elsewhere as well, from now on',
  }),
  list: defineRoute({
    method: 'GET',
    path: '/drains',
    access: 'anybody',
    query: z.object({ app: z.string().optional() }),
    response: z.array(drainSchema),
    summary: 'Drains and how far they are; with app= those that get its lines',
  }),
  remove: defineRoute({
    method: 'DELETE',
    path: '/drains/:drain',
    access: 'anybody',
    response: 'empty',
    summary: 'End a drain',
  }),
} as const;

export const operations = {
  /** Idempotent by pushId. Answers the chain build, release, deploy. */
  push: defineRoute({
    method: 'POST',
    path: '/apps/:app/pushes',
    access: 'app developer',
    body: z.object({ pushId: z.string(), sourceDigest: z.string(), commit: z.string(), branch: z.string() }),
    response: z.array(operationSchema),
    summary: 'Build, release and deploy a source archive of the blob store',
  }),
  get: defineRoute({
    method: 'GET',
    path: '/operations/:operation',
    access: 'app viewer',
    response: operationSchema,
    summary: 'One operation',
  }),
  /** Idempotent by the operations' ids. */
  create: defineRoute({
    method: 'POST',
    path: '/apps/:app/operations',
    access: 'app developer',
    body: z.object({ operations: z.array(newOperationSchema).min(1) }),
    response: z.array(operationSchema),
    summary: 'Queue operations, all of them or none',
  }),
  list: defineRoute({
    method: 'GET',
    path: '/apps/:app/operations',
    access: 'app viewer',
    query: operationListQuery,
    response: z.array(operationSchema),
    summary: "An app's operations, newest first",
  }),
  listAll: defineRoute({
    method: 'GET',
    path: '/operations',
    access: 'cluster viewer',
    query: operationListQuery,
    response: z.array(operationSchema),
    summary: 'Operations of all apps: what is under way first, then what ended last',
  }),
  update: defineRoute({
    method: 'PATCH',
    path: '/operations/:operation',
    access: 'app developer',
    body: z.object({ expiresAt: z.iso.datetime().nullable() }),
    response: operationSchema,
    summary: 'Move the time by which it has to run, or take it away; one that runs or has ended stays as it is',
  }),
  cancel: defineRoute({
    method: 'POST',
    path: '/operations/:operation/cancel',
    access: 'app developer',
    body: z.object({ force: z.boolean().default(false) }).default({ force: false }),
    response: operationSchema,
    summary: 'Cancel; one that runs is told to stop, with force it ends at once; one that ended stays as it is',
  }),
  /**
   * Events `line` ({text}) from the start or after Last-Event-ID, then `end` (the Operation) once it ended; with
   * follow=false `end` comes after what there is.
   */
  log: defineRoute({
    method: 'GET',
    path: '/operations/:operation/log',
    access: 'app viewer',
    query: z.object({ follow: booleanFlag.optional() }),
    response: 'events',
    summary: "An operation's log",
  }),

  /**
   * For runners, as all below. Waits up to 25 s for work; none means: ask again. What it answers is `waiting` until it is
   * acknowledged: after 10 s it goes to somebody else.
   */
  claim: defineRoute({
    method: 'POST',
    path: '/runners/:runner/claim',
    body: z.object({ token: runnerToken, slots: z.int().min(1).max(64).default(1) }).default({ token: '', slots: 1 }),
    response: z.object({ operations: z.array(operationSchema) }),
    summary: 'Take the next operations, as many as there are slots',
  }),
  /**
   * What became of operations, several at a time. `begun` and `declined` name the attempt that was claimed: one that was
   * taken back meanwhile is refused, and the runner lets go of it. From `begun` to `ended` it is held by heartbeats.
   * Idempotent: what was reported before is not refused.
   */
  report: defineRoute({
    method: 'POST',
    path: '/runners/:runner/report',
    body: z.object({
      token: runnerToken,
      begun: z.array(attemptSchema).max(64).default([]),
      declined: z.array(attemptSchema).max(64).default([]),
      ended: z.array(resultSchema).max(64).default([]),
    }),
    response: z.object({
      refused: z.array(z.object({ id: z.string(), code: z.enum(['conflict', 'not_found']), message: z.string() })),
    }),
    summary: 'Operations begin, are declined, or have ended; dependents start, or are cancelled',
  }),
  /**
   * Every 5 s at most; a runner not heard of for 30 s loses its operations, which fail with the reason. `cancelled` tells
   * it to stop. Waits so long for that to happen.
   */
  heartbeat: defineRoute({
    method: 'POST',
    path: '/runners/:runner/operations/:operation/heartbeat',
    body: z
      .object({ token: runnerToken, waitMs: z.int().min(0).max(20_000).default(0) })
      .default({ token: '', waitMs: 0 }),
    response: z.object({ cancelled: z.boolean() }),
    summary: 'Still at it',
  }),
  /** `offset` is the number of lines written before: lines already there are not added twice. */
  append: defineRoute({
    method: 'POST',
    path: '/runners/:runner/operations/:operation/lines',
    body: z.object({ token: runnerToken, offset: z.int().nonnegative(), lines: z.array(z.string()) }),
    response: 'empty',
    summary: 'Add lines to the log',
  }),
} as const;

export const platform = {
  /** ndjson of the log aggregator's Line; empty lines in between mean nothing. */
  log: defineRoute({
    method: 'GET',
    path: '/apps/:app/log',
    access: 'app viewer',
    query: linesQuerySchema,
    response: 'stream',
    summary: "An app's log",
  }),
  /** Every change to what the controller keeps; resume with Last-Event-ID. `?app=` narrows it. The current state comes first unless resumed: `current` marks its end. */
  events: defineRoute({
    method: 'GET',
    path: '/events',
    access: 'anybody',
    query: z.object({ app: z.string().optional(), types: z.string().optional() }),
    response: 'events',
    summary: 'Changes as they happen',
  }),
  cluster: defineRoute({
    method: 'GET',
    path: '/cluster',
    access: 'anybody',
    response: z.object({
      name: z.string(),
      domain: z.string(),
      gitUrl: z.string(),
      httpPort: z.int(),
      version: z.string(),
      /** The image new slugs are stacked on; an artifact may also say `slug-runner` as its base. */
      slugRunnerImage: z.string().optional(),
    }),
    summary: 'What a client needs to know of the cluster',
  }),
} as const;
