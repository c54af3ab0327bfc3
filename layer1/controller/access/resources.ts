/** What the controller keeps of people, teams and tokens. */
import { FlynnError } from '@flynn/kit/errors';
import { holds } from '@flynn/resource/access';
import type { Asking } from '@flynn/resource/access';
import { defineType } from '@flynn/resource/type';
import type { ResourceOf } from '@flynn/resource/type';
import { z } from 'zod';
import { roleSchema, teamName, userName } from './model.ts';

const nothing = z.object({});

/** Seen by whoever holds a role on the cluster, changed by its admins. */
export const ofCluster = {
  read: (asking: Asking) => holds(asking, 'viewer', undefined),
  list: (asking: Asking) => holds(asking, 'viewer', undefined),
};

type Belonging = { readonly spec: { readonly userId?: string | undefined } };

/** Everybody's own. */
export const ofUser = {
  read: (asking: Asking, { spec }: Belonging) => asking.userId !== undefined && spec.userId === asking.userId,
  list: () => true,
  write: (asking: Asking, _owner: unknown, known: Belonging | undefined) =>
    asking.userId !== undefined && (known === undefined || known.spec.userId === asking.userId),
};

export const userType = defineType({
  name: 'user',
  version: 1,
  spec: z.object({
    name: userName,
    role: roleSchema.optional(),
    /** Of a provider of identities: issuer and subject, which stay when the name changes there. */
    identity: z.object({ issuer: z.string(), subject: z.string() }).optional(),
  }),
  status: z.object({
    /** With that provider, to half a day: a version before did not write it down. */
    lastLoginAt: z.string().optional(),
    /** That provider has told groups of them once: from then on, of whom it tells none, they have none. */
    tellsGroups: z.boolean().optional(),
  }),
  initialStatus: () => ({}),
  nameOf: (user) => user.name,
  authorise: ofCluster,
});

export const teamType = defineType({
  name: 'team',
  version: 1,
  spec: z.object({ name: teamName, role: roleSchema.optional(), memberIds: z.array(z.string()) }),
  status: nothing,
  initialStatus: () => ({}),
  nameOf: (team) => team.name,
  authorise: ofCluster,
});

/** Owned by its app, and gone with it. */
export const grantType = defineType({
  name: 'grant',
  version: 1,
  spec: z.object({ appId: z.string(), kind: z.enum(['user', 'team']), subjectId: z.string(), role: roleSchema }),
  status: nothing,
  initialStatus: () => ({}),
});

export function grantId(appId: string, kind: 'user' | 'team', subjectId: string): string {
  return `${appId}.${kind}.${subjectId}`;
}

/** Its id is public. Of the secret there is only the hash, so that who reads the store cannot use it. */
export const tokenType = defineType({
  name: 'token',
  version: 1,
  spec: z.object({
    name: z.string(),
    /** SHA-256 of the secret, in hexadecimal: it is random and long, so that nothing slower is called for. */
    hash: z.string(),
    userId: z.string().optional(),
    role: roleSchema,
    appIds: z.array(z.string()).optional(),
    expiresAt: z.string().optional(),
    /** Opens nothing, and may be exchanged once: until when the token that takes its place is good, at most. */
    exchange: z.object({ until: z.string().optional() }).optional(),
  }),
  status: nothing,
  initialStatus: () => ({}),
  validateUpdate: () => {
    throw new FlynnError('invalid', 'a token never changes: make a new one');
  },
  authorise: ofUser,
});

export type UserResource = ResourceOf<typeof userType>;
export type TeamResource = ResourceOf<typeof teamType>;
export type GrantResource = ResourceOf<typeof grantType>;
export type TokenResource = ResourceOf<typeof tokenType>;
