/** Who is there, in which teams, with which access: as the API shows it. Times are ISO 8601. */
import { z } from 'zod';
import { roles } from './roles.ts';

const time = z.string();

/** A login name or an address, as a provider of identities tells it. */
export const userName = z
  .string()
  .regex(
    /^[a-z0-9][a-z0-9._+@-]{0,99}$/,
    'expected lower-case letters, digits and . _ + @ -, starting with one of the first',
  );
export const teamName = z.string().regex(/^[a-z0-9][a-z0-9-]{0,62}$/, 'expected lower-case letters, digits and -');
export const roleSchema = z.enum(roles);

export const userSchema = z.object({
  id: z.string(),
  name: userName,
  /** On all apps and on the cluster itself; without one, only what teams and apps give. */
  role: roleSchema.optional(),
  teams: z.array(z.string()),
  /** Set for those who log in with a provider of identities. */
  issuer: z.string().optional(),
  createdAt: time,
});
export type User = z.output<typeof userSchema>;

export const teamSchema = z.object({
  id: z.string(),
  name: teamName,
  role: roleSchema.optional(),
  members: z.array(z.string()),
  createdAt: time,
});
export type Team = z.output<typeof teamSchema>;

export const grantSchema = z.object({
  appId: z.string(),
  kind: z.enum(['user', 'team']),
  name: z.string(),
  role: roleSchema,
  createdAt: time,
});
export type Grant = z.output<typeof grantSchema>;

export const tokenSchema = z.object({
  /** Public: it is in the token, `flynn_ID_…`, so that one found somewhere can be taken back. */
  id: z.string(),
  /** What it is for. */
  name: z.string(),
  /** Whose it is; without one, the cluster's. */
  user: z.string().optional(),
  role: roleSchema,
  /** The only apps it is good for, by name. */
  apps: z.array(z.string()).optional(),
  expiresAt: time.optional(),
  /** Opens nothing, and may be exchanged once, until it expires. */
  isLink: z.boolean().optional(),
  createdAt: time,
});
export type Token = z.output<typeof tokenSchema>;

export const identitySchema = z.object({
  kind: z.enum(['root', 'user', 'service']),
  name: z.string(),
  /** On the cluster, after what the token leaves of it. */
  role: z.enum(['none', ...roles]),
  teams: z.array(z.string()),
  apps: z.array(z.object({ name: z.string(), role: roleSchema })),
  token: z.object({ id: z.string(), expiresAt: time.optional() }).optional(),
});
export type Identity = z.output<typeof identitySchema>;
