/** The API of providers, and of what they give to apps. `:provider` is an id or a name. */
import { booleanFlag } from '@flynn/kit/config';
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import { pageQuery } from '../paging.ts';
import { configSchema, providerSchema, resourceSchema } from './model.ts';

/** In the place of what an app has under the same names. */
const isReplacing = z.boolean().default(false);

export const providers = {
  create: defineRoute({
    method: 'POST',
    path: '/providers',
    body: z.object({ name: z.string(), url: z.string(), token: z.string().optional() }),
    response: providerSchema,
    summary: 'Have resources from a provider that speaks HTTP: see docs/resources.md',
  }),
  list: defineRoute({
    method: 'GET',
    path: '/providers',
    access: 'developer of some app',
    query: pageQuery,
    response: z.array(providerSchema),
    summary: 'Providers, by name; without their tokens',
  }),
  get: defineRoute({
    method: 'GET',
    path: '/providers/:provider',
    access: 'developer of some app',
    response: providerSchema,
    summary: 'One provider',
  }),
  remove: defineRoute({
    method: 'DELETE',
    path: '/providers/:provider',
    response: 'empty',
    summary: 'Have nothing from it any more; refused while there are resources of it',
  }),
} as const;

export const resources = {
  /**
   * Answers once it is there and in releases of its apps, which are rolled out by then, or after 25 s with how far it is.
   * What the provider refuses, and a provider that is away, are errors, and nothing is left of it.
   */
  create: defineRoute({
    method: 'POST',
    path: '/providers/:provider/resources',
    access: 'developer of some app',
    body: z.object({ config: configSchema.default({}), apps: z.array(z.string()).max(20).default([]), isReplacing }),
    response: resourceSchema,
    summary: 'Have something made by a provider, and give apps its variables',
  }),
  ofProvider: defineRoute({
    method: 'GET',
    path: '/providers/:provider/resources',
    access: 'developer of some app',
    query: pageQuery,
    response: z.array(resourceSchema),
    summary: 'What this provider gave, as far as the caller may see it',
  }),
  list: defineRoute({
    method: 'GET',
    path: '/resources',
    access: 'anybody',
    query: pageQuery,
    response: z.array(resourceSchema),
    summary: 'What providers gave: of the apps that the caller may see',
  }),
  ofApp: defineRoute({
    method: 'GET',
    path: '/apps/:app/resources',
    access: 'app viewer',
    response: z.array(resourceSchema),
    summary: 'What the app has of providers',
  }),
  get: defineRoute({
    method: 'GET',
    path: '/resources/:resource',
    access: 'anybody',
    response: resourceSchema,
    summary: 'One resource',
  }),
  remove: defineRoute({
    method: 'DELETE',
    path: '/resources/:resource',
    access: 'anybody',
    query: z.object({ forget: booleanFlag.optional(), force: booleanFlag.optional() }),
    response: resourceSchema.extend({ isGone: z.boolean() }),
    summary:
      'Take its variables from its apps, and have its provider take it back; tells what that waits for; force: also from apps whose live release has its variables still; forget, for admins: without asking a provider that is gone for good',
  }),
  addApp: defineRoute({
    method: 'PUT',
    path: '/resources/:resource/apps/:app',
    access: 'app developer',
    body: z.object({ isReplacing }),
    response: resourceSchema,
    summary: 'Give its variables to one more app',
  }),
  removeApp: defineRoute({
    method: 'DELETE',
    path: '/resources/:resource/apps/:app',
    access: 'app developer',
    response: resourceSchema,
    summary: 'Take its variables from an app; the resource stays',
  }),
} as const;
