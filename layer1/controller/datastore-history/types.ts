/**
 * What the controller keeps of datastores' histories: copies of all there was, and the log of what was written after them, as
 * blobs under the key that backups have (datastore-backups/types.ts). Both types have the id of the datastore's app, which owns
 * them. What is written every minute is small; what grows with the days is written with every sixteenth piece of the log.
 */
import { defineType } from '@flynn/resource/type';
import type { ResourceOf } from '@flynn/resource/type';
import { z } from 'zod';

const storedSchema = z.object({
  digest: z.string(),
  blobBytes: z.int(),
  /** Of what the datastore's program wrote. */
  bytes: z.int(),
  /** Nobody has it any more, or as it was: a gap. One that is found again is not (looking.ts). */
  isLost: z.boolean().optional(),
  /** It is there, and cannot be read: that does not end. */
  isDamaged: z.boolean().optional(),
});

/** A place in the log: later ones have a later timeline, or are further on. */
const placeSchema = z.object({ timeline: z.int(), lsn: z.int() });

/** A part of the log: what came after the piece before it, up to `end`. */
export const pieceSchema = storedSchema.extend({
  /** Pieces of a run follow each other without a gap. */
  run: z.int(),
  /** How often it was merged of others: see pieces.ts. */
  level: z.int(),
  from: z.int(),
  end: placeSchema,
  /** All that was committed by then is in it, or in those before: by the datastore's clock. */
  untilMs: z.int(),
  /** Of the datastore's files at its end; of one that was merged, the most there were. */
  dataBytes: z.int(),
});
export type Piece = z.output<typeof pieceSchema>;

/** Of a run that is over: what was committed by then is kept, also where nothing was. */
/** When a run that is over began, where that is known, and until when all of it is kept. */
export const endSchema = z.object({ run: z.int(), sinceMs: z.int().optional(), untilMs: z.int() });

/** A copy of all there was. With the log from `start` on, to `readyMs` at least, it is of use. */
const baseSchema = storedSchema.extend({
  run: z.int(),
  start: placeSchema,
  startedMs: z.int(),
  endedMs: z.int(),
  /** It had ended by then, by the datastore's clock; none until the log was collected after that. */
  readyMs: z.int().optional(),
  /** By then it had ended, too: an LSN. */
  readyLsn: z.int().optional(),
  /** Of the datastore's files. */
  dataBytes: z.int(),
});
export type Base = z.output<typeof baseSchema>;

const missingSchema = z.object({
  digest: z.string(),
  /** In each look since then, so many, the last of which was at `seenMs`. */
  sinceMs: z.int(),
  seenMs: z.int(),
  times: z.int(),
  /** It is there, and has to be read to be believed. */
  isDamaged: z.boolean().optional(),
});
export type Missing = z.output<typeof missingSchema>;

export const historyType = defineType({
  name: 'datastore-history',
  version: 1,
  /** The app's name, which stays. */
  spec: z.object({ datastore: z.string() }),
  status: z.object({
    /** The newest; another begins where something is missing. */
    run: z.int(),
    /** When it began. */
    begunMs: z.int().optional(),
    /** So many gaps came one soon after the other; none before the first. */
    gaps: z.int().optional(),
    /** Collected to there; none before a run has begun. */
    at: placeSchema.extend({ system: z.string() }).optional(),
    /** All that was committed by then is kept. */
    untilMs: z.int().optional(),
    /** Nothing is collected before. */
    nextMs: z.int(),
    /** Nothing is collected since then. */
    failure: z.object({ sinceMs: z.int(), count: z.int(), message: z.string() }).optional(),
    /** The last one: what was written before and after is there, and not between. */
    gap: z.object({ atMs: z.int(), reason: z.string() }).optional(),
    /** Of runs that are over, as long as they have a copy. */
    ended: z.array(endSchema).optional(),
    /** Pieces cannot be merged since then. */
    unmerged: z
      .object({
        sinceMs: z.int(),
        message: z.string(),
      })
      .optional(),
    /** When its blobs were asked after, and which are missing, but not given up yet: see looking.ts. */
    looked: z
      .object({
        atMs: z.int(),
        /** Not before. */
        nextMs: z.int(),
        missing: z.array(missingSchema),
      })
      .optional(),
    /** What our clock was when it was believed last, and since when it is ahead of that: see forgetting.ts. */
    clock: z.object({ believedMs: z.int().optional(), aheadMs: z.int().optional() }).optional(),
    /** The newest pieces, not merged yet: see mostRecent in plan.ts. */
    recent: z.array(pieceSchema),
    /** What the catalogue has in it: see catalogue.ts. */
    catalogued: z.string().optional(),
    /** The copy under way, or the last try. */
    base: z
      .object({
        run: z.int(),
        attempt: z.int(),
        startedMs: z.int(),
        start: placeSchema,
        /** Not before. */
        nextMs: z.int(),
        error: z.string().optional(),
        /** Of the first one that failed. */
        failingSinceMs: z.int().optional(),
      })
      .optional(),
  }),
  initialStatus: () => ({ run: 0, nextMs: 0, recent: [] }),
  immutable: ['datastore'],
  owner: 'app',
  cascades: false,
});
export type HistoryResource = ResourceOf<typeof historyType>;
export type HistoryStatus = HistoryResource['status'];

/** The oldest first. */
export const archiveStatusSchema = z.object({ bases: z.array(baseSchema), pieces: z.array(pieceSchema) });

export const archiveType = defineType({
  name: 'datastore-archive',
  version: 1,
  spec: z.object({ datastore: z.string() }),
  status: archiveStatusSchema,
  initialStatus: () => ({ bases: [], pieces: [] }),
  immutable: ['datastore'],
  owner: 'app',
  cascades: false,
});
export type ArchiveResource = ResourceOf<typeof archiveType>;
export type Archive = ArchiveResource['status'];
