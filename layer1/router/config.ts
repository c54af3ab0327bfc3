import { integer, secret } from '@flynn/kit/config';
import { FlynnError } from '@flynn/kit/errors';
import { identityConfig } from '@flynn/kit/identity';
import { z } from 'zod';
import { accessLogFormats } from './policy/access-log.ts';
import { Networks } from './policy/networks.ts';
import { tlsProfiles } from './tls/profile.ts';
import type { WorkerRange } from './workers/count.ts';

const networks = z.string().transform((text, context) => {
  const texts = text.split(',').map((part) => part.trim());
  const { unreadable } = new Networks(texts);
  if (unreadable.length === 0) return texts;
  context.addIssue({
    code: 'custom',
    message: `${unreadable.map((part) => `"${part}"`).join(', ')}: not an address or network like 10.0.0.0/8`,
  });
  return z.NEVER;
});

const workers = z.string().transform((text, context): WorkerRange | undefined => {
  if (text === '0') return undefined;
  const [, first, last = first] = /^(\d{1,3})(?:-(\d{1,3}))?$/.exec(text) ?? [];
  const [least, most] = [Number(first), Number(last)];
  if (least >= 1 && most >= least) return { least, most };
  context.addIssue({ code: 'custom', message: `"${text}": not a number of processes, nor a range of it like 1-4` });
  return z.NEVER;
});

const driverSchema = z.enum(['fast', 'http-proxy']);
export type Driver = z.output<typeof driverSchema>;

export const configSchema = z.object({
  /** The cluster key, for reading the status. */
  FLYNN_KEY: secret(),
  ...identityConfig,
  /** For the controller: what this service may do there, and nothing else. The cluster key stands in where there is none yet. */
  FLYNN_CONTROLLER_TOKEN: secret().optional(),
  /** What this router is a job of. */
  FLYNN_RELEASE_ID: z.string().optional(),
  /** Service discovery, on the host's gateway address. */
  FLYNN_DISCOVERY_URL: z.url(),
  /** Where requests come in. */
  FLYNN_HTTP_PORT: integer.default(80),
  /** Who speaks HTTP/1: `fast` is the router's own front on sockets, `http-proxy` the slower one on node:http. */
  FLYNN_ROUTER_DRIVER: driverSchema.default('fast'),
  /** Where requests over TLS come in. */
  FLYNN_HTTPS_PORT: integer.default(443),
  /** What is spoken there: TLS 1.3 and 1.2 with authenticated ciphers, also 1.2 with older ones, or from 1.0 on. */
  FLYNN_TLS_PROFILE: z.enum(tlsProfiles).default('modern'),
  /**
   * A folder in which the last known routes, backends and certificates are kept for the next start; shared with other routers
   * of the host.
   */
  FLYNN_STATE_DIR: z.string().optional(),
  /** Proxies in front of the router, addresses and networks between commas: where a request is from is theirs to say. */
  FLYNN_TRUSTED_PROXIES: networks.default([]),
  /** On: connections of those proxies begin with a PROXY protocol header, on every port. */
  FLYNN_PROXY_PROTOCOL: z.enum(['off', 'on']).default('off'),
  /** A line for each request on standard output: off, json, or combined as Apache's. */
  FLYNN_ACCESS_LOG: z.enum(accessLogFormats).default('off'),
  /**
   * Processes that share its ports: a number, or from one to another as there is work for, like 1-4. 0 is from 1 to one for each
   * core, up to 4, as far as the memory it may use reaches.
   */
  FLYNN_ROUTER_WORKERS: workers.optional(),
  /** Set by the router itself for each of them. */
  FLYNN_ROUTER_WORKER: integer.optional(),
  /** Where the router tells how it is: /ping and /status. */
  PORT: integer.default(5000),
});

/** Throws `invalid` where it is on and nobody's word is taken. */
export function hasProxyProtocol(
  config: Pick<z.output<typeof configSchema>, 'FLYNN_PROXY_PROTOCOL' | 'FLYNN_TRUSTED_PROXIES'>,
): boolean {
  if (config.FLYNN_PROXY_PROTOCOL === 'off') return false;
  if (config.FLYNN_TRUSTED_PROXIES.length > 0) return true;
  throw new FlynnError(
    'invalid',
    'FLYNN_PROXY_PROTOCOL is on, but nobody is believed: say whose word is taken with FLYNN_TRUSTED_PROXIES',
  );
}
