/** Where a job listens, under which names it is announced there, and how it is seen to be well. */
import { headerName, headerValue } from '@flynn/kit/names';
import { z } from 'zod';

export const healthCheckSchema = z.object({
  type: z.enum(['tcp', 'http']),
  /** Where it looks; without one, at the port that it is the check of. */
  port: z.int().min(1).max(65_535).optional(),
  path: z.string().startsWith('/').default('/'),
  /** HTTP: what the request says as `Host`; without one, the job's address and port. */
  host: z
    .string()
    .regex(/^[\w.:[\]-]{1,255}$/, 'it is to be a host name, like "shop.example.com"')
    .optional(),
  /** HTTP: what else the request says. */
  headers: z.record(headerName, headerValue).optional(),
  /** HTTP: the status that counts as healthy. */
  status: z.int().optional(),
  /** HTTP, without `status`: any below this counts as healthy; without either, any below 500. */
  statusBelow: z.int().min(200).max(600).optional(),
  intervalMs: z.int().positive().default(2_000),
  timeoutMs: z.int().positive().default(2_000),
  /** Consecutive answers that change the verdict. */
  threshold: z.int().positive().default(2),
  /** Not healthy this long after its start: the job is stopped and counts as crashed. */
  startTimeoutMs: z.int().positive().default(60_000),
  /**
   * Not healthy this long without a break, having been so: the job is stopped and counts as crashed. 0: never. Default: a
   * minute, filled in by the host, as a new field with a default here would make every template another one.
   */
  restartAfterMs: z.int().nonnegative().optional(),
});
export type HealthCheck = z.output<typeof healthCheckSchema>;

/** How a role is looked at: nothing waits for it, and nothing is stopped or started again for it. */
export const roleCheckSchema = healthCheckSchema.omit({ startTimeoutMs: true, restartAfterMs: true });
export type RoleCheck = z.output<typeof roleCheckSchema>;

/**
 * A further name under which a job is announced at a port, only while the role's check passes: which of several is the primary.
 * It says nothing of whether the job is well.
 */
export const roleSchema = z.object({
  name: z.string(),
  check: roleCheckSchema,
  /** Whoever has it is the last that an update or a drain has stop: others are ready by then to take it over. */
  goesLast: z.literal(true).optional(),
});

export const portSchema = z.object({
  /** The port the process listens on; the first port's number is also PORT. */
  port: z.int().min(1).max(65_535),
  protocol: z.enum(['tcp', 'udp']).default('tcp'),
  /** Registers the job in discovery under this name once it is healthy. */
  service: z.object({ name: z.string(), check: healthCheckSchema.optional() }).optional(),
  /** Without a default: templates of before are what they were, to the byte. */
  roles: z.array(roleSchema).optional(),
});
export type Port = z.output<typeof portSchema>;

/** A role is let go by its name: under a second thing of the same name a job would stay announced, or be withdrawn for it. */
export function checkRoleNames(ports: readonly Pick<Port, 'service' | 'roles'>[], context: z.RefinementCtx): void {
  const names = new Set(ports.flatMap(({ service }) => service?.name ?? []));
  for (const [index, { roles = [] }] of ports.entries()) {
    for (const [at, { name }] of roles.entries()) {
      if (names.has(name)) {
        const message = `"${name}" is the name of a service or of another role of the same job: give each its own`;
        context.addIssue({ code: 'custom', path: [index, 'roles', at, 'name'], message });
      }
      names.add(name);
    }
  }
}
