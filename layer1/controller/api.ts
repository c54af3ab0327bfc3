/** The controller's HTTP API. `:app` is an app's id or name, `:release` a release's id or `v3`. */
import { booleanFlag } from '@flynn/kit/config';
import { appName, processType, serviceName } from '@flynn/kit/names';
import { attachQuerySchema } from '@flynn/host-agent/api';
import { linesQuerySchema } from '@flynn/log-aggregator/api';
import { imageSchema } from '@flynn/scheduler/cell';
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import {
  appSchema,
  artifactSchema,
  deploymentSchema,
  envSchema,
  formationSchema,
  jobSchema,
  keySchema,
  metaSchema,
  operationSchema,
  processSchema,
  releaseSchema,
  routeSchema,
} from './model.ts';
import { pageQuery } from './paging.ts';

const appChange = z.object({
  meta: metaSchema.optional(),
  deployTimeoutMs: z.int().min(1_000).max(3_600_000).optional(),
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
    response: z.object({ routes: z.int(), releases: z.int(), jobs: z.int() }),
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
    body: z.object({ releaseId: z.string() }),
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
  /** Events `deployment` with the Deployment as data, at each change; ends after the last. */
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
    body: z.object({ operationId: z.string(), sourceDigest: z.string(), commit: z.string().default('') }),
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
    body: z.object({
      type: z.enum(['http', 'tcp']).default('http'),
      domain: z.string().optional(),
      path: z.string().optional(),
      port: z.int().optional(),
      service: serviceName.optional(),
    }),
    response: routeSchema,
    summary: 'Add a route; the service is APP-web unless named; a tcp port is found unless given',
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
  /** Events `set` (a Route) for every route, `current`, then `set` and `remove` ({id}); the event's id is the revision to resume after. */
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
  list: defineRoute({
    method: 'GET',
    path: '/apps/:app/operations',
    access: 'app viewer',
    query: pageQuery,
    response: z.array(operationSchema),
    summary: 'Operations, newest first',
  }),
  cancel: defineRoute({
    method: 'POST',
    path: '/operations/:operation/cancel',
    access: 'app developer',
    response: operationSchema,
    summary: 'Cancel; one that ended stays as it is',
  }),
  /** Events `line` ({text}) from the start or after Last-Event-ID, then `end` (the Operation) once it ended. */
  log: defineRoute({
    method: 'GET',
    path: '/operations/:operation/log',
    access: 'app viewer',
    response: 'events',
    summary: "An operation's log",
  }),

  /** For runners. Waits up to 25 s for work; no content means: ask again. The claim is held by heartbeats. */
  claim: defineRoute({
    method: 'POST',
    path: '/runners/:runner/claim',
    response: z.object({ operation: operationSchema.optional() }),
    summary: 'Take the next operation',
  }),
  /** Every 5 s at most; a runner not heard of for 30 s loses its operations, which fail with the reason. `cancelled` tells it to stop. */
  heartbeat: defineRoute({
    method: 'POST',
    path: '/runners/:runner/operations/:operation/heartbeat',
    response: z.object({ cancelled: z.boolean() }),
    summary: 'Still at it',
  }),
  /** `offset` is the number of lines written before: lines already there are not added twice. */
  append: defineRoute({
    method: 'POST',
    path: '/runners/:runner/operations/:operation/lines',
    body: z.object({ offset: z.int().nonnegative(), lines: z.array(z.string()) }),
    response: 'empty',
    summary: 'Add lines to the log',
  }),
  finish: defineRoute({
    method: 'POST',
    path: '/runners/:runner/operations/:operation/result',
    body: z.object({
      state: z.enum(['complete', 'failed', 'cancelled']),
      error: z.string().optional(),
      output: z.record(z.string(), z.string()).default({}),
    }),
    response: operationSchema,
    summary: 'End an operation; dependents start, or are cancelled',
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
