/** Configuration comes from FLYNN_* environment variables, is checked once at boot, and is refused whole if in doubt. */
import { z } from 'zod';
import { FlynnError } from './errors.ts';

/** The host agent tells every job about itself; a daemon that is a job ignores what it did not ask for. */
const jobMetadata = new Set([
  'FLYNN_APP_ID',
  'FLYNN_APP_NAME',
  'FLYNN_RELEASE_ID',
  'FLYNN_PROCESS_TYPE',
  'FLYNN_JOB_ID',
  'FLYNN_HOST_ID',
  'FLYNN_EXTERNAL_ADDRESS',
  'FLYNN_DISCOVERY_URL',
  'FLYNN_ETCD_ENDPOINTS',
]);

const secrets = z.registry<{ isSecret: true }>();

/** A required, non-empty string that is never printed. */
export function secret(): z.ZodString {
  return z.string().min(1).register(secrets, { isSecret: true });
}

export const booleanFlag = z
  .enum(['true', 'false', '1', '0', 'yes', 'no', 'on', 'off'], { error: 'expected true or false' })
  .transform((text) => ['true', '1', 'yes', 'on'].includes(text));

export const integer = z
  .string()
  .regex(/^-?\d{1,15}$/, 'expected a whole number')
  .transform(Number);

const msOfUnit = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** "250ms", "5s", "10m", "2h", "1d", or a bare number of milliseconds; gives milliseconds. */
export const durationMs = z.string().transform((text, context) => {
  const match = /^(\d{1,12})(ms|s|m|h|d)?$/.exec(text);
  const amount = match?.[1];
  if (amount === undefined) {
    context.addIssue({ code: 'custom', message: 'expected a duration like 250ms, 5s, 10m, 2h or 1d' });
    return z.NEVER;
  }
  return Number(amount) * msOfUnit[unitOf(match?.[2])];
});

function unitOf(text: string | undefined): keyof typeof msOfUnit {
  return text === 's' || text === 'm' || text === 'h' || text === 'd' ? text : 'ms';
}

/**
 * Reads the schema's variables (its keys are their full names) out of the environment. A FLYNN_* variable the schema
 * does not know is `invalid`: a typing mistake must not silently become a default. Empty counts as not set.
 */
export function loadConfig<S extends z.ZodObject>(schema: S, env: Record<string, string | undefined>): z.output<S> {
  const known = Object.keys(schema.shape);
  const given = Object.fromEntries(known.flatMap((name) => (env[name] ? [[name, env[name]]] : [])));
  const unknown = Object.keys(env).filter(
    (name) => name.startsWith('FLYNN_') && !known.includes(name) && !jobMetadata.has(name),
  );
  const parsed = schema.safeParse(given);
  const problems = [
    ...unknown.map((name) => unknownVariable(name, known)),
    ...(parsed.success ? [] : parsed.error.issues.map((issue) => wrongVariable(issue, given))),
  ];
  if (!parsed.success || problems.length > 0) {
    throw new FlynnError('invalid', `the configuration is not usable:\n${problems.map((p) => `  ${p}`).join('\n')}`);
  }
  return parsed.data;
}

function wrongVariable(issue: z.core.$ZodIssue, given: Record<string, unknown>): string {
  const name = issue.path.join('.');
  return given[name] === undefined && name !== '' ? `${name} is required and not set` : `${name}: ${issue.message}`;
}

function unknownVariable(name: string, known: readonly string[]): string {
  const nearest = nearestOf(name, known);
  return nearest === undefined
    ? `${name} is not a variable of this program: unset it`
    : `${name} is not a variable of this program: did you mean ${nearest}?`;
}

/** The candidate with the fewest edits, unless half of the word would have to be another: that is not what was meant. */
export function nearestOf(name: string, candidates: readonly string[]): string | undefined {
  const ranked = candidates.map((candidate) => ({ candidate, distance: editDistance(name, candidate) }));
  const nearest = ranked.sort((a, b) => a.distance - b.distance)[0];
  if (nearest === undefined) return undefined;
  const most = Math.ceil(Math.max(name.length, nearest.candidate.length) / 2);
  return nearest.distance <= most ? nearest.candidate : undefined;
}

/** Levenshtein's distance, one row at a time (Wagner and Fischer 1974). */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (const [i, charOfA] of Array.from(a).entries()) {
    const next = [i + 1];
    for (const [j, charOfB] of Array.from(b).entries()) {
      const replaced = (row[j] ?? 0) + (charOfA === charOfB ? 0 : 1);
      next.push(Math.min(replaced, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}

/** What is longer, a certificate say, fills the log and tells nobody more. */
const printedLength = 120;
const beginningLength = 40;

/** The configuration as it may be logged: secrets that are set show as '***', of long texts the beginning. */
export function printableConfig<S extends z.ZodObject>(schema: S, config: z.output<S>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(config).map(([name, value]) => {
      const field = schema.shape[name];
      return [name, field !== undefined && value !== undefined && isSecret(field) ? '***' : shortened(value)];
    }),
  );
}

function shortened(value: unknown): unknown {
  if (typeof value !== 'string' || value.length <= printedLength) return value;
  return `${value.slice(0, beginningLength)}… (${value.length} characters)`;
}

/** Sees through `.optional()`, `.default()` and the like. */
function isSecret(schema: z.core.$ZodType): boolean {
  // `get`, unlike `has`, knows of what a schema was before `.min()` and the like made another of it.
  if (secrets.get(schema) !== undefined) return true;
  const { def } = schema._zod;
  if ('innerType' in def && def.innerType instanceof z.core.$ZodType) return isSecret(def.innerType);
  return 'in' in def && def.in instanceof z.core.$ZodType && isSecret(def.in);
}
