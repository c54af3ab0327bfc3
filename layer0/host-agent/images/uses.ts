/** When each image was needed last and which were pulled by this agent, kept on disk over its restarts. */
import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { systemClock } from '@flynn/kit/clock';
import { messageOf } from '@flynn/kit/errors';
import { readJsonFile, writeFileAtomic } from '@flynn/kit/files';
import type { Logger } from '@flynn/kit/log';
import { Mutex } from '@flynn/kit/queue';
import { z } from 'zod';

const fileSchema = z.object({ pulled: z.array(z.string()), usedAt: z.record(z.string(), z.number()) });

export class ImageUses {
  readonly #path: string;
  readonly #log: Logger;
  readonly #usedAt = new Map<string, number>();
  readonly #pulled = new Set<string>();
  readonly #saving = new Mutex();
  #isFailing = false;

  constructor(options: { path: string; log: Logger }) {
    this.#path = options.path;
    this.#log = options.log;
  }

  /** Without the file every image is as if it had been needed a moment ago. */
  async load(): Promise<void> {
    try {
      await mkdir(dirname(this.#path), { recursive: true });
      const file = await readJsonFile(this.#path, fileSchema);
      for (const [id, at] of Object.entries(file?.usedAt ?? {})) this.#usedAt.set(id, at);
      for (const name of file?.pulled ?? []) this.#pulled.add(name);
    } catch (error) {
      this.#log.warn(`counting all images as just used: ${messageOf(error)}`);
    }
  }

  get pulled(): ReadonlySet<string> {
    return this.#pulled;
  }

  /** Noted at once: an agent that ends before the next look would leave an image that nobody ever removes. */
  async notePulled(name: string): Promise<void> {
    if (this.#pulled.has(name)) return;
    this.#pulled.add(name);
    await this.#save();
  }

  idleMsOf(imageId: string): number | undefined {
    const at = this.#usedAt.get(imageId);
    // A clock that was set back must not keep an image for ever.
    return at === undefined ? undefined : Math.abs(systemClock.now() - at);
  }

  /**
   * `present`: all images there are; those in use, and those never heard of, count as needed now. `pulled`: what it was before
   * these were listed; what was pulled since may be missing from the list. A disk without room for it keeps nobody from making
   * some.
   */
  async note(
    present: readonly { id: string; refs: readonly string[] }[],
    { inUse, pulled }: { inUse: ReadonlySet<string>; pulled: ReadonlySet<string> },
  ): Promise<void> {
    const ids = new Set(present.map(({ id }) => id));
    const refs = new Set(present.flatMap((image) => image.refs));
    for (const id of this.#usedAt.keys()) if (!ids.has(id)) this.#usedAt.delete(id);
    for (const name of pulled) if (!refs.has(name)) this.#pulled.delete(name);
    const now = systemClock.now();
    for (const id of ids) if (inUse.has(id) || !this.#usedAt.has(id)) this.#usedAt.set(id, now);
    await this.#save();
  }

  async #save(): Promise<void> {
    try {
      await this.#saving.run(() => {
        const file = { pulled: [...this.#pulled], usedAt: Object.fromEntries(this.#usedAt) };
        return writeFileAtomic(this.#path, JSON.stringify(file));
      });
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) this.#log.warn(`noting when images were needed: ${messageOf(error)}`);
      this.#isFailing = true;
    }
  }
}
