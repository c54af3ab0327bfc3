/** Who this runner is, towards the controller. */
import { runners } from '@flynn/controller/operations/api-runners';
import type { HttpClient } from '@flynn/kit/http-client';
import type { Logger } from '@flynn/kit/log';
import { retry } from '@flynn/kit/retry';

export type Identity = {
  /** Of this process: an operation claimed under another id is not its own. */
  id: string;
  /** Shows that the id is its own. */
  token: string;
  /** Only operations with labels among these, and those that any runner may have. */
  labels: Readonly<Record<string, string>>;
  /** Only operations that name it. */
  isByIdOnly: boolean;
  version: string;
  slots: number;
};

/** So soon it is in the log that there is nobody; it is tried again for ever. */
const patienceMs = 15_000;

/** `session` is of this process: what an earlier one held under the same id is given up. */
export async function register(
  deps: { identity: Identity; controller: HttpClient; log: Logger },
  session: string,
  signal: AbortSignal,
): Promise<void> {
  const { id, ...rest } = deps.identity;
  const input = { params: { runner: id }, body: { ...rest, session } };
  const { state } = await retry((limited) => deps.controller.call(runners.register, input, { signal: limited }), {
    what: 'registering at the controller',
    deadlineMs: patienceMs,
    signal,
  });
  if (state === 'adopted') deps.log.info({ runner: id }, 'registered');
  else deps.log.warn({ runner: id, state }, `registered, but not adopted: flynn runner adopt ${id}`);
}
