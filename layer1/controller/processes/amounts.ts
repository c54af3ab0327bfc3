/** Amounts of memory and disk as people write them in files. */
import { z } from 'zod';

const units = { MB: 1024 ** 2, GB: 1024 ** 3 } as const;

/** `512MB` or `2GB`. */
export function amountOf(what: string): z.ZodString {
  return z.string().regex(/^[1-9]\d*(?:MB|GB)$/, `an amount of ${what} is written like 512MB or 2GB`);
}

/** Of one that is of the schema. */
export function bytesOf(amount: string): number {
  const unit = amount.endsWith('GB') ? units.GB : units.MB;
  return Number.parseInt(amount, 10) * unit;
}
