/** Providers and what they gave, as the API shows them: no token, and of variables their names. */
import { z } from 'zod';
import { envSchema } from '../processes/env.ts';

/** A provider is told no more than this about what is wanted of it. */
const maxConfigCharacters = 16_384;

export const configSchema = z
  .record(z.string(), z.unknown())
  .refine(
    (config) => JSON.stringify(config).length <= maxConfigCharacters,
    `at most ${maxConfigCharacters} characters`,
  );

/** What a provider answers once something is there; `id` is its own name for it. */
export const provisionedSchema = z.object({
  id: z
    .string()
    .min(1)
    .max(500)
    // Part of a path later: these two would lead elsewhere.
    .refine((id) => id !== '.' && id !== '..', 'no name of a thing'),
  env: envSchema.refine((env) => Object.keys(env).length <= 100, 'at most 100 variables').default({}),
});
export type Provisioned = z.output<typeof provisionedSchema>;

export const failureSchema = z.object({
  code: z.enum(['invalid', 'denied', 'unavailable', 'conflict', 'internal']),
  message: z.string(),
});
export type Failure = z.output<typeof failureSchema>;

export const providerSchema = z.object({
  id: z.string(),
  name: z.string(),
  url: z.string(),
  hasToken: z.boolean(),
  createdAt: z.string(),
});
export type Provider = z.output<typeof providerSchema>;

/** What an app got of it. */
const resourceAppSchema = z.object({
  appId: z.string(),
  /** `adding` and `removing`: a release is about to be made. */
  state: z.enum(['adding', 'added', 'removing']),
  /** The release that was made for it; none where the app had, or kept, the same variables. */
  releaseId: z.string().optional(),
  version: z.int().optional(),
  /** None where the app has nothing to run yet. */
  deploymentId: z.string().optional(),
  failure: failureSchema.optional(),
});
export type ResourceApp = z.output<typeof resourceAppSchema>;

export const resourceSchema = z.object({
  id: z.string(),
  provider: z.string(),
  /** What the provider calls it. */
  externalId: z.string().optional(),
  config: z.record(z.string(), z.unknown()),
  /** Names; the apps have what they hold. */
  variables: z.array(z.string()),
  /** `provisioning`: its provider has begun, and needs its time. */
  state: z.enum(['pending', 'provisioning', 'ready', 'removing']),
  /** What it waits for, in words. */
  waitingFor: z.string().optional(),
  failure: failureSchema.optional(),
  apps: z.array(resourceAppSchema),
  createdAt: z.string(),
});
export type ResourceView = z.output<typeof resourceSchema>;
