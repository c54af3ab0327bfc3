/** How a route answers, beyond where it is and who answers. Everything has a default that suits most. */
import { z } from 'zod';

const milliseconds = z.int().min(1).max(86_400_000);

/** A share of the requests, of all shares together, for the jobs of one release. */
const weightSchema = z.strictObject({ release: z.string(), weight: z.int().min(0).max(1_000) });

export const httpSettingsSchema = z.strictObject({
  /** The backend does not see the route's path: `/api/x` at a route for `/api` asks it for `/x`. */
  stripPath: z.boolean().default(false),
  /** Only the leader of the service answers. */
  leader: z.boolean().default(false),
  /** A client stays with the backend that answered it first, by a signed cookie, as long as that is there. */
  sticky: z.boolean().default(false),
  /** Without any, each backend gets as much as any other. */
  weights: z.array(weightSchema).max(10).default([]),
  /** With weights: a client gets all its answers from one release. */
  releaseAffinity: z.boolean().default(false),
  /** What backends speak. */
  protocol: z.enum(['http1', 'h2c']).default('http1'),
  limits: z
    .strictObject({
      /** Of a request's body; without it there is none. */
      bodyBytes: z.int().min(0).optional(),
      /** For each client address, and how many it may send at once before that counts (default: as many). */
      requestsPerSecond: z.number().positive().optional(),
      burst: z.int().min(1).optional(),
      /** Requests at the same time: of one client address, and of all. */
      connectionsPerClient: z.int().min(1).optional(),
      connections: z.int().min(1).optional(),
    })
    .prefault({}),
  timeouts: z
    .strictObject({
      /** Default 30 s. */
      firstByteMs: milliseconds.optional(),
      /** Default 55 s. */
      idleMs: milliseconds.optional(),
      /** Of the whole; without it there is none. */
      totalMs: milliseconds.optional(),
    })
    .prefault({}),
  /** A request's body is collected up to this much before a backend is taken. */
  bufferBytes: z.int().min(0).max(16_777_216).default(0),
  /** Every request is answered 503 with the maintenance page, except of clients at these addresses or networks. */
  maintenance: z.strictObject({ allow: z.array(z.string()).default([]) }).optional(),
  /** HTML for what the router answers itself and for backends' answers without a body of their own: by status (`503`), class (`5xx`) or `maintenance`. */
  pages: z.record(z.string().regex(/^(?:[45]\d\d|[45]xx|maintenance)$/), z.string().max(65_536)).default({}),
  https: z
    .strictObject({
      /** Plain requests are sent on to https://. */
      redirect: z.boolean().default(false),
      /** Strict-Transport-Security over TLS; 0 says nothing. */
      hstsSeconds: z.int().min(0).default(0),
      hstsSubdomains: z.boolean().default(false),
    })
    .prefault({}),
  /** Requests for the route's domain are sent on to this host. */
  canonicalHost: z.string().optional(),
});
export type HttpSettings = z.output<typeof httpSettingsSchema>;

export const tcpSettingsSchema = z.strictObject({
  leader: z.boolean().default(false),
  /** TLS is not ended here: connections are told apart by the server name they ask for, and passed on as they are. */
  serverName: z.string().optional(),
  /** Backends are told the client's address in a PROXY protocol header of this version. */
  proxyProtocol: z.enum(['v1', 'v2']).optional(),
  /** Without a byte in either direction; without it there is no limit. */
  idleMs: milliseconds.optional(),
});
export type TcpSettings = z.output<typeof tcpSettingsSchema>;
