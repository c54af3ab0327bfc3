/** What an agent tells of its host's health, and of that of the cluster as it sees it. Without Layer 1. */
import { booleanFlag } from '@flynn/kit/config';
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import { verdictSchema } from './finding.ts';

/** `without-own`: the schedulers it was given cannot be loaded. */
const schedulerStates = ['runs', 'without-own', 'off'] as const;

export const hostExaminationSchema = verdictSchema.extend({
  hostId: z.string(),
  /** The host's clock, in milliseconds since the epoch. */
  now: z.number(),
  version: z.string(),
  /** `isHung`: it answers, and ends nothing. */
  engine: z.object({ isConnected: z.boolean(), isHung: z.literal(true).optional(), version: z.string() }),
  store: z.object({ isReachable: z.boolean() }),
  scheduler: z.enum(schedulerStates),
  /** Of the fullest of its disks. */
  diskUsedPercent: z.number().optional(),
  memoryUsedPercent: z.number().optional(),
  /** Of all its processors, since it was looked at before. */
  cpuUsedPercent: z.number().optional(),
});
export type HostExamination = z.output<typeof hostExaminationSchema>;

/** `away`: it is not in the cell. `silent`: it is, and its agent did not answer in time. */
export const hostHealths = ['up', 'cordoned', 'draining', 'silent', 'away'] as const;

export const examinedHostSchema = z.object({
  id: z.string(),
  state: z.enum(hostHealths),
  address: z.string().optional(),
  startedAt: z.number().optional(),
  /** Assigned to it. */
  jobs: z.int().optional(),
  /** How far its clock is ahead of the asking host's. */
  clockOffsetMs: z.number().optional(),
  agent: hostExaminationSchema
    .pick({
      version: true,
      engine: true,
      store: true,
      scheduler: true,
      diskUsedPercent: true,
      memoryUsedPercent: true,
      cpuUsedPercent: true,
    })
    .optional(),
});
export type ExaminedHost = z.output<typeof examinedHostSchema>;

export const examinedMemberSchema = z.object({
  /** The host it is on, as far as it is known. */
  hostId: z.string().optional(),
  endpoint: z.string(),
  isHealthy: z.boolean(),
  isLeader: z.boolean(),
  version: z.string().optional(),
  sizeBytes: z.number().optional(),
  usedBytes: z.number().optional(),
});
export type ExaminedMember = z.output<typeof examinedMemberSchema>;

export const clusterExaminationSchema = verdictSchema.extend({
  /** Who looked. */
  hostId: z.string(),
  hosts: z.array(examinedHostSchema),
  etcd: z.array(examinedMemberSchema),
  /** The host that keeps the platform up to date, where the store tells. */
  keeper: z.string().optional(),
});
export type ClusterExamination = z.output<typeof clusterExaminationSchema>;

/** How long to wait for what does not answer: then it is told as unknown. Whoever asks in turn gives less than it has. */
const patienceQuery = z.object({ patienceMs: z.coerce.number().int().min(1).max(20_000).default(900) });

export const doctorRoutes = {
  host: defineRoute({
    method: 'GET',
    path: '/examination',
    query: patienceQuery,
    response: hostExaminationSchema,
    summary: 'What is wrong on this host',
  }),
  cluster: defineRoute({
    method: 'GET',
    path: '/cluster-examination',
    /** `work`: whether all workloads get what they want, too. */
    query: patienceQuery.extend({ work: booleanFlag.optional() }),
    response: clusterExaminationSchema,
    summary: 'What is wrong in the cluster: every host is asked, and every member of etcd',
  }),
} as const;
