/** Discovery's HTTP API on every host's gateway address, port 1111. */
import { defineRoute } from '@flynn/kit/routes';
import { serviceName } from '@flynn/kit/names';
import { z } from 'zod';

export const instanceSchema = z.object({
  id: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/),
  service: serviceName,
  /** host:port where the instance answers. */
  address: z.string(),
  attributes: z.record(z.string(), z.string()),
  /** The store revision it was first announced at: the lowest is the leader. */
  createdRevision: z.int(),
});
export type Instance = z.output<typeof instanceSchema>;

/**
 * What a subscriber sees: `up` for every instance there is, `current`, then changes. `leader` whenever it changes (also
 * before `current`, if there is one). The data of `current` is `{}`.
 */
export type DiscoveryEvent =
  | { event: 'up' | 'update' | 'down'; instance: Instance }
  | { event: 'leader'; instance: Instance | undefined }
  | { event: 'current' };

export const registrationSchema = z.object({
  address: z.string().regex(/^[^\s:]+:\d+$|^\[[0-9a-f:]+\]:\d+$/),
  attributes: z.record(z.string(), z.string()).default({}),
  /** Announced again within this time or gone. */
  ttlSeconds: z.int().min(2).max(300).default(10),
});

export const routes = {
  register: defineRoute({
    method: 'PUT',
    path: '/services/:service/instances/:instance',
    body: registrationSchema,
    response: instanceSchema,
    summary: 'Announce an instance, or renew it',
    access: 'open',
  }),
  deregister: defineRoute({
    method: 'DELETE',
    path: '/services/:service/instances/:instance',
    response: 'empty',
    summary: 'Take an instance back at once; one that is not there is fine',
    access: 'open',
  }),
  services: defineRoute({
    method: 'GET',
    path: '/services',
    response: z.array(z.object({ name: z.string(), instances: z.int() })),
    summary: 'The services that have instances',
    access: 'open',
  }),
  instances: defineRoute({
    method: 'GET',
    path: '/services/:service/instances',
    query: z.object({ where: z.string().optional() }),
    response: z.array(instanceSchema),
    summary: 'The instances of a service, oldest first; ?where=zone=a,role=x keeps those with the attributes',
    access: 'open',
  }),
  leader: defineRoute({
    method: 'GET',
    path: '/services/:service/leader',
    response: instanceSchema,
    summary: 'The instance that leads: the oldest',
    access: 'open',
  }),
  events: defineRoute({
    method: 'GET',
    path: '/services/:service/events',
    response: 'events',
    summary: 'The current set, an end marker, then changes',
    access: 'open',
  }),
} as const;
