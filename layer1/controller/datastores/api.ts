/** What people do with a datastore. `:app` is its own app; what apps have it is told by its resource. */
import { booleanFlag } from '@flynn/kit/config';
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import { jobSchema } from '../model.ts';

export const memberSchema = z.object({
  /** Without one it is known to the others alone: its host is away, or gone. */
  job: z.string().optional(),
  host: z.string().optional(),
  address: z.string().optional(),
  /** `unknown` where no member could be asked. */
  role: z.enum(['primary', 'replica', 'unknown']),
  /** May take over: has all that was committed, or as good as all, as its kind has it. */
  isSynchronous: z.boolean(),
  /** As it says itself, else as its job is. */
  state: z.string(),
  /** Behind the primary. */
  lagBytes: z.int().optional(),
  volumeBytes: z.int().optional(),
});
export type Member = z.output<typeof memberSchema>;

export const datastoreViewSchema = z.object({
  app: z.object({ id: z.string(), name: z.string() }),
  resourceId: z.string(),
  /** As its provider is called. */
  kind: z.string(),
  members: z.array(memberSchema),
  /** Of each member, at most. */
  memoryBytes: z.int(),
  database: z
    .object({
      version: z.string(),
      sizeBytes: z.int(),
      /** Of what is kept in memory. */
      maxBytes: z.int().optional(),
      keys: z.int().optional(),
      connections: z.int(),
      maxConnections: z.int(),
    })
    .optional(),
  /** What could not be asked, and why. */
  problem: z.string().optional(),
});
export type DatastoreView = z.output<typeof datastoreViewSchema>;

export const credentialsSchema = z.object({
  datastore: z.string(),
  /** Whom its apps log in as, and since when with this password. */
  login: z.string(),
  since: z.string(),
  /** The last time that the password was made anew, or this time. */
  rotation: z
    .object({
      /** `giving`: the former password is good until all apps have the other. */
      state: z.enum(['wanted', 'making', 'giving', 'done']),
      by: z.string(),
      startedAt: z.string(),
      endedAt: z.string().optional(),
      apps: z.array(
        z.object({
          /** None of one that the caller does not see. */
          app: z.string().optional(),
          state: z.enum(['waiting', 'deploying', 'complete', 'failed']),
          /** Of the release that it was given. */
          version: z.int().optional(),
          failure: z.string().optional(),
        }),
      ),
    })
    .optional(),
  /** In words, while it is not through. */
  waitingFor: z.string().optional(),
});
export type Credentials = z.output<typeof credentialsSchema>;

export const datastores = {
  get: defineRoute({
    method: 'GET',
    path: '/apps/:app/datastore',
    access: 'app viewer',
    response: datastoreViewSchema,
    summary: 'A datastore as it says itself that it is: who is primary, how far the others are, how much is in it',
  }),
  switchover: defineRoute({
    method: 'POST',
    path: '/apps/:app/datastore/switchover',
    access: 'app developer',
    /** `to`: the host whose member it is to be; else that which has most. */
    body: z.object({ to: z.string().optional() }),
    response: z.object({ from: z.string().optional(), to: z.string() }),
    summary: 'Have another member be the primary; answers with both hosts once it is',
  }),
  console: defineRoute({
    method: 'POST',
    path: '/apps/:app/datastore/console',
    access: 'app developer',
    body: z.object({
      /** What its client takes. */
      args: z.array(z.string()).max(100).default([]),
      tty: z.boolean().default(false),
      term: z.string().max(100).optional(),
      /** For admins of the cluster. */
      isSuperuser: z.boolean().default(false),
    }),
    response: jobSchema,
    summary: 'Start its client in a container of its own; it waits to be attached to, and ends with its input',
  }),
  credentials: defineRoute({
    method: 'GET',
    path: '/apps/:app/datastore/credentials',
    access: 'app viewer',
    response: credentialsSchema,
    summary: 'Whom its apps log in as, since when, and how far a change of the password is; no password',
  }),
  /** One that is under way is gone on with: apps that failed get another release. */
  rotate: defineRoute({
    method: 'POST',
    path: '/apps/:app/datastore/credentials/rotate',
    access: 'app developer',
    query: z.object({ force: booleanFlag.optional() }),
    response: credentialsSchema,
    summary:
      'Make its password anew: its apps get a release with it, and once nobody has the former one that opens nothing; force: also where apps that do not have it know the former one',
  }),
  /** Frames of @flynn/kit/frames: an archive on stdout, of which `exit` with 0 says that it is whole. */
  dump: defineRoute({
    method: 'GET',
    path: '/apps/:app/datastore/dump',
    access: 'app developer',
    response: 'upgrade',
    summary: 'All that is in it, as its own programs read it again',
  }),
  /**
   * Frames of @flynn/kit/frames: what is on stdin takes the place of what is there once `stdin-end` has said that it is whole.
   * `stdout` is one JSON object: {before, after}, each {sizeBytes, and tables or keys}.
   */
  import: defineRoute({
    method: 'GET',
    path: '/apps/:app/datastore/import',
    access: 'app developer',
    response: 'upgrade',
    summary:
      'Replace all that is in it by what its own programs read; until that is whole, and where it fails, nothing changes',
  }),
} as const;

/** What an import has replaced. */
const contentSchema = z.object({ sizeBytes: z.int(), tables: z.int().optional(), keys: z.int().optional() });
export const replacedSchema = z.object({ before: contentSchema, after: contentSchema });
export type Replaced = z.output<typeof replacedSchema>;
