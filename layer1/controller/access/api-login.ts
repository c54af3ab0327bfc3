/** Logging in with a provider of identities. The client asks the provider; the controller believes what is signed, for it. */
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import { userName } from './model.ts';

export const login = {
  get: defineRoute({
    method: 'GET',
    path: '/login',
    access: 'open',
    response: z.object({ issuer: z.string(), clientId: z.string(), scope: z.string() }),
    summary: 'Where to log in; not_found where users have tokens only',
  }),
  create: defineRoute({
    method: 'POST',
    path: '/login',
    access: 'open',
    body: z.object({
      idToken: z.string().max(16_384),
      nonce: z.string().min(16).max(200),
      /** What the nonce is made of: a client of a version before made it of nothing, and tells none. */
      bound: z.object({ host: z.string().min(1).max(255), secret: z.string().min(16).max(200) }).optional(),
      /** What came with it: the provider tells the rest of who it is for this. */
      accessToken: z.string().min(1).max(16_384).optional(),
    }),
    response: z.object({ user: userName, token: z.string(), expiresAt: z.string() }),
    summary: "A token for an identity token; one's teams become those named like one's groups",
  }),
} as const;
