/** How parts of the platform speak with each other: over TLS, each with its certificate, wherever both have one. */
import type { MutualClient } from '@flynn/kit/http-client';
import { type LiveIdentity, appRole } from '@flynn/kit/identity';
import type { Instance } from './api.ts';
import type { DiscoveryClient } from './client.ts';

/** Said of an instance by the agent that gave it a certificate, and by nobody else: the app it has it as. */
export const identityAttribute = 'flynn.identity';
/** Said of every job by the agent that runs it, and by nobody else: whose ports it reaches. */
export const groupAttribute = 'flynn.group';

/** Which app a job is of; workloads that no controller made have none. */
export const appAttribute = 'flynn.app';

/**
 * What hosts and parts of the platform are called: keys and people's tokens are sent there. Agents alone announce them, also
 * before there is any of them; a part is an app of the same name.
 */
export const platformServices: ReadonlySet<string> = new Set([
  'blobstore',
  'controller',
  'dashboard',
  'flynn-host',
  'git-receiver',
  'log-aggregator',
  'router',
  'runner',
  'slug-builder',
]);

type Place = Pick<Instance, 'address'> & Partial<Pick<Instance, 'attributes'>>;

/** Whether an agent announced it, as a job that it runs. */
export function isOfAgent({ attributes }: Pick<Instance, 'attributes'>): boolean {
  return groupAttribute in attributes || identityAttribute in attributes;
}

/** Of an app, or of the platform: not of a workload that somebody gave Layer 0 by themselves. */
export function isJobOfApp(instance: Pick<Instance, 'attributes'>): boolean {
  return isOfAgent(instance) && (appAttribute in instance.attributes || identityAttribute in instance.attributes);
}

/**
 * Where it is asked by somebody who can show this, if anything. In clear it is asked for as long as some part may have nothing to
 * show, and if it is a job that an agent announced: anybody else may have taken its name.
 */
export function partUrl({ address, attributes = {} }: Place, identity: LiveIdentity | undefined): string {
  const mayBeClear =
    identity === undefined ||
    (identity.isEverybodyKnown !== true && groupAttribute in attributes && !(identityAttribute in attributes));
  return `${mayBeClear ? 'http' : 'https'}://${address}`;
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
