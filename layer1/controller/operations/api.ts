/** The API of operations: for people who wait for them, and for runners who carry them out. */
import { booleanFlag } from '@flynn/kit/config';
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import { handoverSchema, operationSchema } from '../model.ts';
import { pageQuery } from '../paging.ts';
import { longestWaitMs } from './expiry.ts';

/** Instead of `expiresAt`: from now on, by the controller's clock. */
const expiresInMs = z.int().min(1_000).max(longestWaitMs).optional();

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
    expiresInMs,
  });

const operationListQuery = z.object({
  ...pageQuery.shape,
  /** Ended ones too, default: yes. */
  ended: booleanFlag.optional(),
});

/** Of the runner, as it registered with. */
const runnerToken = z.string().default('');

const attemptSchema = z.object({ id: z.string(), attempt: z.int() });
/** `handover`: of one that has begun already, whose runner is stopped. One of a version before refuses it. */
const declinedSchema = attemptSchema.extend({ handover: handoverSchema.pick({ told: true }).optional() });
const resultSchema = z.object({
  id: z.string(),
  state: z.enum(['complete', 'failed', 'cancelled']),
  error: z.string().optional(),
  output: z.record(z.string(), z.string()).default({}),
});
/** `logLines`: of what was begun before, how many lines its log has by now: the next ones are sent from there. */
const claimedSchema = operationSchema.extend({ logLines: z.int().optional() });
export type ClaimedOperation = z.output<typeof claimedSchema>;

export const operations = {
  /** Idempotent by pushId. Answers the chain build, release, deploy. */
  push: defineRoute({
    method: 'POST',
    path: '/apps/:app/pushes',
    access: 'app developer',
    body: z.object({
      pushId: z.string(),
      sourceDigest: z.string(),
      commit: z.string(),
      branch: z.string(),
      /** The top of what is in the archive, from the repository's top: what whoever made it took the app's `build.folder` to be. */
      folder: z.string().optional(),
      /** In the archive, from its top: it is built, whatever else there is. */
      dockerfile: z.string().optional(),
      /** By when the build is to run; else it waits. */
      expiresInMs,
    }),
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
    body: z.object({ expiresAt: z.iso.datetime().nullable().optional(), expiresInMs }),
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
  /** Lines with their numbers as ids. One without, at the beginning, tells what the operation waits for, and is in no log. */
  log: defineRoute({
    method: 'GET',
    path: '/operations/:operation/log',
    access: 'app viewer',
    query: z.object({ follow: booleanFlag.optional() }),
    response: 'events',
    isResumable: true,
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
    response: z.object({ operations: z.array(claimedSchema) }),
    summary: 'Take the next operations, as many as there are slots',
  }),
  /**
   * What became of operations, several at a time. `begun` and `declined` name the attempt that was claimed: one that was
   * taken back meanwhile is refused, and the runner lets go of it. From `begun` to `ended` it is held by heartbeats; with
   * `handover` it is `declined` even then, and another goes on with it.
   * Idempotent: what was reported before is not refused.
   */
  report: defineRoute({
    method: 'POST',
    path: '/runners/:runner/report',
    body: z.object({
      token: runnerToken,
      begun: z.array(attemptSchema).max(64).default([]),
      declined: z.array(declinedSchema).max(64).default([]),
      ended: z.array(resultSchema).max(64).default([]),
    }),
    response: z.object({
      refused: z.array(z.object({ id: z.string(), code: z.enum(['conflict', 'not_found']), message: z.string() })),
    }),
    summary: 'Operations begin, are declined, or have ended; dependents start, or are cancelled',
  }),
  /**
   * Every 5 s at most; a runner not heard of for 30 s loses its operations: a build is begun again, the rest fails with the
   * reason. `cancelled` tells it to stop. Waits so long for that to happen.
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
