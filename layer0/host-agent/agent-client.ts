/** How to speak with a host's agent: with certificates where it can, and with the cluster key. */
import { HttpClient } from '@flynn/kit/http-client';
import { type LiveIdentity, hostRole } from '@flynn/kit/identity';
import type { HostRecord } from '@flynn/scheduler/cell';

export type AgentAccess = Readonly<{ key: string; identity?: LiveIdentity | undefined }>;

/** Without an id any host will do. */
export type AgentPlace = Pick<HostRecord, 'id' | 'address' | 'apiPort' | 'mutual'>;

/** The caller closes it. */
export function agentClient({ id, address, apiPort, mutual }: AgentPlace, { key, identity }: AgentAccess): HttpClient {
  const place = `${address.includes(':') ? `[${address}]` : address}:${apiPort}`;
  const name = id === '' ? `the host at ${place}` : `host ${id}`;
  if (mutual === undefined || identity === undefined) return new HttpClient({ baseUrl: `http://${place}`, key, name });
  return new HttpClient({ baseUrl: `https://${place}`, key, name, mutual: { identity, server: hostRole(id) } });
}
