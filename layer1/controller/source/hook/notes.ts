/** What came in at a hook, for people who look why nothing happens. */
import { FlynnError } from '@flynn/kit/errors';
import { withDeadline } from '@flynn/kit/retry';
import type { Deps } from '../../deps.ts';
import type { Verdict } from './event.ts';
import { hookType } from './resource.ts';
import type { HookResource, HookStatus } from './resource.ts';

const writeMs = 10_000;
/** Strangers have one value written, and no more often than that; so has who tells the same again and again. */
const pauseMs = 60_000;

export class HookNotes {
  readonly #deps: Pick<Deps, 'resources' | 'now' | 'log'>;
  readonly #writing = new Set<string>();

  constructor(deps: Pick<Deps, 'resources' | 'now' | 'log'>) {
    this.#deps = deps;
  }

  /** Nobody waits for it: how long an answer takes tells nobody whether there is such a hook. Never rejects. */
  async refused(hook: HookResource, why: string, from: string): Promise<void> {
    const atMs = this.#deps.now();
    if (this.#writing.has(hook.id) || !isDue(hook.status.refused, atMs)) return;
    this.#writing.add(hook.id);
    const refused = { atMs, why, from };
    await this.#write(hook, (status) => (isDue(status.refused, atMs) ? { ...status, refused } : status));
    this.#writing.delete(hook.id);
  }

  /** Never rejects: what was asked for is done. */
  async heard(hook: HookResource, verdict: Verdict): Promise<void> {
    const last = { ...verdict, atMs: this.#deps.now() };
    await this.#write(hook, (status) => (isNews(status.last, last) ? { ...status, last } : status));
  }

  async #write({ id, uid }: HookResource, next: (status: HookStatus) => HookStatus): Promise<void> {
    const { resources, log } = this.#deps;
    try {
      const signal = withDeadline(writeMs);
      await resources.updateStatus(hookType, id, ({ status }) => next(status), { signal, expectUid: uid });
    } catch (error) {
      const text = 'what came in at a hook could not be written down';
      if (error instanceof FlynnError) log.debug({ err: error, hook: id }, text);
      else log.error({ err: error, hook: id }, text);
    }
  }
}

/** A moment that is ahead was told by a clock that was. */
function isDue(kept: { atMs: number } | undefined, nowMs: number): boolean {
  return kept === undefined || Math.abs(nowMs - kept.atMs) >= pauseMs;
}

function isNews(kept: HookStatus['last'], next: NonNullable<HookStatus['last']>): boolean {
  return kept?.outcome !== next.outcome || kept.what !== next.what || isDue(kept, next.atMs);
}
