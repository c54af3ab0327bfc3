/** The API of what people do to a deployment under way. Each twice is the same as once; out of place it is a `conflict`. */
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import { deploymentSchema } from '../model.ts';

export const deploymentControls = {
  pause: defineRoute({
    method: 'POST',
    path: '/deployments/:deployment/pause',
    access: 'app developer',
    response: deploymentSchema,
    summary: 'Take no more steps until it is resumed or aborted; what was asked for already comes up',
  }),
  resume: defineRoute({
    method: 'POST',
    path: '/deployments/:deployment/resume',
    access: 'app developer',
    response: deploymentSchema,
    summary: 'Go on with a paused deployment',
  }),
  promote: defineRoute({
    method: 'POST',
    path: '/deployments/:deployment/promote',
    access: 'app developer',
    response: deploymentSchema,
    summary: 'Roll out the rest of a canary deployment; refused unless its canaries are up and healthy',
  }),
  abort: defineRoute({
    method: 'POST',
    path: '/deployments/:deployment/abort',
    access: 'app developer',
    body: z.object({ reason: z.string().max(200).optional() }),
    response: deploymentSchema,
    summary: 'Back to the old release; refused once the new one is live',
  }),
} as const;
