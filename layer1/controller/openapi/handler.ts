/** The document, for everybody: it says what there is, not what is in it. */
import type { Handler } from '@flynn/kit/http-server';
import { handle } from '@flynn/kit/http-server';
import { defineRoute } from '@flynn/kit/routes';
import { z } from 'zod';
import { openApiDocument } from './document.ts';

export const openApi = {
  get: defineRoute({
    method: 'GET',
    path: '/openapi.json',
    access: 'open',
    response: z.record(z.string(), z.unknown()),
    summary: 'This document: OpenAPI 3.1',
  }),
} as const;

/** Describes the handlers, and itself. */
export function openApiHandler(handlers: readonly Handler[], info: { version: string }): Handler {
  const routes = [...handlers.map(({ route }) => route), openApi.get];
  let made: ReturnType<typeof openApiDocument> | undefined;
  return handle(openApi.get, async () => (made ??= openApiDocument(routes, info)));
}
