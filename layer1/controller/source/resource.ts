/** What the controller keeps of a repository that an app follows. Its id is the app's: it follows one. */
import { holds } from '@flynn/resource/access';
import { defineType } from '@flynn/resource/type';
import type { Resource } from '@flynn/resource/type';
import { z } from 'zod';
import { sourceSchema } from './model.ts';

const specSchema = sourceSchema.pick({ appId: true, url: true, branch: true, everyMs: true }).extend({
  /** An admin of the cluster said so: it may be inside. */
  isOpen: z.boolean(),
});
const statusSchema = sourceSchema
  .pick({ commit: true, pollId: true, isWanted: true, failures: true, error: true })
  .extend({
    /** How many looks there were, and how many of them brought something: what their ids follow from. */
    polls: z.int(),
    pushes: z.int(),
    /** The chain of operations of `commit`. */
    pushId: z.string().optional(),
    /** The last look that has ended. */
    lastPollId: z.string().optional(),
    polledMs: z.int().optional(),
    nextMs: z.int(),
  });

export const sourceType = defineType({
  name: 'source',
  version: 1,
  spec: specSchema,
  status: statusSchema,
  initialStatus: () => ({ polls: 0, pushes: 0, failures: 0, nextMs: 0 }),
  owner: 'app',
  authorise: {
    read: (asking, { owner }) => holds(asking, 'viewer', owner),
    list: () => true,
  },
  cascades: false,
});

export type SourceResource = Resource<z.output<typeof specSchema>, z.output<typeof statusSchema>>;
