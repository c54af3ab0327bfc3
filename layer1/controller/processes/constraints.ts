/** On which hosts may jobs of a process type be? The same may be asked as of Layer 0, read strictly. */
import { hostTagName } from '@flynn/kit/names';
import { constraintSchema } from '@flynn/scheduler/cell';
import type { Constraint } from '@flynn/scheduler/cell';
import { z } from 'zod';

/** What a host may be tagged with. */
export const hostTagValue = z.string().max(256);

/** Whether no two of its jobs are ever on one host. */
export function isApart({ constraints = [] }: { constraints?: readonly Constraint[] | undefined }): boolean {
  return constraints.some(({ operator, attribute }) => operator === 'distinct' && attribute === 'host');
}

const takesValues = (operator: Constraint['operator']) => operator === 'in' || operator === 'not_in';

/** `attribute`: a tag, an attribute of the host's own, or `host`, its id. */
export const processConstraintSchema = constraintSchema
  .extend({ attribute: hostTagName, values: z.array(hostTagValue).max(100).default([]) })
  .refine(({ operator, values }) => !takesValues(operator) || values.length > 0, {
    path: ['values'],
    error: 'in and not_in compare with values: give at least one, as in values: ["ssd"]',
  })
  .refine(({ operator, values }) => takesValues(operator) || values.length === 0, {
    path: ['values'],
    error: 'exists, missing and distinct compare with no values: leave them out',
  });

/** As `flynn constraint set` reads it. */
export function typedConstraint({ attribute, operator, values }: Constraint): string {
  switch (operator) {
    case 'in':
      return `${attribute}=${values.join(',')}`;
    case 'not_in':
      return `${attribute}!=${values.join(',')}`;
    case 'exists':
      return attribute;
    case 'missing':
      return `!${attribute}`;
    case 'distinct':
      return `distinct:${attribute}`;
    default:
      return operator satisfies never;
  }
}
