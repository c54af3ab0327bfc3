/** How parts of the platform speak with each other: over TLS, each with its certificate, wherever both have one. */
import type { MutualClient } from '@flynn/kit/http-client';
import { type LiveIdentity, appRole } from '@flynn/kit/identity';
import type { Instance } from './api.ts';
import type { DiscoveryClient } from './client.ts';

/** Said of an instance by the agent that gave it a certificate, and by nobody else: the app it has it as. */
export const identityAttribute = 'flynn.identity';

type Place = Pick<Instance, 'address'> & Partial<Pick<Instance, 'attributes'>>;

/** Where it is asked by somebody who can show this, if anything. */
export function partUrl({ address, attributes }: Place, identity: LiveIdentity | undefined): string {
  const isMutual = identity !== undefined && attributes?.[identityAttribute] !== undefined;
  return `${isMutual ? 'https' : 'http'}://${address}`;
}

/** For clients of an app of the platform: whoever answers over TLS has to be of it. */
export function asPart(app: string, identity: LiveIdentity | undefined): { mutual?: MutualClient } {
  return identity === undefined ? {} : { mutual: { identity, server: appRole(app) } };
}

/** For clients that follow discovery: the app's service has its name. */
export function partOf(
  discovery: Pick<DiscoveryClient, 'resolve'>,
  app: string,
  identity: LiveIdentity | undefined,
): { baseUrl: () => Promise<string>; mutual?: MutualClient } {
  return { baseUrl: async () => partUrl(await discovery.resolve(app), identity), ...asPart(app, identity) };
}
