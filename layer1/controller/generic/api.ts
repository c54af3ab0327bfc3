/** The API that is the same for every kind: /api/GROUP/VERSION/KIND[/NAME]. Flynn's own paths show the same objects. */
import { booleanFlag } from '@flynn/kit/config';
import { defineRoute } from '@flynn/kit/routes';
import { conditionSchema } from '@flynn/resource/condition';
import { z } from 'zod';

const anything = z.record(z.string(), z.unknown());
const labels = z.record(z.string(), z.string());

export const objectSchema = z.object({
  group: z.string(),
  version: z.string(),
  kind: z.string(),
  name: z.string(),
  /** `app/shop`. */
  owner: z.string().optional(),
  labels,
  /** What is wanted. */
  spec: anything,
  /** What is. */
  status: anything,
  conditions: z.array(conditionSchema),
  /** The object in one word, or what is wrong with it; absent if nobody reports on it. */
  outlook: z.string().optional(),
  metadata: z.object({
    id: z.string(),
    uid: z.string(),
    revision: z.int(),
    generation: z.int(),
    observedGeneration: z.int().optional(),
    createdAt: z.string(),
    updatedAt: z.string(),
    finalizers: z.array(z.string()),
    /** By finalizer: what it waits for. */
    waitingFor: z.record(z.string(), z.string()),
    deletingSince: z.string().optional(),
  }),
});
export type GenericObject = z.output<typeof objectSchema>;

export const kindSchema = z.object({
  group: z.string(),
  version: z.string(),
  kind: z.string(),
  /** What else it is called: `app`, `apps`. */
  names: z.array(z.string()),
  summary: z.string(),
  /** Whether objects can be made and changed here. */
  isWritable: z.boolean(),
  /** Whether a file of the whole cluster has its objects. Those of others are part of some. */
  isExported: z.boolean(),
  /** Of tables: heading → path in the object. */
  columns: z.record(z.string(), z.string()),
  /** The JSON Schema of the spec a file may give. */
  spec: anything.optional(),
});
export type KindView = z.output<typeof kindSchema>;

/** What an answer has beside what may be written is taken and not looked at, so that an object that was got can be put. */
const wantedSchema = z.strictObject({
  group: z.string().optional(),
  version: z.string().optional(),
  kind: z.string().optional(),
  name: z.string().optional(),
  /** `app/shop`, by name or id: given once. */
  owner: z.string().optional(),
  labels: labels.optional(),
  spec: anything.default({}),
  /** If it is given it has to be what it is: a status has a call of its own. */
  status: anything.optional(),
  conditions: z.unknown().optional(),
  outlook: z.unknown().optional(),
  /** With a revision, `conflict` if the object is at another; with 0, if there is one. */
  metadata: z.looseObject({ revision: z.int().optional() }).optional(),
});
export type WantedBody = z.output<typeof wantedSchema>;

export const changeSchema = z.object({
  path: z.string(),
  /** Absent: there was none. */
  before: z.unknown().optional(),
  /** Absent: there will be none. */
  after: z.unknown().optional(),
});

export const outcomes = ['created', 'configured', 'unchanged'] as const;
export const appliedSchema = z.object({
  outcome: z.enum(outcomes),
  name: z.string(),
  changes: z.array(changeSchema),
  /** As it is now; absent when it was only asked what would be. */
  object: objectSchema.optional(),
  /** What goes on by itself from here. */
  deploymentId: z.string().optional(),
  notes: z.array(z.string()).default([]),
});
export type AppliedView = z.output<typeof appliedSchema>;

const writeQuery = z.object({
  /** Checks everything and writes nothing. */
  dryRun: booleanFlag.optional(),
  /** What the same files make or change, `app/shop`: in a dry run it is taken for there. */
  assume: z.union([z.string(), z.array(z.string())]).optional(),
});

const filterQuery = z.object({
  owner: z.string().optional(),
  prefix: z.string().optional(),
  /** By name or id. */
  name: z.string().optional(),
  /** Labels it has: `tier=front,size=small`. */
  labels: z.string().optional(),
});

export const generic = {
  kinds: defineRoute({
    method: 'GET',
    path: '/api',
    access: 'anybody',
    response: z.array(kindSchema),
    summary: 'The kinds of objects there are',
  }),
  list: defineRoute({
    method: 'GET',
    path: '/api/:group/:version/:kind',
    access: 'anybody',
    query: filterQuery,
    response: z.array(objectSchema),
    summary: 'Objects of a kind, by name',
  }),
  get: defineRoute({
    method: 'GET',
    path: '/api/:group/:version/:kind/:name',
    access: 'anybody',
    response: objectSchema,
    summary: 'One object, by name or id',
  }),
  apply: defineRoute({
    method: 'POST',
    path: '/api/:group/:version/:kind',
    access: 'anybody',
    query: writeQuery,
    body: wantedSchema,
    response: appliedSchema,
    summary: 'Make it so: creates the object, or changes what differs; asked again it changes nothing',
  }),
  put: defineRoute({
    method: 'PUT',
    path: '/api/:group/:version/:kind/:name',
    access: 'anybody',
    query: writeQuery,
    body: wantedSchema,
    response: appliedSchema,
    summary: 'The same, with the name in the path',
  }),
  patch: defineRoute({
    method: 'PATCH',
    path: '/api/:group/:version/:kind/:name',
    access: 'anybody',
    query: writeQuery,
    body: z.strictObject({
      labels: z.record(z.string(), z.string().nullable()).optional(),
      spec: anything.optional(),
      /** With a revision, `conflict` if the object is at another. */
      metadata: z.looseObject({ revision: z.int().optional() }).optional(),
    }),
    response: appliedSchema,
    summary:
      'Change parts of an object that is there: a JSON merge patch (RFC 7396), null takes away; `conflict` if it changed meanwhile',
  }),
  setStatus: defineRoute({
    method: 'PUT',
    path: '/api/:group/:version/:kind/:name/status',
    body: z.strictObject({
      status: anything.optional(),
      conditions: z.array(conditionSchema.omit({ since: true })).optional(),
      observedGeneration: z.int().optional(),
      revision: z.int().optional(),
    }),
    response: objectSchema,
    summary: 'Report what is; for whoever reconciles objects of the kind',
  }),
  remove: defineRoute({
    method: 'DELETE',
    path: '/api/:group/:version/:kind/:name',
    access: 'anybody',
    response: z.object({
      /** `deleting`: it goes once what `metadata.waitingFor` tells is done. */
      outcome: z.enum(['deleted', 'deleting']),
      object: objectSchema,
    }),
    summary: 'Delete an object, and after it what it owns',
  }),
  /**
   * Events `put`, `current` (null) and `delete` with an object; a deletion has the last there was. An event's id is to resume
   * after.
   */
  watch: defineRoute({
    method: 'GET',
    path: '/watch/:group/:version/:kind',
    access: 'anybody',
    query: filterQuery,
    response: 'events',
    isResumable: true,
    summary: 'The objects there are, `current`, then changes',
  }),
} as const;
