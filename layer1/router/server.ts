/** The router's own HTTP API. */
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { routes } from './api.ts';
import type { Status } from './api.ts';

export function statusHandlers(router: { status(): Status }): Handler[] {
  return [handle(routes.status, async () => router.status())];
}
