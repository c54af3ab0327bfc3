/** Schedulers of a user's own: modules that configuration names. */
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { isAbsolute } from 'node:path';
import { pathToFileURL } from 'node:url';
import { z } from 'zod';
import type { Scheduler, Schedulers } from './scheduler.ts';
import { builtInSchedulers } from './scheduler.ts';

const kindSchema = z.string().regex(/^[a-z][a-z0-9_-]{0,62}$/, 'expected lower-case letters, digits, "-" or "_"');
const moduleSchema = z.object({
  kind: kindSchema,
  schedule: z.custom<Scheduler['schedule']>((value) => typeof value === 'function', 'expected a function'),
});

/**
 * The built-in schedulers and those of the modules at the absolute paths, each of which exports `kind`, a string, and
 * `schedule` as the Scheduler interface has it. `invalid`, naming the path, for whatever is not that, or comes twice.
 */
export async function loadSchedulers(paths: readonly string[]): Promise<Schedulers> {
  const schedulers = new Map(builtInSchedulers);
  const origins = new Map<string, string>([...builtInSchedulers.keys()].map((kind) => [kind, 'a built-in scheduler']));
  for (const path of paths) {
    const { kind, schedule } = await loadModule(path);
    const origin = origins.get(kind);
    if (origin !== undefined) {
      throw new FlynnError('invalid', `the scheduler ${path} is for the kind "${kind}", which is ${origin}'s already`);
    }
    origins.set(kind, path);
    schedulers.set(kind, { schedule });
  }
  return schedulers;
}

async function loadModule(path: string): Promise<z.output<typeof moduleSchema>> {
  if (!isAbsolute(path)) throw new FlynnError('invalid', `the scheduler ${path} has to be an absolute path`);
  let loaded: unknown;
  try {
    loaded = await import(pathToFileURL(path).href);
  } catch (cause) {
    throw new FlynnError('invalid', `could not load the scheduler ${path}: ${messageOf(cause)}`, { cause });
  }
  const parsed = moduleSchema.safeParse(loaded);
  if (!parsed.success) {
    throw new FlynnError(
      'invalid',
      `the scheduler ${path} does not export what it has to: ${z.prettifyError(parsed.error)}`,
    );
  }
  return parsed.data;
}
