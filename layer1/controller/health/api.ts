/** The API of how the cluster is: every part of it, every host, what is wrong and what to do. */
import { examinedHostSchema, examinedMemberSchema } from '@flynn/host-agent/doctor/api';
import { findingSchema, healths, verdictSchema } from '@flynn/host-agent/doctor/finding';
import { metricsTargetsPath } from '@flynn/kit/metrics-token';
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';

export const componentSchema = z.object({
  /** `controller web`, `etcd`, `host agent`. */
  name: z.string(),
  /** Of a part that is an app: what `flynn -a APP` takes. */
  app: z.string().optional(),
  wanted: z.int(),
  healthy: z.int(),
  /** Of what runs; several while one takes the place of another. */
  versions: z.array(z.string()),
  hosts: z.array(z.object({ host: z.string(), instances: z.int(), healthy: z.int() })),
});
export type Component = z.output<typeof componentSchema>;

/** Who tells it in the audit trail. */
export const clusterActor = 'cluster';

/** Something began to be wrong, or ended. */
export const healthEventSchema = findingSchema
  .pick({ check: true, severity: true, subject: true, app: true, isAway: true, matter: true })
  .extend({
    at: z.string(),
    what: z.enum(['began', 'ended']),
    /** What was so at that moment; of what lasts, what is so now. */
    text: z.string(),
    /** What to do about it, as it was known then. */
    remedy: z.string().optional(),
  });
export type HealthEvent = z.output<typeof healthEventSchema>;

export const clusterHealthSchema = verdictSchema.extend({
  cluster: z.string(),
  version: z.string(),
  checkedAt: z.string(),
  /** The worst of the findings; what could not be found out counts as a warning. */
  health: z.enum(healths),
  components: z.array(componentSchema),
  hosts: z.array(examinedHostSchema),
  etcd: z.array(examinedMemberSchema),
  /** The newest first; the audit trail has them all. */
  events: z.array(healthEventSchema).default([]),
});
export type ClusterHealth = z.output<typeof clusterHealthSchema>;

/** As Prometheus' `http_sd_configs` reads it. */
const targetSchema = z.object({ targets: z.array(z.string()), labels: z.record(z.string(), z.string()) });
export type Target = z.output<typeof targetSchema>;

export const health = {
  get: defineRoute({
    method: 'GET',
    path: '/status',
    access: 'cluster viewer',
    query: z.object({
      /** How long to wait for what does not answer: then it is told as unknown. */
      patienceMs: z.coerce.number().int().min(50).max(20_000).default(900),
    }),
    response: clusterHealthSchema,
    summary: 'Every part of the platform, every host, what is wrong and what to do',
  }),
  targets: defineRoute({
    method: 'GET',
    path: metricsTargetsPath,
    access: 'cluster viewer',
    response: z.array(targetSchema),
    summary: "Where the figures of all parts are read, for Prometheus' HTTP discovery",
  }),
} as const;
