/** The part of the agent's API by which a pool of hosts is used without Layer 1: workloads, straight in the cell. */
import { defineRoute } from '@flynn/kit/routes';
import { jobStatusSchema, workloadSchema } from '@flynn/scheduler/cell';
import { jobTemplateSchema } from '@flynn/scheduler/job-template';
import { evaluationSchema } from '@flynn/scheduler/evaluation';
import { z } from 'zod';

const workloadViewSchema = z.object({
  workload: workloadSchema,
  /** How many of its jobs are in each state. */
  jobs: z.record(z.string(), z.int()),
  /** Why jobs of it wait for a place. */
  waiting: z.string().optional(),
  /** The app of Layer 1 it belongs to, which alone changes it. */
  app: z.string().optional(),
});
export type WorkloadView = z.output<typeof workloadViewSchema>;

const workloadDetailSchema = workloadViewSchema.extend({
  template: jobTemplateSchema.optional(),
  /** Ended ones too, as long as their hosts keep them. */
  list: z.array(jobStatusSchema),
});
export type WorkloadDetail = z.output<typeof workloadDetailSchema>;

export const workloadRoutes = {
  list: defineRoute({
    method: 'GET',
    path: '/workloads',
    response: z.array(workloadViewSchema),
    summary: 'All workloads of the cluster, by id; needs the store',
  }),
  get: defineRoute({
    method: 'GET',
    path: '/workloads/:workload',
    response: workloadDetailSchema,
    summary: 'One workload with its template and jobs; needs the store',
  }),
  put: defineRoute({
    method: 'PUT',
    path: '/workloads/:workload',
    /** As @flynn/scheduler/workload-file reads it; its id is the one in the path. */
    body: z.unknown(),
    response: z.object({ workload: workloadSchema, isNew: z.boolean() }),
    summary: 'Run a workload, or change it; needs the store',
  }),
  remove: defineRoute({
    method: 'DELETE',
    path: '/workloads/:workload',
    response: 'empty',
    summary: 'Stop a workload and forget it; needs the store',
  }),
  evaluations: defineRoute({
    method: 'GET',
    path: '/evaluations',
    query: z.object({ workload: z.string().optional() }),
    response: z.array(evaluationSchema),
    summary: 'What was and is to be scheduled, newest first; what ended stays for an hour; needs the store',
  }),
} as const;
