import { secret } from '@flynn/kit/config';
import { identityConfig } from '@flynn/kit/identity';
import { buildSettingsSchema } from '@flynn/controller/builds/limits';
import { envSchema } from '@flynn/controller/processes/env';
import { usualDockerfile } from './build-context.ts';
import { z } from 'zod';

/** What the controller tells a build job. */
export const configSchema = buildSettingsSchema.extend({
  FLYNN_OPERATION_ID: z.string().min(1),
  /** The blob that holds the commit as a tar archive. */
  FLYNN_SOURCE_DIGEST: z.string().min(1),
  FLYNN_COMMIT: z.string().default(''),
  FLYNN_APP_NAME: z.string().default('app'),
  FLYNN_APP_ID: z.string().min(1),
  /** The app's variables, a JSON object. */
  FLYNN_APP_ENV: z.string().default('{}').transform(parseEnv).pipe(envSchema),
  /** The cluster key, for the blob store. Nothing of the app's code gets to see it. */
  FLYNN_KEY: secret(),
  ...identityConfig,
  FLYNN_DISCOVERY_URL: z.url(),
  /** Whose agent it asks to build. */
  FLYNN_HOST_ID: z.string().default(''),
  /** What is built: with a Dockerfile an image, by the engine of this host. */
  FLYNN_BUILD_KIND: z.enum(['slug', 'dockerfile']).default('slug'),
  /** Of a Dockerfile of another name or place: its path in the source. */
  FLYNN_BUILD_DOCKERFILE: z.string().default(usualDockerfile),
  /** What a Dockerfile means by `flynn/slug-runner` and `flynn/slug-builder`. */
  FLYNN_SLUG_RUNNER_IMAGE: z.string().optional(),
  FLYNN_SLUG_BUILDER_IMAGE: z.string().optional(),
  /** Which of its variables every program of the build gets: NAME,NAME. */
  FLYNN_BUILD_ENV: z.string().optional(),
});

function parseEnv(text: string, context: z.RefinementCtx): unknown {
  try {
    return JSON.parse(text);
  } catch {
    context.addIssue({ code: 'custom', message: 'expected a JSON object of strings' });
    return z.NEVER;
  }
}
