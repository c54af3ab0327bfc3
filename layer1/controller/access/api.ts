/** Who may do what: people, teams, what they were given on apps, and tokens. `:user` and `:team` are names. */
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import { pageQuery } from '../paging.ts';
import {
  grantSchema,
  identitySchema,
  roleSchema,
  teamName,
  teamSchema,
  tokenSchema,
  userName,
  userSchema,
} from './model.ts';

export const users = {
  create: defineRoute({
    method: 'POST',
    path: '/users',
    body: z.object({ name: userName, role: roleSchema.optional() }),
    response: userSchema,
    summary: 'Add a user, with a role on the cluster or with none',
  }),
  list: defineRoute({
    method: 'GET',
    path: '/users',
    access: 'cluster viewer',
    query: pageQuery,
    response: z.array(userSchema),
    summary: 'All users, by name',
  }),
  get: defineRoute({
    method: 'GET',
    path: '/users/:user',
    access: 'cluster viewer',
    response: userSchema,
    summary: 'One user',
  }),
  update: defineRoute({
    method: 'PATCH',
    path: '/users/:user',
    /** Null takes the role on the cluster away. */
    body: z.object({ role: roleSchema.nullable() }),
    response: userSchema,
    summary: "Change a user's role on the cluster",
  }),
  remove: defineRoute({
    method: 'DELETE',
    path: '/users/:user',
    response: z.object({ tokens: z.int(), keys: z.int() }),
    summary: 'Remove a user with their tokens, SSH keys and roles; answers how many there were',
  }),
} as const;

export const teams = {
  create: defineRoute({
    method: 'POST',
    path: '/teams',
    body: z.object({ name: teamName, role: roleSchema.optional() }),
    response: teamSchema,
    summary: 'Make a team, whose members have its role on the cluster and what it is given on apps',
  }),
  list: defineRoute({
    method: 'GET',
    path: '/teams',
    access: 'cluster viewer',
    query: pageQuery,
    response: z.array(teamSchema),
    summary: 'All teams, by name',
  }),
  update: defineRoute({
    method: 'PATCH',
    path: '/teams/:team',
    body: z.object({ role: roleSchema.nullable() }),
    response: teamSchema,
    summary: "Change a team's role on the cluster",
  }),
  remove: defineRoute({
    method: 'DELETE',
    path: '/teams/:team',
    response: 'empty',
    summary: 'Remove a team with what it was given',
  }),
  addMember: defineRoute({
    method: 'PUT',
    path: '/teams/:team/members/:user',
    response: teamSchema,
    summary: 'Put a user into a team; again is fine',
  }),
  removeMember: defineRoute({
    method: 'DELETE',
    path: '/teams/:team/members/:user',
    response: teamSchema,
    summary: 'Take a user out of a team',
  }),
} as const;

export const grants = {
  list: defineRoute({
    method: 'GET',
    path: '/apps/:app/access',
    access: 'app viewer',
    response: z.array(grantSchema),
    summary: 'Who was given access to an app, beside those with a role on the cluster',
  }),
  /** `:kind` is user or team. */
  put: defineRoute({
    method: 'PUT',
    path: '/apps/:app/access/:kind/:name',
    access: 'app admin',
    body: z.object({ role: roleSchema }),
    response: grantSchema,
    summary: 'Give a user or a team a role on an app, instead of the one they had there',
  }),
  remove: defineRoute({
    method: 'DELETE',
    path: '/apps/:app/access/:kind/:name',
    access: 'app admin',
    response: 'empty',
    summary: 'Take it back',
  }),
} as const;

export const tokens = {
  create: defineRoute({
    method: 'POST',
    path: '/tokens',
    access: 'anybody',
    body: z.object({
      name: z.string().min(1).max(100),
      /** Another's: for admins. */
      user: userName.optional(),
      /** The most it is good for; whose it is still has to have that role. Default: that of the token it is made with. */
      role: roleSchema.optional(),
      /** The only apps it is good for, by name or id. */
      apps: z.array(z.string()).min(1).max(50).optional(),
      /** Default 90 days, or as long as the token it is made with; null is for ever. `denied` where that ends before. */
      expiresInMs: z
        .int()
        .min(1_000)
        .max(366 * 86_400_000)
        .nullable()
        .optional(),
      /**
       * Good for nothing but one exchange, within ten minutes: for a token as it would have been otherwise. What is sent to
       * another program to log in with is of no use to who finds it later.
       */
      isLink: z.boolean().optional(),
    }),
    response: tokenSchema.extend({ token: z.string() }),
    summary: 'Make a token; it is told this once',
  }),
  exchange: defineRoute({
    method: 'POST',
    path: '/tokens/exchange',
    access: 'anybody',
    body: z.object({
      name: z.string().min(1).max(100),
      /** At most, in milliseconds: never for longer than the token it is made with, or the link was made for. */
      expiresInMs: z
        .int()
        .min(1_000)
        .max(366 * 86_400_000),
    }),
    response: tokenSchema.extend({ token: z.string() }),
    summary:
      'A token of its own for a program one logs in with, good for no more than one’s own; a link is used up by it',
  }),
  list: defineRoute({
    method: 'GET',
    path: '/tokens',
    access: 'anybody',
    query: pageQuery,
    response: z.array(tokenSchema),
    summary: "One's tokens; an admin's: all",
  }),
  revoke: defineRoute({
    method: 'DELETE',
    path: '/tokens/:token',
    access: 'anybody',
    response: 'empty',
    summary: 'Take a token back, by its id; it opens nothing from then on',
  }),
} as const;

export const self = {
  get: defineRoute({
    method: 'GET',
    path: '/whoami',
    access: 'anybody',
    response: identitySchema,
    summary: 'Whom the cluster takes you for, and what you may do',
  }),
} as const;
