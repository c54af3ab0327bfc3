/**
 * How much may a build take? Variables of the app `slug-builder`, the same for all apps. Memory and processes are the host's
 * to hold; the rest the builder holds itself, which can say what was too much, and the host a little later.
 */
import { durationMs, integer, loadConfig } from '@flynn/kit/config';
import { z } from 'zod';

const unitBytes = { '': 1, K: 1024, M: 1024 ** 2, G: 1024 ** 3 } as const;
type Unit = keyof typeof unitBytes;

const isUnit = (text: string): text is Unit => text in unitBytes;

/** "512MB", "2 GB", "1g", or bytes; a thousand is 1024. */
export const byteSize = z.string().transform((text, context) => {
  const [, amount, unit = ''] = /^(\d{1,9}(?:\.\d{1,3})?) ?([kmg]?)(?:i?b)?$/i.exec(text.trim()) ?? [];
  const known = unit.toUpperCase();
  if (amount === undefined || !isUnit(known) || Number(amount) === 0) {
    context.addIssue({ code: 'custom', message: 'expected a size like 512MB or 2GB' });
    return z.NEVER;
  }
  return Math.round(Number(amount) * unitBytes[known]);
});

export const buildLimitsSchema = z.object({
  /** Default: what the process type `build` of the builder has. */
  FLYNN_BUILD_MEMORY: byteSize.optional(),
  /** Processes and threads at once. */
  FLYNN_BUILD_PIDS: integer.pipe(z.int().min(64)).default(1024),
  /** What it may write: source, packages, tools, caches. */
  FLYNN_BUILD_DISK: byteSize.default(10 * unitBytes.G),
  FLYNN_BUILD_TIMEOUT: durationMs.pipe(z.int().min(1_000)).default(30 * 60_000),
  /** What it may print. */
  FLYNN_BUILD_OUTPUT: byteSize.default(16 * unitBytes.M),
  /** Per app, packed. */
  FLYNN_BUILD_CACHE: byteSize.default(unitBytes.G),
  /** Packed, with its runtimes. */
  FLYNN_SLUG_SIZE: byteSize.default(unitBytes.G),
});

/** `invalid` names the variable that cannot be read. */
export function buildLimitsOf(env: Readonly<Record<string, string>>): z.output<typeof buildLimitsSchema> {
  const names = Object.keys(buildLimitsSchema.shape);
  const given = Object.entries(env).filter(([name]) => names.includes(name));
  return loadConfig(buildLimitsSchema, Object.fromEntries(given));
}
