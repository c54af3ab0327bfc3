/**
 * How a route answers, beyond where it is and who answers. Everything has a default that suits most. What is stored and
 * told to routers is read tolerantly, so that parts of other versions understand each other; what is asked for is not.
 */
import { passwordHashPattern } from '@flynn/kit/password-hash-shape';
import { z } from 'zod';

const milliseconds = z.int().min(1).max(86_400_000);
const address = z.string().max(253);

/** A share of the requests, of all shares together, for the jobs of one release. */
const weightFields = { release: z.string().min(1), weight: z.int().min(0).max(1_000) };
const pageName = z
  .string()
  .regex(/^(?:[45]\d\d|[45]xx|maintenance)$/, 'a page is for a status (503), a class (5xx) or maintenance');
const page = z.string().max(65_536);

const http = {
  /** The backend does not see the route's path: `/api/x` at a route for `/api` asks it for `/x`. */
  stripPath: z.boolean(),
  /** Only the leader of the service answers. */
  leader: z.boolean(),
  /** A client stays with the backend that answered it first, by a signed cookie, as long as that is there. */
  sticky: z.boolean(),
  /** With weights: a client gets all its answers from one release. */
  releaseAffinity: z.boolean(),
  /** What backends speak. */
  protocol: z.enum(['http1', 'h2c']),
  /** A request's body is collected up to this much before a backend is taken. */
  bufferBytes: z.int().min(0).max(16_777_216),
  /** Requests for the route's domain are sent on to this host. */
  canonicalHost: address,
};
const limits = {
  /** Of a request's body; without it there is none. */
  bodyBytes: z.int().min(0),
  /** For each client address, and how many it may send at once before that counts (default: as many). */
  requestsPerSecond: z.number().positive().max(1_000_000),
  burst: z.int().min(1).max(1_000_000),
  /** Requests at the same time: of one client address, and of all. */
  connectionsPerClient: z.int().min(1).max(1_000_000),
  connections: z.int().min(1).max(1_000_000),
};
const timeouts = {
  /** Default 30 s. */
  firstByteMs: milliseconds,
  /** Default 55 s. */
  idleMs: milliseconds,
  /** Of the whole; without it there is none. */
  totalMs: milliseconds,
};
const https = {
  /** Plain requests are sent on to https://. */
  redirect: z.boolean(),
  /** Strict-Transport-Security over TLS; 0 says nothing. */
  hstsSeconds: z.int().min(0).max(63_072_000),
  hstsSubdomains: z.boolean(),
};
const allow = z.array(address).max(100);
const passwordHash = z
  .string()
  .regex(passwordHashPattern, 'a hash of a password is what "flynn route password-hash" makes');
/** What HTTP Basic can say, and every browser and shell. */
const routeUser = z
  .string()
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}$/,
    'the name of a user has letters, digits and . _ @ + -, and begins with one of the first',
  );
const needs = z.enum(['all', 'any']);

/** Who comes in: who knows the password of one of the users, or is at one of the addresses and networks; without either, nobody. */
export const routeAccessSchema = z.object({
  /** The API shows who there is, and to those who may read the app's secrets the hashes in files. */
  users: z.record(routeUser, z.object({ hash: passwordHash.optional() })).default({}),
  allow: allow.default([]),
  /** Where there are users and addresses: whether both are needed. */
  needs: needs.default('all'),
});
export type RouteAccess = z.output<typeof routeAccessSchema>;

export const httpSettingsSchema = z.object({
  stripPath: http.stripPath.default(false),
  leader: http.leader.default(false),
  sticky: http.sticky.default(false),
  /** Without any, each backend gets as much as any other. */
  weights: z.array(z.object(weightFields)).max(10).default([]),
  releaseAffinity: http.releaseAffinity.default(false),
  protocol: http.protocol.default('http1'),
  limits: z.object(limits).partial().prefault({}),
  timeouts: z.object(timeouts).partial().prefault({}),
  bufferBytes: http.bufferBytes.default(0),
  /** Every request is answered 503 with the maintenance page, except of clients at these addresses or networks. */
  maintenance: z
    .object({
      allow: allow.default([]),
      /** It is none: it keeps the route closed for versions before that do not know `access`. See `guard.ts`. */
      isGuard: z.boolean().optional(),
    })
    .optional(),
  /** Without it everybody comes in. */
  access: routeAccessSchema.optional(),
  /**
   * HTML for what the router answers itself and for backends' answers without a body of their own: by status (`503`), class
   * (`5xx`) or `maintenance`.
   */
  pages: z.record(pageName, page).default({}),
  https: z
    .object({
      redirect: https.redirect.default(false),
      hstsSeconds: https.hstsSeconds.default(0),
      hstsSubdomains: https.hstsSubdomains.default(false),
    })
    .prefault({}),
  canonicalHost: http.canonicalHost.optional(),
});
export type HttpSettings = z.output<typeof httpSettingsSchema>;

const tcp = {
  leader: z.boolean(),
  /** TLS is not ended here: connections are told apart by the server name they ask for, and passed on as they are. */
  serverName: address,
  /** Backends are told the client's address in a PROXY protocol header of this version. */
  proxyProtocol: z.enum(['v1', 'v2']),
  /** Without a byte in either direction; without it there is no limit. */
  idleMs: milliseconds,
};

export const tcpSettingsSchema = z.object({
  leader: tcp.leader.default(false),
  serverName: tcp.serverName.optional(),
  proxyProtocol: tcp.proxyProtocol.optional(),
  idleMs: tcp.idleMs.optional(),
});
export type TcpSettings = z.output<typeof tcpSettingsSchema>;

/** Left out it stays as it is, null takes it back. */
function change<T extends z.ZodType>(schema: T) {
  return schema.nullable().optional();
}

/** What somebody wants otherwise. Lists are given whole, pages one by one. */
export const httpChangeSchema = z.strictObject({
  stripPath: change(http.stripPath),
  leader: change(http.leader),
  sticky: change(http.sticky),
  weights: change(z.array(z.strictObject(weightFields)).max(10)),
  releaseAffinity: change(http.releaseAffinity),
  protocol: change(http.protocol),
  limits: change(
    z.strictObject({
      bodyBytes: change(limits.bodyBytes),
      requestsPerSecond: change(limits.requestsPerSecond),
      burst: change(limits.burst),
      connectionsPerClient: change(limits.connectionsPerClient),
      connections: change(limits.connections),
    }),
  ),
  timeouts: change(
    z.strictObject({
      firstByteMs: change(timeouts.firstByteMs),
      idleMs: change(timeouts.idleMs),
      totalMs: change(timeouts.totalMs),
    }),
  ),
  bufferBytes: change(http.bufferBytes),
  maintenance: change(z.strictObject({ allow: change(allow) })),
  access: change(
    z.strictObject({
      /** Each by itself: those that are not named stay, null takes one away, and one that is there keeps its hash without one. */
      users: change(z.record(routeUser, z.strictObject({ hash: passwordHash.optional() }).nullable())),
      allow: change(allow),
      needs: change(needs),
    }),
  ),
  pages: change(z.record(pageName, page.nullable())),
  https: change(
    z.strictObject({
      redirect: change(https.redirect),
      hstsSeconds: change(https.hstsSeconds),
      hstsSubdomains: change(https.hstsSubdomains),
    }),
  ),
  canonicalHost: change(http.canonicalHost),
});
export type HttpChange = z.output<typeof httpChangeSchema>;

/** A server name is part of where a route is: it stays. */
export const tcpChangeSchema = z.strictObject({
  leader: change(tcp.leader),
  serverName: change(tcp.serverName),
  proxyProtocol: change(tcp.proxyProtocol),
  idleMs: change(tcp.idleMs),
});
export type TcpChange = z.output<typeof tcpChangeSchema>;

/** Of a maintenance of all routes of an app at once. */
export const maintenanceSchema = z.strictObject({ allow: allow.default([]), page: page.optional() });
