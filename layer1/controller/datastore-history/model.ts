/** A datastore's history as people see it. */
import { z } from 'zod';

export const maxHistoryDays = 30;

/** From and until when one can go back, both included. */
const rangeSchema = z.object({ from: z.string(), until: z.string() });

export const datastoreHistorySchema = z.object({
  /** Its app's name. */
  datastore: z.string(),
  /** 0: nothing is kept. */
  days: z.int(),
  /** The oldest first. Between two of them something is missing. */
  ranges: z.array(rangeSchema),
  /** Of all that is kept, in the blob store. */
  bytes: z.int(),
  /** When the newest whole copy was begun. */
  copiedAt: z.string().optional(),
  /** Nothing was collected since then. */
  failure: z.object({ since: z.string(), message: z.string() }).optional(),
  /** No copy could be made since then. */
  copyFailure: z.object({ since: z.string(), message: z.string() }).optional(),
  /** The last one of which something is missing. */
  gap: z.object({ at: z.string(), reason: z.string() }).optional(),
});
export type DatastoreHistory = z.output<typeof datastoreHistorySchema>;
