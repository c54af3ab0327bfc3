/** The router's own HTTP API. */
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { routes } from './api.ts';
import type { Status } from './api.ts';
import type { Knowledge } from './knowledge.ts';

export function statusHandlers(router: { status(): Status; knowledge: Knowledge }): Handler[] {
  return [
    handle(routes.status, async () => router.status()),
    handle(routes.word, async ({ body: { waitMs, ...word }, signal }) => ({
      isSo: await router.knowledge.becomesSo(word, { waitMs, signal }),
    })),
  ];
}
