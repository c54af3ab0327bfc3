/** Lists in pages: `limit` of them, then `after` the last one that was seen. Without either the list is whole, as ever. */
import { integer } from '@flynn/kit/config';
import { FlynnError } from '@flynn/kit/errors';
import { z } from 'zod';

export const pageQuery = z.object({
  /** At most so many; default: all. */
  limit: integer.pipe(z.int().min(1).max(1_000)).optional(),
  /** The id of the last one of the page before. */
  after: z.string().optional(),
});
export type Page = z.output<typeof pageQuery>;

/** The part of a sorted list that is asked for; `conflict` when the one it goes on after is gone. */
export function pageOf<T>(all: readonly T[], { limit, after }: Page, idOf: (one: T) => string): T[] {
  const start = after === undefined ? 0 : all.findIndex((one) => idOf(one) === after) + 1;
  if (after !== undefined && start === 0) {
    throw new FlynnError('conflict', `"${after}" is not in the list any more: read it again from the start`);
  }
  return all.slice(start, limit === undefined ? undefined : start + limit);
}
