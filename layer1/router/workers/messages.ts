/** What the router's parent process and its workers say to each other. */
import { z } from 'zod';

export const fromParent = z.object({ id: z.int(), question: z.string(), input: z.unknown() });
export type FromParent = z.output<typeof fromParent>;
/** The question that every worker answers at once, if it can say anything at all. */
export const signOfLife = 'alive';

export const fromWorker = z.discriminatedUnion('type', [
  /** It takes connections. */
  z.object({ type: z.literal('serving') }),
  /** It leaves, and nobody asks it any more: all that it has counted. */
  z.object({ type: z.literal('last'), counts: z.unknown() }),
  z.object({ type: z.literal('answer'), id: z.int(), answer: z.unknown() }),
  z.object({ type: z.literal('failure'), id: z.int(), message: z.string() }),
]);
export type FromWorker = z.output<typeof fromWorker>;
