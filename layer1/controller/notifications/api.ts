/** The API of who is told what goes wrong: notifications, and what became of those that were sent. */
import { severities } from '@flynn/host-agent/doctor/finding';
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import { formats } from './formats.ts';
import { topics } from './message.ts';
import { outcomes } from './queue.ts';
import { signingSecretSchema } from './signature.ts';
import { heartbeatMinutes } from './types.ts';

/** What may be said of one; what is left out has a default. */
export const wantedFields = {
  /** https://HOST/PATH. A user and password in it become basic authentication. */
  url: z.string(),
  /** Default: what the address tells, else json. */
  format: z.enum(formats).optional(),
  /** What is told. Default: everything that goes wrong. */
  on: z.array(z.enum(topics)).min(1).optional(),
  /** Of `finding`: how grave it has to be. Default: critical. */
  severity: z.enum(severities).optional(),
  /** Of `heartbeat`: how often. Default: 5. */
  everyMinutes: z.int().min(heartbeatMinutes.min).max(heartbeatMinutes.max).optional(),
  /** It leads to a receiver inside the cluster, or to one of its hosts: for admins of the cluster to say. */
  isInside: z.boolean().optional(),
  /** What messages are signed with. Default: a new one. */
  secret: signingSecretSchema.optional(),
} as const;

const notificationSchema = z.object({
  id: z.string(),
  name: z.string(),
  /** Without: it is of the cluster, and of all apps. */
  app: z.object({ id: z.string(), name: z.string() }).optional(),
  /** Without its path, which may be a secret. */
  url: z.string(),
  format: z.enum(formats),
  on: z.array(z.string()),
  severity: z.enum(severities),
  everyMinutes: z.int(),
  isInside: z.boolean(),
  /** Messages that the receiver has not got. */
  waiting: z.int(),
  /** While it takes nothing: since when, what it said last, and when it is tried again. */
  failing: z.object({ since: z.string(), answer: z.string(), nextAt: z.string() }).optional(),
  /** What it never got since the last message that it took. */
  lost: z.object({ at: z.string(), count: z.int(), answer: z.string().optional() }).optional(),
  createdAt: z.string(),
});
export type Notification = z.output<typeof notificationSchema>;

const deliverySchema = z.object({
  /** As the receiver gets it in `webhook-id`. */
  id: z.string(),
  type: z.string(),
  title: z.string(),
  /** When it was so; of one that waits, when it happened. */
  at: z.string(),
  outcome: z.enum(['waiting', ...outcomes]),
  attempts: z.int(),
  answer: z.string().optional(),
});
export type Delivery = z.output<typeof deliverySchema>;

export const notifications = {
  create: defineRoute({
    method: 'POST',
    path: '/notifications',
    access: 'anybody',
    body: z.strictObject({ name: z.string(), app: z.string().optional(), ...wantedFields }),
    /** The secret is told this once. */
    response: z.object({ notification: notificationSchema, secret: z.string() }),
    summary: 'Have somebody told what goes wrong, with an app or with the cluster',
  }),
  list: defineRoute({
    method: 'GET',
    path: '/notifications',
    access: 'anybody',
    query: z.object({ app: z.string().optional() }),
    response: z.array(notificationSchema),
    summary: 'Who is told what, and whether they can be reached',
  }),
  test: defineRoute({
    method: 'POST',
    path: '/notifications/:notification/test',
    access: 'anybody',
    /** Without a status nothing was heard of the receiver: the answer says why. */
    response: z.object({ isAccepted: z.boolean(), status: z.int().optional(), answer: z.string(), ms: z.int() }),
    summary: 'Send one now, and hear what the receiver says',
  }),
  deliveries: defineRoute({
    method: 'GET',
    path: '/notifications/:notification/deliveries',
    access: 'anybody',
    response: z.array(deliverySchema),
    summary: 'The last messages and what became of them, the newest first',
  }),
  remove: defineRoute({
    method: 'DELETE',
    path: '/notifications/:notification',
    access: 'anybody',
    response: 'empty',
    summary: 'Tell them no more',
  }),
} as const;
