/** What the controller keeps of a type that is scaled by itself. Its id is of the app and the type: one for all releases. */
import { holds } from '@flynn/resource/access';
import { defineType } from '@flynn/resource/type';
import type { ResourceOf } from '@flynn/resource/type';
import { z } from 'zod';
import { settingsSchema, statusSchema } from './model.ts';
import { settingsIssues } from './rules.ts';

export const autoscaleType = defineType({
  name: 'autoscale',
  version: 1,
  spec: settingsSchema.extend({ appId: z.string(), type: z.string() }),
  status: statusSchema,
  initialStatus: () => ({ changes: 0 }),
  immutable: ['appId', 'type'],
  validate: settingsIssues,
  owner: 'app',
  authorise: {
    read: (asking, { owner }) => holds(asking, 'viewer', owner),
    list: () => true,
    write: (asking, owner) => holds(asking, 'developer', owner),
  },
  cascades: false,
});
export type AutoscaleResource = ResourceOf<typeof autoscaleType>;

export function autoscaleId(appId: string, type: string): string {
  return `${appId}-${type}`;
}
