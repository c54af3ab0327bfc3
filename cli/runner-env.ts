/** The variables that runners and builds get, as the generic API has them: an object for each set of labels. */
import { generic } from '@flynn/controller/generic/api';
import type { GenericObject } from '@flynn/controller/generic/api';
import { envSchema } from '@flynn/controller/processes/env';
import { labelsSchema } from '@flynn/controller/model';
import { hasCode, ifFound } from '@flynn/kit/errors';
import { z } from 'zod';
import { usageError } from './arguments.ts';
import type { Context } from './context.ts';

const kind = { group: 'flynn', version: 'v1', kind: 'RunnerEnv' };
const specSchema = z.object({ runners: labelsSchema.default({}), env: envSchema.default({}) });
const maxAttempts = 8;

type Labels = Readonly<Record<string, string>>;
export type RunnerEnv = { name: string } & z.output<typeof specSchema>;

/** Of every runner. */
export const everyRunner: Labels = {};

export function labelsText(labels: Labels): string {
  const pairs = Object.entries(labels).map(([label, value]) => `${label}=${value}`);
  return pairs.toSorted().join(',');
}

/** `zone=a,gpu=yes`, as a person writes them. */
export function parseLabels(text = '', option = '--labels'): Record<string, string> {
  const pairs = text === '' ? [] : text.split(',').map((pair) => pair.split('='));
  for (const [label = '', ...value] of pairs) {
    if (/^[\w.-]+$/.test(label) && /^[\w.-]*$/.test(value.join('=')) && value.length === 1) continue;
    throw usageError(`${option} ${text}: write NAME=VALUE,NAME=VALUE, as "flynn runner list" shows them`);
  }
  return Object.fromEntries(pairs.map(([label = '', value = '']): [string, string] => [label, value]));
}

function nameOf(labels: Labels): string {
  return labelsText(labels) || 'all';
}

function viewOf({ name, spec }: GenericObject): RunnerEnv {
  return { name, ...specSchema.parse(spec) };
}

export async function listRunnerEnvs(context: Context): Promise<RunnerEnv[]> {
  const client = await context.client();
  return (await client.call(generic.list, { params: kind })).map(viewOf);
}

/** Empty if there is nothing for these labels. */
export async function findRunnerEnv(context: Context, labels: Labels): Promise<RunnerEnv['env']> {
  const client = await context.client();
  const found = await ifFound(client.call(generic.get, { params: { ...kind, name: nameOf(labels) } }));
  return found === undefined ? {} : viewOf(found).env;
}

/** Null takes a variable away. What somebody else changes at the same time stays. Answers what there is then. */
export async function changeRunnerEnv(
  context: Context,
  labels: Labels,
  change: (before: RunnerEnv['env']) => Readonly<Record<string, string | null>>,
): Promise<RunnerEnv['env']> {
  const client = await context.client();
  const params = { ...kind, name: nameOf(labels) };
  for (let attempt = 1; ; attempt += 1) {
    const found = await ifFound(client.call(generic.get, { params }));
    const before = found === undefined ? {} : viewOf(found).env;
    const changed = Object.entries({ ...before, ...change(before) });
    const env = Object.fromEntries(changed.filter((pair): pair is [string, string] => pair[1] !== null));
    try {
      const metadata = { revision: found?.metadata.revision ?? 0 };
      if (found !== undefined || Object.keys(env).length > 0) {
        await client.call(generic.put, { params, body: { spec: { runners: labels, env }, metadata } });
      }
      return env;
    } catch (error) {
      if (!hasCode(error, 'conflict') || attempt >= maxAttempts) throw error;
    }
  }
}
