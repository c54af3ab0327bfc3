/** What the pages are answered by their own server. All else they ask is the controller's API, below `/api`. */
import { identitySchema } from '@flynn/controller/access/model';
import { z } from 'zod';

/** `POST /session`: of a person, or of a link that `flynn dashboard` made. */
export const loginSchema = z.strictObject({ token: z.string().min(1).max(512) });

/** Its answer. All else there is to know stands behind `GET /session`. */
export type LoginAnswer = { user: string };

/** Who is logged in, where, and until when (ISO 8601). */
export const sessionSchema = identitySchema.extend({
  user: z.string(),
  cluster: z.string(),
  domain: z.string(),
  expiresAt: z.string().optional(),
});
export type Session = z.output<typeof sessionSchema>;

/** Text messages of a terminal's page; its bytes are binary ones. */
export const fromTerminal = z.object({
  type: z.literal('resize'),
  columns: z.int().min(1).max(10_000),
  rows: z.int().min(1).max(10_000),
});

/** Text messages to it, the last before the end: how the program ended, or why it did not come to that. */
export type ToTerminal =
  | Readonly<{ type: 'exit'; code: number; message?: string }>
  | Readonly<{ type: 'error'; code: string; message: string }>;
