/** A process type of a release: how its jobs are run, as people say it. */
import { serviceName } from '@flynn/kit/names';
import { defaultFiles, defaultPids, defaultTempDiskBytes } from '@flynn/scheduler/job-template';
import { checkRoleNames, healthCheckSchema, roleSchema } from '@flynn/scheduler/ports';
import { z } from 'zod';
import { processConstraintSchema } from './constraints.ts';
import { envSchema } from './env.ts';

export const processPortSchema = z.object({
  port: z.int().min(1).max(65_535),
  protocol: z.enum(['tcp', 'udp']).default('tcp'),
  service: z.object({ name: serviceName, check: healthCheckSchema.optional() }).optional(),
  /** Names that a job has in discovery besides, each only while its own check passes: which of several is the primary. */
  roles: z
    .array(roleSchema.extend({ name: serviceName }))
    .max(10)
    .optional(),
});

export const defaultStopTimeoutMs = 30_000;

export const processSchema = z.object({
  entrypoint: z.array(z.string()).optional(),
  command: z.array(z.string()).optional(),
  env: envSchema.default({}),
  ports: z.array(processPortSchema).superRefine(checkRoleNames).default([]),
  volumes: z
    .array(
      z.object({
        name: z.string(),
        path: z.string().startsWith('/'),
        /** One can do without what is in it: when its host is lost or drained the job goes on elsewhere, with an empty one. */
        isReplaceable: z.boolean().optional(),
        /** The platform's own: all jobs of it on a host have the same, old and new ones at once; each host has one of its own. */
        isShared: z.boolean().optional(),
      }),
    )
    .default([]),
  /** Services of other apps it may reach, at the ports they announce. Those of its own app it reaches without. */
  links: z.array(serviceName).default([]),
  memoryBytes: z
    .int()
    .positive()
    .default(1024 ** 3),
  cpuMillis: z.int().nonnegative().default(1_000),
  /** Processes and threads at once, open files of each process. Default: 2048, and 10000. */
  pidsLimit: z.int().min(1).max(4_194_304).optional(),
  filesLimit: z.int().min(64).max(1_048_576).optional(),
  /** What a job may write outside its volumes. Default: 10 GiB, a quarter of its host's disk where that is less. */
  tempDiskBytes: z
    .int()
    .min(1024 ** 2)
    .optional(),
  /** One on every host that meets its constraints, whatever the count, or on as many as `maxHosts` says. */
  omni: z.boolean().default(false),
  maxHosts: z.int().positive().optional(),
  /** What hosts have to be for its jobs to be there, all of it. One-off jobs go anywhere. */
  constraints: z.array(processConstraintSchema).max(20).optional(),
  hostNetwork: z.boolean().default(false),
  stopTimeoutMs: z.int().positive().default(defaultStopTimeoutMs),
  drainMs: z.int().nonnegative().optional(),
  user: z.string().optional(),
  workingDirectory: z.string().optional(),
});
export type Process = z.output<typeof processSchema>;

/** What jobs may take of what their process says nothing about: on a host with a small disk, less of that. */
export const unsaidLimits = {
  tempDiskBytes: defaultTempDiskBytes,
  pidsLimit: defaultPids,
  filesLimit: defaultFiles,
} as const;
