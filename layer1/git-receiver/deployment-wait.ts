/**
 * A push waits for a deployment of its app with all that it has, a place, a git and a hook: where few places are left it waits
 * before it has any of it, and others are pushed meanwhile.
 */
import type { App } from '@flynn/controller/model';
import { pause } from '@flynn/kit/clock';
import type { Logger } from '@flynn/kit/log';
import { withDeadline } from '@flynn/kit/retry';
import type { Platform } from './platform.ts';

const usualLookMs = 10_000;
const answerMs = 15_000;

export class DeploymentWait {
  readonly #log: Logger;
  readonly #lookMs: number;
  readonly #waiting = new Set<string>();

  constructor(options: { log: Logger; lookMs?: number }) {
    this.#log = options.log;
    this.#lookMs = options.lookMs ?? usualLookMs;
  }

  /** Whether a push of the app waits here. */
  isWaiting(appId: string): boolean {
    return this.#waiting.has(appId);
  }

  /** Resolves once no deployment of the app goes on, or it is crowded no more; rejects when the signal aborts. One for each app. */
  async over(
    { id }: Pick<App, 'id'>,
    platform: Pick<Platform, 'isDeploying'>,
    options: { isCrowded: () => boolean; onWait: () => void; signal: AbortSignal },
  ): Promise<void> {
    const { isCrowded, onWait, signal } = options;
    try {
      while (isCrowded() && (await this.#isDeploying(id, platform, signal))) {
        if (!this.#waiting.has(id)) onWait();
        this.#waiting.add(id);
        await pause(this.#lookMs, signal);
        signal.throwIfAborted();
      }
    } finally {
      this.#waiting.delete(id);
    }
  }

  /** Where it cannot be told the push goes on: what it waits for then it is told by its operations. */
  async #isDeploying(id: string, platform: Pick<Platform, 'isDeploying'>, signal: AbortSignal): Promise<boolean> {
    try {
      return await platform.isDeploying(id, { signal: withDeadline(answerMs, signal) });
    } catch (error) {
      signal.throwIfAborted();
      this.#log.debug({ err: error, app: id }, 'whether an app is being deployed cannot be told');
      return false;
    }
  }
}
