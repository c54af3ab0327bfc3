/** What a page asks of a terminal, by its query: which program, where, and how large. */
import { FlynnError } from '@flynn/kit/errors';
import { z } from 'zod';

/** The shell there is; a line for one, so that a slug's starter runs its profile scripts before it. */
const shell = ['sh', '-c', 'if command -v bash >/dev/null; then exec bash; else exec sh; fi'];

const command = z.string().transform((text, context): string[] => {
  const words = z.array(z.string()).min(1).safeParse(parsed(text));
  if (words.success) return words.data;
  context.addIssue({ code: 'custom', message: 'expected a list of words as JSON, as ["ls","-l"]' });
  return z.NEVER;
});

const cells = z.coerce.number().int().min(1).max(10_000);

const common = {
  app: z.string().min(1).max(200),
  command: command.default(shell),
  columns: cells.default(80),
  rows: cells.default(24),
  term: z
    .string()
    .regex(/^[\w.+-]{1,40}$/)
    .default('xterm-256color'),
};

const querySchemas = {
  '/terminal/run': z.strictObject({ ...common, release: z.string().min(1).max(200).optional() }),
  '/terminal/exec': z.strictObject({
    ...common,
    job: z.string().min(1).max(200).optional(),
    type: z.string().min(1).max(200).optional(),
  }),
} as const;

export type Wanted =
  | ({ kind: 'run' } & z.output<(typeof querySchemas)['/terminal/run']>)
  | ({ kind: 'exec' } & z.output<(typeof querySchemas)['/terminal/exec']>);

/** Of the URL of an upgrade. `not_found` for another path, `invalid` for what is wrong in its query. */
export function wantedOf(url: string): Wanted {
  const [path = '', query = ''] = url.split('?', 2);
  const fields = Object.fromEntries(new URLSearchParams(query));
  if (path === '/terminal/run') return { kind: 'run', ...checked(querySchemas[path], fields) };
  if (path === '/terminal/exec') return { kind: 'exec', ...checked(querySchemas[path], fields) };
  throw new FlynnError('not_found', 'terminals are at /terminal/run and /terminal/exec');
}

function checked<S extends z.ZodType>(schema: S, fields: Record<string, string>): z.output<S> {
  const result = schema.safeParse(fields);
  if (result.success) return result.data;
  throw new FlynnError('invalid', `the terminal was not asked for as it should be:\n${z.prettifyError(result.error)}`);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
