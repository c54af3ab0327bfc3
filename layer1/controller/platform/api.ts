/** The API of what is there for all: logs, changes as they happen, the cluster. */
import { linesQuerySchema } from '@flynn/log-aggregator/api';
import { defineRoute, linesType } from '@flynn/kit/routes';
import { z } from 'zod';

export const platform = {
  /** ndjson of the log aggregator's Line; empty lines in between mean nothing. */
  log: defineRoute({
    method: 'GET',
    path: '/apps/:app/log',
    access: 'app viewer',
    query: linesQuerySchema,
    response: 'stream',
    responseType: linesType,
    summary: "An app's log",
  }),
  /**
   * Every change to what the controller keeps; resume with Last-Event-ID. `?app=` narrows it. The current state comes first
   * unless resumed: `current` marks its end.
   */
  events: defineRoute({
    method: 'GET',
    path: '/events',
    access: 'anybody',
    query: z.object({ app: z.string().optional(), types: z.string().optional() }),
    response: 'events',
    isResumable: true,
    summary: 'Changes as they happen',
  }),
  /** `not_found` where there is none. Who sends somebody there knows that it is the platform's own. */
  dashboard: defineRoute({
    method: 'GET',
    path: '/dashboard',
    access: 'anybody',
    response: z.object({ url: z.string() }),
    summary: 'Where the web page of the cluster is',
  }),
  cluster: defineRoute({
    method: 'GET',
    path: '/cluster',
    access: 'anybody',
    response: z.object({
      name: z.string(),
      domain: z.string(),
      /** Where what is at `domain` answers too, until they are dropped; newest first. */
      formerDomains: z.array(z.string()).default([]),
      gitUrl: z.string(),
      /** What the host at gitUrl shows to ssh. */
      gitHostKey: z.string().optional(),
      httpPort: z.int(),
      version: z.string(),
      /** The image new slugs are stacked on; an artifact may also say `slug-runner` as its base. */
      slugRunnerImage: z.string().optional(),
      /** Whether runners may be given logins of registries. */
      keepsRegistryLogins: z.boolean().default(true),
      /** Whether builds heed the folder and the Dockerfile that an app's metadata names; a version before builds the top. */
      heedsBuildPlace: z.boolean().default(false),
    }),
    summary: 'What a client needs to know of the cluster',
  }),
} as const;
