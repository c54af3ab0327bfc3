/** Discovery's HTTP API on every host's gateway address, port 1111. */
import { defineRoute } from '@flynn/kit/routes';
import { serviceName } from '@flynn/kit/names';
import { z } from 'zod';

const instanceId = z
  .string()
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/,
    'an instance id is 1 to 128 letters, digits, dots, dashes and underscores, like "web-1"',
  );

export const instanceSchema = z.object({
  id: instanceId,
  service: serviceName,
  /** host:port where the instance answers. */
  address: z.string(),
  attributes: z.record(z.string(), z.string()),
  /** The revision it was first announced at: the lowest is the oldest. */
  createdRevision: z.int(),
});
export type Instance = z.output<typeof instanceSchema>;

/** What all instances of a service share, for them to agree on. Its version rises with every write, and is never 0. */
export const serviceMetaSchema = z.object({ data: z.json(), version: z.int() });
export type ServiceMeta = z.output<typeof serviceMetaSchema>;

/** `oldest` without asking anybody, or the one that was named, whether it is there or not. */
export const leaderChoiceSchema = z.discriminatedUnion('by', [
  z.object({ by: z.literal('oldest') }),
  z.object({ by: z.literal('manual'), instance: instanceId }),
]);
export type LeaderChoice = z.output<typeof leaderChoiceSchema>;

/**
 * What a subscriber sees: `up` for every instance there is, `leader` and `meta` of services that have one, `current`, then
 * changes. `lagged` tells a reader that fell too far behind that it missed that many events: what follows, up to the next
 * `current`, is the difference between what it was told and what is.
 */
export type DiscoveryEvent =
  | { event: 'up' | 'update' | 'down'; instance: Instance }
  | { event: 'leader'; service: string; instance: Instance | undefined }
  | { event: 'meta'; service: string; meta: ServiceMeta | undefined }
  | { event: 'lagged'; missed: number }
  | { event: 'current' };

const address = z
  .string()
  .regex(
    /^[^\s:[\]]+:\d{1,5}$|^\[[0-9a-fA-F:.]+\]:\d{1,5}$/,
    'an address is host:port, like "10.0.0.1:80" or "[fd00::1]:80"',
  )
  .refine((text) => Number(text.slice(text.lastIndexOf(':') + 1)) <= 65_535, 'a port is at most 65535');

/** One line of text: attributes end up in other programs' configuration files. */
const attribute = z
  .string()
  .max(4_096)
  .regex(/^\P{Cc}*$/u, 'an attribute has no line breaks or other control characters');

export const registrationSchema = z.object({
  address,
  attributes: z.record(attribute, attribute).default({}),
  /** Announced again within this time or gone. */
  ttlSeconds: z.int().min(2).max(300).default(10),
});

const metaInput = z.object({
  data: z.json(),
  /** What it has to be at: 0 creates only; without one it is written whatever is there. */
  version: z.int().min(0).optional(),
  /** Makes this instance the leader in the same step. */
  leader: instanceId.optional(),
});

/** `?attr.zone=a&attr.role=x` keeps the instances that have all of these. */
const attributeQuery = z.record(
  z.templateLiteral(['attr.', z.string().min(1)], { error: 'a condition is attr.NAME=VALUE' }),
  z.string(),
);

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
    query: attributeQuery,
    response: z.array(instanceSchema),
    summary: 'The instances of a service, oldest first; ?attr.zone=a keeps those with the attribute',
    access: 'open',
  }),
  all: defineRoute({
    method: 'GET',
    path: '/instances',
    query: attributeQuery,
    response: z.array(instanceSchema),
    summary: 'The instances of all services, by service, oldest first; ?attr.zone=a keeps those with the attribute',
    access: 'open',
  }),
  leader: defineRoute({
    method: 'GET',
    path: '/services/:service/leader',
    response: instanceSchema,
    summary: 'The instance that leads: the oldest, or the one that was chosen',
    access: 'open',
  }),
  chooseLeader: defineRoute({
    method: 'PUT',
    path: '/services/:service/leader',
    body: leaderChoiceSchema,
    response: 'empty',
    summary: 'Who leads from now on: {"by":"manual","instance":ID}, or {"by":"oldest"}',
    access: 'open',
  }),
  meta: defineRoute({
    method: 'GET',
    path: '/services/:service/meta',
    response: serviceMetaSchema,
    summary: 'What the instances of the service share, and its version',
    access: 'open',
  }),
  setMeta: defineRoute({
    method: 'PUT',
    path: '/services/:service/meta',
    body: metaInput,
    response: serviceMetaSchema,
    summary: 'Write it: create only (version 0), only over that version, or whatever is there',
    access: 'open',
  }),
  removeMeta: defineRoute({
    method: 'DELETE',
    path: '/services/:service/meta',
    response: 'empty',
    summary: 'Remove it; one that is not there is fine',
    access: 'open',
  }),
  events: defineRoute({
    method: 'GET',
    path: '/services/:service/events',
    response: 'events',
    summary: 'The current set, an end marker, then changes',
    access: 'open',
  }),
  allEvents: defineRoute({
    method: 'GET',
    path: '/events',
    response: 'events',
    summary: 'The same of all services on one stream',
    access: 'open',
  }),
} as const;
