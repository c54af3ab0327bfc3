/** A workload as a person writes it down: a JSON file, every mistake in it told in words, what is left out filled in. */
import { nearestOf } from '@flynn/kit/config';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { z } from 'zod';
import { jobTemplateSchema } from './job-template.ts';
import { workloadInputSchema } from './cell.ts';
import { versionOf } from './template-version.ts';

const workloadId = z
  .string()
  .regex(
    /^[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?$/,
    'a workload’s id is 1 to 63 lower-case letters, digits and dashes, starts with a letter and does not end with a dash',
  );

const labels = z
  .record(z.string(), z.string())
  .refine(
    (meta) => !Object.keys(meta).some((name) => name.startsWith('flynn.')),
    'names that begin with "flynn." are the platform’s own',
  );

const workloadFileSchema = workloadInputSchema.extend({
  id: workloadId,
  kind: workloadInputSchema.shape.kind.default('service'),
  count: workloadInputSchema.shape.count.default(1),
  version: z
    .string()
    .regex(/^[A-Za-z0-9._-]{1,64}$/, 'a version is 1 to 64 letters, digits, dots, dashes and underscores')
    .optional(),
  template: jobTemplateSchema.extend({ meta: labels.default({}) }),
});

/** Every default is filled in. */
export type WrittenWorkload = z.output<typeof workloadInputSchema>;

/** `name` is what messages call the text. Throws `invalid`. */
export function parseWorkloadFile(text: string, name: string): WrittenWorkload {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new FlynnError('invalid', `${name} is no JSON: ${messageOf(error)}`, { cause: error });
  }
  return readWorkload(value, name);
}

/**
 * Without a version it is its template's: the same template is the same version. What no workload has is refused rather
 * than passed over: a name mistyped is a setting that does nothing. Throws `invalid`.
 */
export function readWorkload(value: unknown, name: string): WrittenWorkload {
  const { data, error } = workloadFileSchema.safeParse(value);
  if (error !== undefined) throw new FlynnError('invalid', `${name} is no workload:\n${z.prettifyError(error)}`);
  const [unknown] = unknownNames(value, data);
  if (unknown !== undefined) throw new FlynnError('invalid', `${name} is no workload: ${unknown}`);
  return { ...data, version: data.version ?? versionOf(data.template) };
}

/** Where what is left out has no default either, and so is not seen in what was read. */
const optionalNames: ReadonlyMap<string, readonly string[]> = new Map([
  ['', Object.keys(workloadFileSchema.shape)],
  ['template', Object.keys(jobTemplateSchema.shape)],
]);

/** What reading dropped: it keeps every name it knows. */
function unknownNames(given: unknown, kept: unknown, path: readonly string[] = []): string[] {
  if (!isObject(given) || !isObject(kept)) return [];
  return Object.entries(given).flatMap(([name, value]) => {
    if (Object.hasOwn(kept, name)) return unknownNames(value, kept[name], [...path, name]);
    const nearest = nearestOf(name, optionalNames.get(path.join('.')) ?? Object.keys(kept));
    return [`it has no "${[...path, name].join('.')}"${nearest === undefined ? '' : `, did you mean ${nearest}?`}`];
  });
}

/** Lists too, by their indices. */
function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}
