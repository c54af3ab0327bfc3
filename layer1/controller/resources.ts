/** What the controller keeps, as types of the resource service. Names and owners make duplicates and orphans impossible. */
import { defineType } from '@flynn/resource/type';
import type { Resource } from '@flynn/resource/type';
import { FlynnError } from '@flynn/kit/errors';
import { z } from 'zod';
import {
  appSchema,
  artifactSchema,
  deploymentSchema,
  formationSchema,
  keySchema,
  operationSchema,
  releaseSchema,
  routeSchema,
  runnerSchema,
} from './model.ts';

const nothing = z.object({});

function immutable(what: string): (before: unknown, after: unknown) => void {
  return () => {
    throw new FlynnError('invalid', `${what} never changes: make a new one`);
  };
}

export const appType = defineType({
  name: 'app',
  version: 1,
  spec: appSchema.pick({ name: true, meta: true, isSystem: true, deployTimeoutMs: true }),
  status: z.object({
    /** The live release. */
    releaseId: z.string().optional(),
    /** The deployment under way: there is at most one, and nobody scales meanwhile. */
    deploymentId: z.string().optional(),
    /** The newest release's number. */
    lastVersion: z.int(),
  }),
  initialStatus: () => ({ lastVersion: 0 }),
  validateUpdate(before, after) {
    if (before.name !== after.name) throw new FlynnError('invalid', 'an app keeps its name: create another app');
  },
  nameOf: (app) => app.name,
});

export const artifactType = defineType({
  name: 'artifact',
  version: 1,
  spec: artifactSchema.pick({ type: true, image: true, meta: true }),
  status: nothing,
  initialStatus: () => ({}),
  validateUpdate: immutable('an artifact'),
});

export const releaseType = defineType({
  name: 'release',
  version: 1,
  spec: releaseSchema.omit({ id: true, createdAt: true }),
  status: nothing,
  initialStatus: () => ({}),
  validateUpdate: immutable('a release'),
  nameOf: (release) => releaseName(release.appId, release.version),
});

export function releaseName(appId: string, version: number): string {
  return `${appId}/v${version}`;
}

/** Its id is its release's. */
export const formationType = defineType({
  name: 'formation',
  version: 1,
  spec: formationSchema.omit({ createdAt: true, updatedAt: true }),
  status: nothing,
  initialStatus: () => ({}),
});

export const deploymentType = defineType({
  name: 'deployment',
  version: 1,
  spec: z.object({
    appId: z.string(),
    oldReleaseId: z.string().optional(),
    newReleaseId: z.string(),
    /** Jobs of the new release at the end, and of the old one when it began. */
    counts: z.record(z.string(), z.int()),
    oldCounts: z.record(z.string(), z.int()),
    /** Jobs the new release had before, from a deployment of old: their ends are none of this one's. */
    knownJobs: z.array(z.string()),
    timeoutMs: z.int(),
  }),
  status: deploymentSchema.pick({ state: true, progress: true, error: true, failedJob: true, endedAt: true }),
  initialStatus: () => ({ state: 'running' as const, progress: {} }),
  validateUpdate: immutable('a deployment'),
});

export const routeType = defineType({
  name: 'route',
  version: 1,
  spec: routeSchema.omit({ id: true, createdAt: true }),
  status: nothing,
  initialStatus: () => ({}),
  nameOf: (route) => (route.type === 'tcp' ? `tcp:${route.port ?? ''}` : `${route.domain ?? ''}${route.path}`),
});

/** Its id is the fingerprint's digest in hexadecimal. */
export const keyType = defineType({
  name: 'key',
  version: 1,
  spec: keySchema.omit({ createdAt: true }),
  status: nothing,
  initialStatus: () => ({}),
});

/** Ended ones are kept elsewhere: see operation-records.ts. */
export const operationType = defineType({
  name: 'operation',
  version: 1,
  spec: operationSchema.pick({
    appId: true,
    kind: true,
    dependsOn: true,
    mayFail: true,
    pushId: true,
    input: true,
    target: true,
    singletonId: true,
  }),
  status: operationSchema
    .pick({
      state: true,
      runnerId: true,
      attempt: true,
      isCancelRequested: true,
      error: true,
      output: true,
      expiresAt: true,
      assignedAt: true,
      startedAt: true,
      endedAt: true,
    })
    .extend({
      /** Written now and then, not with every beat. */
      heartbeatAt: z.number().optional(),
      /** The operations that wait for this one, written by whoever creates them: who ends this one has to know of them. */
      dependents: z.array(z.string()).optional(),
      /** Its place in the queue where it took another's; otherwise the revision it was created at. */
      place: z.int().optional(),
      /** Among those created at once. */
      rank: z.int().optional(),
    }),
  initialStatus: () => ({ state: 'queued' as const, output: {} }),
  validateUpdate: immutable('what an operation is to do'),
});

export const runnerType = defineType({
  name: 'runner',
  version: 1,
  spec: runnerSchema
    .pick({ labels: true, version: true, slots: true, isByIdOnly: true, isPlatform: true })
    /** SHA-256 of its own token; the platform's have none of their own. */
    .extend({ tokenHash: z.string().optional() }),
  status: runnerSchema.pick({ state: true }).extend({
    /** Of the process: another one knows nothing of what this one held. */
    session: z.string().optional(),
    /** Written now and then. */
    seenAt: z.number(),
  }),
  initialStatus: () => ({ state: 'pending' as const, seenAt: 0 }),
});

type ResourceOf<T> = T extends { spec: z.ZodType<infer Spec>; status: z.ZodType<infer Status> }
  ? Resource<Spec, Status>
  : never;
export type AppResource = ResourceOf<typeof appType>;
export type ArtifactResource = ResourceOf<typeof artifactType>;
export type ReleaseResource = ResourceOf<typeof releaseType>;
export type FormationResource = ResourceOf<typeof formationType>;
export type DeploymentResource = ResourceOf<typeof deploymentType>;
export type RouteResource = ResourceOf<typeof routeType>;
export type KeyResource = ResourceOf<typeof keyType>;
export type OperationResource = ResourceOf<typeof operationType>;
export type RunnerResource = ResourceOf<typeof runnerType>;

export function ownedBy(appId: string): { type: 'app'; id: string } {
  return { type: 'app', id: appId };
}

/** Held on every app: the worker takes it off once nothing of the app is left. */
export const appFinalizer = 'controller';
