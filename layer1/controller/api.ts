/** The controller's HTTP API: apps and what runs of them. `:app` is an app's id or name, `:release` a release's id or `v3`. */
import { booleanFlag } from '@flynn/kit/config';
import { appName, processType, serviceName } from '@flynn/kit/names';
import { attachQuerySchema, execQuerySchema } from '@flynn/host-agent/api';
import { imageSchema } from '@flynn/scheduler/job-template';
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import { cronEntrySchema, scriptsSchema } from './apps/app-json.ts';
import {
  appSchema,
  artifactSchema,
  deploymentSchema,
  formationSchema,
  jobSchema,
  metaSchema,
  releaseSchema,
} from './model.ts';
import { envSchema } from './processes/env.ts';
import { processSchema } from './processes/process.ts';
import { pageQuery } from './paging.ts';
import { volumesSchema } from './volumes/api.ts';
import { rolloutChangeSchema } from './deployments/rollout-settings.ts';

/** Of a review app: it goes so long from now, by the clock of the cluster. In the place of the moment in its metadata. */
const reviewMs = z
  .int()
  .min(1)
  .max(3_660 * 24 * 3_600_000)
  .optional();

const appChange = z.object({
  /** All of it: what is not in it goes. */
  meta: metaSchema.optional(),
  /** By name, null for what is to go; the rest stays, whoever else changes it at the same time. */
  metaChange: z.record(z.string(), z.string().nullable()).optional(),
  reviewMs,
  deployTimeoutMs: z.int().min(1_000).max(3_600_000).optional(),
  rollout: rolloutChangeSchema.optional(),
});

export const apps = {
  create: defineRoute({
    method: 'POST',
    path: '/apps',
    access: 'cluster developer',
    body: z.object({
      name: appName.optional(),
      meta: metaSchema.default({}),
      isSystem: z.boolean().default(false),
      reviewMs,
      /** Its route lets in whom the oldest of this app's routes does that does not let in everybody. */
      accessOf: z.string().optional(),
    }),
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
    /** With `volumes` what its jobs kept on hosts goes too, of hosts that can be asked. */
    query: z.object({ volumes: booleanFlag.optional() }),
    response: z.object({
      routes: z.int(),
      releases: z.int(),
      jobs: z.int(),
      artifacts: z.int().default(0),
      /** Of providers, which take them back; what another app has too stays. */
      resources: z.int().default(0),
      /** How many went. */
      volumes: z.int().default(0),
      /** Those that are there still, and hosts that did not tell. */
      left: volumesSchema.default({ volumes: [], unasked: [] }),
    }),
    summary:
      'Delete an app with everything it has; answers once its jobs have stopped; after 25 s with `timeout` and what it found, and goes on: ask again to wait on',
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
      /**
       * Over `env`: `${NAME}` is what the variable NAME holds, `$${` is `${`. With an `env` they are said along: else there are
       * none.
       */
      references: envSchema.optional(),
      processes: z.record(processType, processSchema).optional(),
      /** Services of other apps that all its jobs may reach. */
      links: z.array(serviceName).max(100).optional(),
      scripts: scriptsSchema.optional(),
      cron: z.array(cronEntrySchema).max(100).optional(),
      meta: metaSchema.default({}),
      /**
       * What it changes, as its maker saw it: the live release, before there is one the newest, null where there is none. If that
       * is another one by then it is `conflict` with the detail `isOvertaken`: read again what is there.
       */
      basis: z.string().nullable().optional(),
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
    summary:
      'Delete a release, and its slug if no other has it; the live one is refused, and those of a deployment under way',
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
    /**
     * `rollout` changes how the app's releases are rolled out for this one deployment. `replaces` is the release that is live when
     * it begins, null where none is: with another one it is `conflict` with the detail `isOvertaken`.
     */
    body: z.object({
      releaseId: z.string(),
      rollout: rolloutChangeSchema.optional(),
      replaces: z.string().nullable().optional(),
    }),
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
      /** Without: as `flynn limit run` has it for the app. */
      memoryBytes: z.int().positive().optional(),
      cpuMillis: z.int().nonnegative().optional(),
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
      /**
       * The operation's, told once more: a controller of a version before would build without it, and refuses what it does not
       * know. A runner of a version before tells none.
       */
      dockerfile: z.string().optional(),
      /** How often the operation was lost before, as its runner knows it; untold where it never was, for the same reason. */
      losses: z.int().positive().optional(),
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
