/**
 * What does an `app.json` say? As other platforms read it: what we do not know of is left alone, what we know and cannot
 * use is `invalid` naming its place. Pure, and without anything of the controller: builders read it too.
 */
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { envName, headerName, headerValue, processType } from '@flynn/kit/names';
import { z } from 'zod';
import { parseSchedule } from '../cron/schedule.ts';

const line = z.string().trim().min(1);
const seconds = z.number().nonnegative().max(86_400);
const port = z.int().min(1).max(65_535);

const scalar = z.union([z.string(), z.number(), z.boolean()], {
  error: 'it is to be a string, a number, or true or false',
});
const isScalar = (value: unknown): boolean => ['string', 'number', 'boolean'].includes(typeof value);

const variableSchema = z
  .preprocess(
    (variable) => (isScalar(variable) ? { value: variable } : variable),
    z.object({
      value: scalar.transform(String).optional(),
      /** `secret` makes a random value. Others know commands here, which none of them runs. */
      generator: z.string().optional(),
      required: z.boolean().optional(),
    }),
  )
  .transform(({ value, generator, required }): AppVariable => {
    if (value !== undefined) return { is: 'value', value };
    if (generator === 'secret') return { is: 'secret' };
    if (generator !== undefined && required !== true) return { is: 'optional', generator };
    return required === false ? { is: 'optional' } : { is: 'required' };
  });

/** What becomes of a variable that is not set: this value, a random one, a refusal, or nothing, with what was to make it. */
export type AppVariable =
  | { is: 'value'; value: string }
  | { is: 'secret' }
  | { is: 'required' }
  | { is: 'optional'; generator?: string | undefined };

const defaultAttempts = 3;

const healthcheckSchema = z.object({
  type: z.preprocess(
    (type) => (type === '' ? undefined : type),
    z.enum(['startup', 'readiness', 'liveness']).default('startup'),
  ),
  path: z.string().startsWith('/').optional(),
  /** Where it looks, if that is not where the process listens. */
  port: port.optional(),
  /** What is to be answered; else anything but an error. */
  status: z.int().min(100).max(599).optional(),
  /** `Host` among them. */
  httpHeaders: z.array(z.object({ name: headerName, value: headerValue })).optional(),
  scheme: z.enum(['http', 'https']).optional(),
  content: z.string().optional(),
  /** Of one that is said to fail nothing. */
  warn: z.boolean().optional(),
  /** Tried in the container by others; we only look from outside. */
  command: z
    .union([z.string(), z.array(z.string())], { error: 'it is to be a command, or the list of its words' })
    .optional(),
  attempts: z
    .int()
    .max(1_000)
    .default(defaultAttempts)
    .transform((attempts) => (attempts < 1 ? defaultAttempts : attempts)),
  interval: seconds.default(5),
  wait: seconds.optional(),
  timeout: seconds.default(5),
  initialDelay: seconds.default(0),
  /** Ours: so long of failing, once it was healthy, and the job is started again; 0 is never. */
  restartAfter: seconds.optional(),
});
export type Healthcheck = z.output<typeof healthcheckSchema>;

const overlaps = ['forbid', 'allow', 'replace'] as const;

/** A command that is run on a schedule. */
export const cronEntrySchema = z.object({
  /** Five fields as in crontab(5), or @daily and the like; `CRON_TZ=Zone` before them says the time zone. */
  schedule: line,
  command: line,
  timezone: z.string().optional(),
  /** What becomes of a tick while the run before is still going on. */
  overlap: z.enum(overlaps).default('forbid'),
});
export type CronEntry = z.output<typeof cronEntrySchema>;

const cronInputSchema = z
  .object({
    schedule: line,
    command: line,
    timezone: z.string().optional(),
    overlap: z.enum(overlaps).optional(),
    concurrency_policy: z.enum(overlaps).optional(),
    /** Written down, but not to be run. */
    maintenance: z.boolean().optional(),
  })
  .transform(({ concurrency_policy: policy, overlap, maintenance: isOff, ...entry }) => ({
    isOff: isOff === true,
    entry: cronEntrySchema.parse({ ...entry, overlap: overlap ?? policy ?? 'forbid' }),
  }));

export const scriptsSchema = z.object({
  /** Before a release is rolled out, in a job of its own: its failure keeps the old one. */
  predeploy: line.optional(),
  /** The same, after `predeploy`: the Procfile's `release` line. */
  release: line.optional(),
  /** Once in the life of an app: when the first release of it is live. What fills a database may not do so twice. */
  postdeploy: line.optional(),
  /** Whenever a release is live, after `postdeploy`: Dokku's `scripts.dokku.postdeploy`. */
  postdeployEach: line.optional(),
});
export type Scripts = z.output<typeof scriptsSchema>;

/** As Dokku reads it: its own `predeploy` is the one that counts, and both kinds of `postdeploy` are run. */
const scriptsInputSchema = scriptsSchema
  .omit({ postdeployEach: true })
  .extend({ dokku: scriptsSchema.pick({ predeploy: true, postdeploy: true }).optional() })
  .transform(({ dokku = {}, ...own }): Scripts => ({
    ...own,
    ...(dokku.predeploy === undefined ? {} : { predeploy: dokku.predeploy }),
    ...(dokku.postdeploy === undefined ? {} : { postdeployEach: dokku.postdeploy }),
  }));

const fileSchema = z.object({
  env: z.record(envName, variableSchema).default({}),
  formation: z.record(processType, z.object({ quantity: z.int().min(0).max(10_000).optional() })).default({}),
  healthchecks: z.record(processType, z.array(healthcheckSchema)).default({}),
  cron: z.array(cronInputSchema).max(100).default([]),
  scripts: scriptsInputSchema.prefault({}),
  buildpacks: z.array(z.object({ url: line })).default([]),
});

export type AppJson = {
  env: Record<string, AppVariable>;
  /** How many jobs of a type to begin with. */
  formation: Record<string, number>;
  healthchecks: Record<string, Healthcheck[]>;
  cron: CronEntry[];
  scripts: Scripts;
  /** URLs or names, in their order. */
  buildpacks: string[];
};

/** The same on the wire: what a build tells of it. */
export const appJsonSchema: z.ZodType<AppJson> = z.object({
  env: z.record(
    envName,
    z.discriminatedUnion('is', [
      z.object({ is: z.literal('value'), value: z.string() }),
      z.object({ is: z.enum(['secret', 'required']) }),
      z.object({ is: z.literal('optional'), generator: z.string().optional() }),
    ]),
  ),
  formation: z.record(processType, z.int().nonnegative()),
  healthchecks: z.record(processType, z.array(healthcheckSchema)),
  cron: z.array(cronEntrySchema),
  scripts: scriptsSchema,
  buildpacks: z.array(z.string()),
});

/** Throws `invalid` for what is no JSON, and for what is wrong in it: "app.json: cron[0].schedule: …". */
export function parseAppJson(text: string): AppJson {
  const parsed = fileSchema.safeParse(readJson(text.replace(/^\uFEFF/, '')));
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const at = (issue?.path ?? [])
      .map((part) => (typeof part === 'number' ? `[${part}]` : `.${String(part)}`))
      .join('');
    throw new FlynnError(
      'invalid',
      `app.json: ${at.replace(/^\./, '')}${at === '' ? '' : ': '}${issue?.message ?? ''}`,
    );
  }
  const { env, formation, healthchecks, cron, scripts, buildpacks } = parsed.data;
  for (const [index, { entry }] of cron.entries()) {
    try {
      parseSchedule(entry.schedule, entry.timezone);
    } catch (error) {
      throw new FlynnError('invalid', `app.json: cron[${index}]: ${messageOf(error)}`, { cause: error });
    }
  }
  return {
    env,
    formation: Object.fromEntries(
      Object.entries(formation).flatMap(([type, { quantity }]) => (quantity === undefined ? [] : [[type, quantity]])),
    ),
    healthchecks,
    cron: cron.flatMap(({ isOff, entry }) => (isOff ? [] : [entry])),
    scripts,
    buildpacks: buildpacks.map(({ url }) => url),
  };
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new FlynnError('invalid', `app.json is not JSON: ${why}`, { cause: error });
  }
}
