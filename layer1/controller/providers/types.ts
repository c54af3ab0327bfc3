/** How providers are kept, and what they gave. */
import type { Appliance } from '@flynn/appliances/appliance';
import { appliances } from '@flynn/appliances/appliances';
import { isOwnName } from '@flynn/discovery/names';
import { holds } from '@flynn/resource/access';
import type { Role } from '@flynn/resource/access';
import { defineType } from '@flynn/resource/type';
import type { FieldIssue, ResourceOf } from '@flynn/resource/type';
import { z } from 'zod';
import { applianceProtocol, isApplianceUrl } from '../datastores/names.ts';
import { envSchema } from '../processes/env.ts';
import { ownedBy } from '../resources.ts';
import { configSchema, failureSchema } from './model.ts';
import { underWaySchema } from './under-way.ts';

export const providerType = defineType({
  name: 'provider',
  version: 1,
  spec: z.strictObject({
    name: z.string(),
    url: z.string().max(2_000),
    /** Sent as a bearer token. The name is one that the audit trail hides. */
    token: z.string().min(1).max(4_096).optional(),
  }),
  /** How many were asked of it: whoever asks for one changes the provider, so that none is asked of one that goes. */
  status: z.object({ asked: z.int() }),
  initialStatus: () => ({ asked: 0 }),
  nameField: 'name',
  nameRule: z.string().regex(/^[a-z][a-z0-9-]{0,62}$/, 'a provider is named in lower-case letters, digits and dashes'),
  validate: ({ url, token }) => [...urlIssues(url), ...tokenIssues(token)],
  cascades: false,
});

const linkSchema = z.object({
  state: z.enum(['added', 'removing']),
  releaseId: z.string().optional(),
  version: z.int().optional(),
  deploymentId: z.string().optional(),
  /** Asked for again: what the app has may be something else by now, and is looked at once more. */
  isStale: z.boolean().optional(),
  /** What is live in the app has what it is to give back: nothing is done about that before somebody asks again. */
  isHeld: z.boolean().optional(),
});
export type Link = z.output<typeof linkSchema>;

/** Whether the app has what it is to have, as far as it was looked at. */
export function isLinked(link: Link | undefined): boolean {
  return link?.state === 'added' && link.isStale !== true && link.isHeld !== true;
}

const rotatedAppSchema = z.object({
  /** Of the release with the new password; none before it is made, and where somebody else made one. */
  releaseId: z.string().optional(),
  version: z.int().optional(),
  /** None where the app has nothing to run yet. */
  deploymentId: z.string().optional(),
  /** Why it still runs with the former one. */
  failure: z.string().optional(),
  /** It ran without the former one when it was looked at last. */
  isThrough: z.boolean().optional(),
});
export type RotatedApp = z.output<typeof rotatedAppSchema>;

const rotationBegun = {
  by: z.string(),
  startedAt: z.string(),
  /** Apps that have the former password and not the resource are shut out, not waited for. */
  isForced: z.boolean().optional(),
};
const rotatedApps = z.record(z.string(), rotatedAppSchema);

/** Of a datastore's password: see rotation.ts. */
const rotationSchema = z.discriminatedUnion('state', [
  z.object({ state: z.literal('wanted'), ...rotationBegun }),
  /** `next`: what apps are to be given, once the datastore takes it. */
  z.object({ state: z.literal('making'), ...rotationBegun, next: envSchema }),
  /** `former`: what they were given before, which the datastore takes until none of them has it. */
  z.object({ state: z.literal('giving'), ...rotationBegun, former: envSchema, apps: rotatedApps }),
  z.object({ state: z.literal('done'), ...rotationBegun, endedAt: z.string(), apps: rotatedApps }),
]);
export type Rotation = z.output<typeof rotationSchema>;

type Apps = readonly { appId: string }[];

function onAll(role: Role, { apps }: { apps: Apps }, asking: Parameters<typeof holds>[0]): boolean {
  return apps.length > 0 && apps.every(({ appId }) => holds(asking, role, ownedBy(appId)));
}

/** Its uid is the key that the provider knows the wish for it by. */
export const resourceType = defineType({
  name: 'resource',
  version: 1,
  spec: z.strictObject({
    providerId: z.string(),
    config: configSchema,
    /** Which apps are to have it; `isReplacing`: in the place of what they have under the same names. */
    apps: z.array(z.strictObject({ appId: z.string(), isReplacing: z.boolean().default(false) })).max(100),
  }),
  status: z.object({
    externalId: z.string().optional(),
    env: envSchema,
    /** Written before the provider is asked: from then on there may be something there. */
    isAsked: z.boolean(),
    /** Its provider is gone for good: it goes without asking that. */
    isForgotten: z.boolean().optional(),
    /** It goes though what is live in its apps may have it. */
    isForced: z.boolean().optional(),
    /** Names in discovery that its apps reach, of a datastore of the platform's own. */
    services: z.array(z.string()).optional(),
    /** Of the last time it was asked, for the resource or to take it back; `count`: in a row. */
    failure: failureSchema.extend({ isOfRemoval: z.boolean(), count: z.int(), nextMs: z.number() }).optional(),
    /** Its provider is at it, and is asked again: see under-way.ts. */
    underWay: underWaySchema.optional(),
    rotation: rotationSchema.optional(),
    /** Of a datastore whose password was made anew: since when `env` has it, and which primary's job was told of it. */
    login: z
      .object({
        since: z.string(),
        toldJob: z.string().optional(),
        /** It is not known who else: a version of before wrote the record. They are let in until the password is another. */
        hasOthers: z.boolean().optional(),
      })
      .optional(),
    /** What the apps have of it, by their ids. */
    links: z.record(z.string(), linkSchema),
    /** Why an app did not get it. */
    refused: z.record(z.string(), failureSchema),
  }),
  // An app that goes, or gives it back, leaves it also while its provider is still to take it back.
  changesWhileDeleting: ['apps'],
  initialStatus: () => ({ env: {}, isAsked: false, links: {}, refused: {} }),
  immutable: ['providerId', 'config'],
  authorise: {
    read: (asking, { spec }) => spec.apps.some(({ appId }) => holds(asking, 'viewer', ownedBy(appId))),
    list: () => true,
    write: (asking, _owner, resource) => resource !== undefined && onAll('developer', resource.spec, asking),
  },
  cascades: false,
});

export type ProviderResource = ResourceOf<typeof providerType>;
export type ProvidedResource = ResourceOf<typeof resourceType>;

/** Who has to be asked before one may go. */
export const providerFinalizer = 'provider';

export function applianceUrl(name: string): string {
  return `${applianceProtocol}${name}`;
}

/** Whose datastores it gives; undefined for one that is asked over HTTP. */
export function applianceOf({ spec: { url } }: Pick<ProviderResource, 'spec'>): Appliance | undefined {
  return isApplianceUrl(url) ? appliances.get(url.slice(applianceProtocol.length)) : undefined;
}

const loopbacks: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '[::1]']);

function urlIssues(text: string): FieldIssue[] {
  const issue = (message: string) => [{ path: 'url', message }];
  if (!URL.canParse(text)) return issue('write a whole address, like https://databases.example.com/resources');
  const url = new URL(text);
  if (url.protocol === applianceProtocol) {
    return appliances.has(url.pathname)
      ? []
      : issue(`there is no ${url.pathname}: ${[...appliances.keys()].join(', ')}`);
  }
  if (url.username !== '' || url.password !== '') {
    return issue('an address is no place for a password: give it as the token');
  }
  if (url.search !== '' || url.hash !== '')
    return issue('leave out what begins with ? or #: ids are put behind the path');
  if (url.protocol === 'https:') return [];
  if (url.protocol !== 'http:') return issue('a provider is asked over https://, or http:// inside the cluster');
  if (isOwnName(url.hostname) || loopbacks.has(url.hostname)) return [];
  return issue(
    `http:// is for names of the cluster, like http://NAME.flynn/: variables and the token would cross the wire in clear, use https://${url.host}`,
  );
}

function tokenIssues(token: string | undefined): FieldIssue[] {
  if (token === undefined || /^[\x21-\x7e]+$/.test(token)) return [];
  return [{ path: 'token', message: 'a token is printable characters without spaces' }];
}
