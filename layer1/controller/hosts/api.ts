/** The part of the API that operators use: hosts, and why work is where it is. `:host` is a host's id. */
import { hostRecordSchema } from '@flynn/scheduler/cell';
import { resourcesSchema } from '@flynn/scheduler/resources';
import { evaluationSchema, evaluationStates } from '@flynn/scheduler/evaluation';
import { booleanFlag } from '@flynn/kit/config';
import { hostTagName } from '@flynn/kit/names';
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import { hostTagValue } from '../processes/constraints.ts';
import { jobSchema } from '../model.ts';
import { pageQuery } from '../paging.ts';

export { evaluationStates };

const time = z.string();
const use = resourcesSchema.extend({ memoryBytes: z.int().nonnegative() });

/** `away`: its agent is not heard of; what it ran is placed elsewhere, unless too many hosts are away at once. */
export const hostStates = ['up', 'cordoned', 'draining', 'away'] as const;

export const hostViewSchema = z.object({
  id: z.string(),
  state: z.enum(hostStates),
  /** What is known of a host that is there. */
  address: hostRecordSchema.shape.address.optional(),
  capacity: resourcesSchema.optional(),
  startedAt: time.optional(),
  /** Set aside for jobs. */
  claimed: use,
  /** Jobs assigned to it. */
  jobs: z.int().nonnegative(),
  /** What constraints can ask for: its own and its tags, which win. */
  attributes: z.record(z.string(), z.string()),
  tags: z.record(z.string(), z.string()),
  drain: z.object({ startedAt: time, deadlineAt: time.optional(), maxParallel: z.int() }).optional(),
});
export type HostView = z.output<typeof hostViewSchema>;

const hostJobSchema = jobSchema.extend({ appName: z.string() });
const heldVolumesSchema = z.object({
  workloadId: z.string(),
  /** Of a workload that is an app's. */
  appName: z.string().optional(),
  type: z.string(),
  volumes: z.array(z.string()),
  /** Jobs of it on other hosts, each with volumes of its own: what replicates itself has there what is here. */
  others: z.int().positive().optional(),
});
export type HeldVolumes = z.output<typeof heldVolumesSchema>;

export const hostDetailSchema = hostViewSchema.extend({
  list: z.array(hostJobSchema),
  /** Data that is on this host and nowhere else. */
  volumes: z.array(heldVolumesSchema),
  /** Draining: what keeps jobs there, in words for people; none where all of them are on their way. */
  waits: z.array(z.string()).default([]),
});
export type HostDetail = z.output<typeof hostDetailSchema>;

export const hosts = {
  list: defineRoute({
    method: 'GET',
    path: '/hosts',
    access: 'cluster viewer',
    response: z.array(hostViewSchema),
    summary: 'All hosts, by id',
  }),
  get: defineRoute({
    method: 'GET',
    path: '/hosts/:host',
    access: 'cluster viewer',
    response: hostDetailSchema,
    summary: 'One host with its jobs',
  }),
  tag: defineRoute({
    method: 'PATCH',
    path: '/hosts/:host/tags',
    /** Null takes a tag away; those left out stay. */
    body: z.object({ tags: z.record(hostTagName, hostTagValue.nullable()) }),
    response: hostViewSchema,
    summary: "Change a host's tags",
  }),
  cordon: defineRoute({
    method: 'PUT',
    path: '/hosts/:host/cordon',
    response: hostViewSchema,
    summary: 'Place nothing more there',
  }),
  uncordon: defineRoute({
    method: 'DELETE',
    path: '/hosts/:host/cordon',
    response: hostViewSchema,
    summary: 'Let it take jobs again; ends a drain too',
  }),
  drain: defineRoute({
    method: 'PUT',
    path: '/hosts/:host/drain',
    body: z.object({
      /** What is left by then is stopped without waiting for replacements; without, for ever. */
      deadlineMs: z
        .int()
        .nonnegative()
        .max(7 * 24 * 3_600_000)
        .optional(),
      /** Jobs of a workload that move at a time: 1 unless said. */
      maxParallel: z.int().min(1).max(1_000).optional(),
      /** Without it blobs that no other host has yet are a `conflict`, whose detail has them as `soleCopies`. */
      giveUpBlobs: z.boolean().default(false),
    }),
    response: hostViewSchema,
    summary: 'Move its jobs elsewhere, replacements first; again changes what it says, and nothing else',
  }),
  undrain: defineRoute({
    method: 'DELETE',
    path: '/hosts/:host/drain',
    response: hostViewSchema,
    summary: 'Stop moving jobs away; the host takes jobs again, unless it is cordoned',
  }),
  remove: defineRoute({
    method: 'DELETE',
    path: '/hosts/:host',
    /** Without them, volumes and blobs that are nowhere else hold the host: `conflict` names them. */
    query: z.object({ giveUpVolumes: booleanFlag.optional(), giveUpBlobs: booleanFlag.optional() }),
    response: 'empty',
    summary: 'Forget a host that is away for good',
  }),
  rebalance: defineRoute({
    method: 'POST',
    path: '/rebalance',
    response: z.object({ workloads: z.int() }),
    summary: 'Look at all services again for a better spread; jobs move one by one, replacements first',
  }),
} as const;

export const evaluations = {
  list: defineRoute({
    method: 'GET',
    path: '/evaluations',
    access: 'anybody',
    query: pageQuery.extend({ app: z.string().optional(), state: z.enum(evaluationStates).optional() }),
    response: z.array(evaluationSchema.extend({ appName: z.string().optional() })),
    summary: 'What was and is to be scheduled, newest first; what ended stays for an hour',
  }),
  get: defineRoute({
    method: 'GET',
    path: '/evaluations/:evaluation',
    access: 'anybody',
    response: evaluationSchema.extend({ appName: z.string().optional() }),
    summary: 'One evaluation, by its id or the start of it',
  }),
} as const;
