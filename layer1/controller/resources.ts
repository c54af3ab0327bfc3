/** What the controller keeps, as types of the resource service. Names and owners make duplicates and orphans impossible. */
import { holds } from '@flynn/resource/access';
import type { Asking, Role } from '@flynn/resource/access';
import { refusal } from '@flynn/resource/record';
import { defineType } from '@flynn/resource/type';
import { ofCluster, ofUser } from './access/resources.ts';
import type { Owner, ResourceOf } from '@flynn/resource/type';
import { FlynnError } from '@flynn/kit/errors';
import { z } from 'zod';
import { cronEntrySchema } from './apps/app-json.ts';
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
import { checkDefaultsSchema } from './processes/check-defaults.ts';
import { cronSchema } from './cron/model.ts';
import { rolloutSchema } from './deployments/rollout-settings.ts';
import { checkBuildPlace } from './builds/place.ts';
import { checkOneOffLimits } from './jobs/one-off-limits.ts';
import { askerSchema } from './operations/asker.ts';
import { reviewIssues } from './apps/review-meta.ts';
import { routePlace } from './routes/address.ts';
import { routeIssues } from './routes/rules.ts';

const nothing = z.object({});

function immutable(what: string): (before: unknown, after: unknown) => void {
  return () => {
    throw new FlynnError('invalid', `${what} never changes: make a new one`);
  };
}

/** Of what belongs to an app: whoever holds a role on that. */
function ofApp(read: Role) {
  return {
    read: (asking: Asking, { owner }: { owner?: Owner }) => holds(asking, read, owner),
    list: () => true,
    write: (asking: Asking, owner: Owner | undefined) => holds(asking, 'developer', owner),
  };
}

export const appType = defineType({
  name: 'app',
  version: 1,
  spec: appSchema.pick({ name: true, meta: true, isSystem: true, deployTimeoutMs: true, datastore: true }).extend({
    rollout: rolloutSchema.prefault({}),
    /** Its volumes are its own. Of an app from before that was so they keep the name that its data is under. */
    hasOwnVolumes: z.boolean().default(false),
    /** Of one that is being deleted: its volumes go, too. */
    removesVolumes: z.boolean().default(false),
  }),
  status: z.object({
    /** The live release. */
    releaseId: z.string().optional(),
    /** Of one that was restored: a release was live where it comes from, whatever is here yet. */
    wasLive: z.boolean().optional(),
    /** The deployment under way: there is at most one, and nobody scales before its release is live. */
    deploymentId: z.string().optional(),
    /** The newest release's number. */
    lastVersion: z.int(),
  }),
  initialStatus: () => ({ lastVersion: 0 }),
  validateUpdate(before, after) {
    if (before.name !== after.name) throw new FlynnError('invalid', 'an app keeps its name: create another app');
    checkOneOffLimits(after.meta, before.meta);
    checkBuildPlace(after.meta, before.meta);
    const issues = reviewIssues(before.meta, after.meta);
    if (issues.length > 0) throw refusal(`app ${after.name}`, issues);
  },
  changesWhileDeleting: ['removesVolumes'],
  nameOf: (app) => app.name,
  authorise: {
    read: (asking, { id }) => holds(asking, 'viewer', ownedBy(id)),
    list: () => true,
    write: (asking, _owner, app) => holds(asking, 'developer', app === undefined ? undefined : ownedBy(app.id)),
  },
  // Its finalizer takes everything apart, in an order of its own.
  cascades: false,
});

export const artifactType = defineType({
  name: 'artifact',
  version: 1,
  spec: artifactSchema.pick({ type: true, image: true, meta: true }),
  /** `condemnedAt`: nothing had it, so it is about to go: no release is made of it any more. */
  status: z.object({ condemnedAt: z.string().optional() }),
  initialStatus: () => ({}),
  validateUpdate: immutable('an artifact'),
  cascades: false,
});

/** What checks of a release have that say nothing else. One from before this was so has none: its jobs stay as they are. */

export const releaseType = defineType({
  name: 'release',
  version: 1,
  spec: releaseSchema.omit({ id: true, createdAt: true }).extend({ checks: checkDefaultsSchema.optional() }),
  status: nothing,
  initialStatus: () => ({}),
  validateUpdate: immutable('a release'),
  nameOf: (release) => releaseName(release.appId, release.version),
  owner: 'app',
  authorise: ofApp('viewer'),
  cascades: false,
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
  owner: 'app',
  authorise: ofApp('viewer'),
  cascades: false,
});

export const deploymentType = defineType({
  name: 'deployment',
  version: 1,
  spec: z.object({
    appId: z.string(),
    oldReleaseId: z.string().optional(),
    newReleaseId: z.string(),
    /** What the deployment before left to be waited for: a release whose jobs were still ending when this one began. */
    drains: z.string().optional(),
    /** Jobs of the new release at the end, and of the old one when it began. */
    counts: z.record(z.string(), z.int()),
    oldCounts: z.record(z.string(), z.int()),
    /** Jobs the new release had before, from a deployment of old: their ends are none of this one's. */
    knownJobs: z.array(z.string()),
    /** How long there may be no progress. */
    timeoutMs: z.int(),
    rollout: rolloutSchema.prefault({}),
  }),
  status: deploymentSchema
    .pick({
      state: true,
      progress: true,
      error: true,
      failedJob: true,
      endedAt: true,
      releaseJobId: true,
      postdeployJobId: true,
      warning: true,
    })
    .extend({
      isPromoted: z.boolean().optional(),
      /** Somebody wants it ended: what they are told of it. */
      abort: z.string().optional(),
      /** When the last step was taken. */
      steppedAt: z.string().optional(),
      /** Since when it waits for people, as `canary` or `paused`, and how long it did before. */
      heldSince: z.string().optional(),
      heldMs: z.int().optional(),
    }),
  initialStatus: () => ({ state: 'running' as const, progress: {} }),
  validateUpdate: immutable('a deployment'),
  owner: 'app',
  authorise: ofApp('viewer'),
  cascades: false,
});

/** A line of the live release's cron. Its id is the app's and a digest of the line: the same through all releases. */
export const cronType = defineType({
  name: 'cron',
  version: 1,
  spec: cronEntrySchema.extend({ appId: z.string() }),
  status: cronSchema.pick({ isPaused: true, runs: true }).extend({
    /** Ticks up to and with this moment are dealt with. Whoever deals with the next compares it. */
    handledMs: z.int(),
  }),
  initialStatus: () => ({ isPaused: false, runs: [], handledMs: 0 }),
  validateUpdate: immutable('a line of cron'),
  owner: 'app',
  authorise: ofApp('viewer'),
});

export const routeType = defineType({
  name: 'route',
  version: 1,
  spec: routeSchema.omit({ id: true, createdAt: true, revision: true }),
  status: nothing,
  initialStatus: () => ({}),
  validate: routeIssues,
  validateUpdate(before, after) {
    const place = routePlace(before);
    if (place !== routePlace(after)) {
      throw new FlynnError('invalid', `a route stays at ${place}: add another there, then remove this one`);
    }
  },
  nameOf: routePlace,
  owner: 'app',
  authorise: ofApp('viewer'),
  cascades: false,
});

/** Its id is the fingerprint's digest in hexadecimal. */
export const keyType = defineType({
  name: 'key',
  version: 1,
  spec: keySchema.omit({ createdAt: true, user: true }),
  status: nothing,
  initialStatus: () => ({}),
  authorise: ofUser,
  cascades: false,
});

export const drainType = defineType({
  name: 'drain',
  version: 1,
  spec: z.object({
    appId: z.string().optional(),
    url: z.string(),
    ca: z.string().optional(),
    /** Made by somebody who is no admin of the cluster: it leads nowhere inside it. */
    isOutside: z.boolean().optional(),
  }),
  status: nothing,
  initialStatus: () => ({}),
  validateUpdate: immutable('a drain'),
  // That of all apps is the cluster's own.
  authorise: {
    read: (asking, { owner }) => owner !== undefined && holds(asking, 'developer', owner),
    list: () => true,
    write: (asking, owner) => owner !== undefined && holds(asking, 'developer', owner),
  },
});

/** Ended ones are kept elsewhere: see operations/records.ts. */
export const operationType = defineType({
  name: 'operation',
  version: 1,
  spec: operationSchema
    .pick({
      appId: true,
      kind: true,
      dependsOn: true,
      mayFail: true,
      pushId: true,
      input: true,
      target: true,
      singletonId: true,
    })
    .extend({ asker: askerSchema.optional() }),
  status: operationSchema
    .pick({
      state: true,
      runnerId: true,
      attempt: true,
      isCancelRequested: true,
      losses: true,
      handover: true,
      handovers: true,
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
  owner: 'app',
  authorise: ofApp('viewer'),
  cascades: false,
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
  authorise: ofCluster,
});

export type AppResource = ResourceOf<typeof appType>;
export type ArtifactResource = ResourceOf<typeof artifactType>;
export type ReleaseResource = ResourceOf<typeof releaseType>;
export type FormationResource = ResourceOf<typeof formationType>;
export type DeploymentResource = ResourceOf<typeof deploymentType>;
export type CronResource = ResourceOf<typeof cronType>;
export type RouteResource = ResourceOf<typeof routeType>;
export type KeyResource = ResourceOf<typeof keyType>;
export type DrainResource = ResourceOf<typeof drainType>;
export type OperationResource = ResourceOf<typeof operationType>;
export type RunnerResource = ResourceOf<typeof runnerType>;

export function ownedBy(appId: string): { type: 'app'; id: string } {
  return { type: 'app', id: appId };
}

/** Held on every app: the worker takes it off once nothing of the app is left. */
export const appFinalizer = 'controller';
