/** The router's own HTTP API. */
import type { Word } from '@flynn/discovery/routers';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { routes } from './api.ts';
import type { Status } from './api.ts';

/** What a router says of itself, whether it is one process or several. */
export type Told = {
  status(): Promise<Status>;
  /** Whether it becomes so while it is waited for. */
  isSo(word: Word, options: { waitMs: number; signal: AbortSignal }): Promise<boolean>;
};

export function statusHandlers(told: Told): Handler[] {
  return [
    handle(routes.status, async () => told.status()),
    handle(routes.word, async ({ body: { waitMs, ...word }, signal }) => ({
      isSo: await told.isSo(word, { waitMs, signal }),
    })),
  ];
}
