/** Files of TOML that people commit, as they should be. */
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { parse } from 'smol-toml';
import { z } from 'zod';

/** `anew`: the command that writes it. Throws `invalid`. */
export function readToml<S extends z.ZodType>(
  text: string,
  schema: S,
  { name, anew }: { name: string; anew?: string },
): z.output<S> {
  const remedy = anew === undefined ? '' : `. Write it anew: ${anew}`;
  try {
    const parsed = schema.safeParse(parse(text.replace(/^\uFEFF/, '')));
    if (parsed.success) return parsed.data;
    throw new Error(z.prettifyError(parsed.error));
  } catch (error) {
    throw new FlynnError('invalid', `${name} is not usable: ${messageOf(error)}${remedy}`, { cause: error });
  }
}
