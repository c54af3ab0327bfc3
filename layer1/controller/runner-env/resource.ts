/** Variables that runners get, and the builds they carry out. */
import { createHash } from 'node:crypto';
import { defineType } from '@flynn/resource/type';
import type { Resource } from '@flynn/resource/type';
import { z } from 'zod';
import { withoutEnv } from '../access/redaction.ts';
import { defineKind } from '../generic/kind.ts';
import { envSchema } from '../processes/env.ts';
import { labelsSchema } from '../model.ts';
import { checkKeptLogins } from './kept-logins.ts';
import { problemOf } from './settings.ts';

const specSchema = z.strictObject({
  name: z.string(),
  /** Labels of the runners it is for, all of them; none: every runner. */
  runners: labelsSchema.default({}),
  env: envSchema.default({}),
});
export type RunnerEnvSpec = z.output<typeof specSchema>;

const nameRule = z
  .string()
  .regex(/^[A-Za-z0-9][\w.=,-]{0,199}$/, 'it is named in letters, digits and . _ - = and commas, like gpu=yes');

/** Without hooks: it may hold passwords, and is for operators alone. */
export const runnerEnvType = defineType({
  name: 'runner-env',
  version: 1,
  spec: specSchema,
  status: z.object({}),
  initialStatus: () => ({}),
  nameField: 'name',
  nameRule,
  validate: ({ env }) =>
    Object.entries(env).flatMap(([name, value]) => {
      const message = problemOf(name, value);
      return message === undefined ? [] : [{ path: `env.${name}`, message }];
    }),
  cascades: false,
});
export type RunnerEnvResource = Resource<RunnerEnvSpec, object>;

export const runnerEnvKind = defineKind({
  type: runnerEnvType,
  summary: 'variables that runners and their builds get, changed without a restart: flynn runner env',
  columns: { RUNNERS: 'spec.runners' },
  checkSpec: ({ settings }, next, current) =>
    checkKeptLogins(settings, current === undefined ? [] : [current.env], [next.env]),
  withoutSecrets: withoutEnv,
});

/** The same for the same variables, whatever their order; what they hold does not follow from it. */
export function versionOf(env: Readonly<Record<string, string>>): string {
  const sorted = Object.entries(env).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return createHash('sha256').update(JSON.stringify(sorted)).digest('hex').slice(0, 32);
}
