/** How far a drain is, on disk: a file of its own for each. */
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { readJsonFile, writeFileAtomic } from '@flynn/kit/files';
import { z } from 'zod';

const positionSchema = z.object({ byte: z.int(), line: z.int() });
/** Lines that never get there, of this time and before as long as no day passed between. */
const missedSchema = z.object({ count: z.int(), atMs: z.number(), why: z.string() });
export type Missed = z.output<typeof missedSchema>;
const dayMs = 24 * 3_600_000;

const stateSchema = z.object({
  /** The place in each app's log up to which everything is done with. */
  positions: z.record(z.string(), positionSchema),
  sent: z.int(),
  failed: z.int(),
  skipped: z.int(),
  /** What the other side refused for good, what was deleted before it could be sent, and what the disk did not keep. */
  gaveUp: missedSchema.optional(),
  lost: missedSchema.optional(),
  damaged: missedSchema.optional(),
});
export type DrainState = z.output<typeof stateSchema>;

export function withMissed(before: Missed | undefined, { count, atMs, why }: Missed): Missed {
  const isOld = before === undefined || Math.abs(atMs - before.atMs) >= dayMs;
  return { count: count + (isOld ? 0 : before.count), atMs, why };
}

export class DrainStates {
  readonly #dir: string;

  constructor(dir: string) {
    this.#dir = join(dir, 'drains');
  }

  #file(id: string): string {
    return join(this.#dir, `${encodeURIComponent(id).replaceAll('.', '%2E')}.json`);
  }

  /** undefined of a drain that is new. `invalid` if the file is damaged. */
  async read(id: string): Promise<DrainState | undefined> {
    await mkdir(this.#dir, { recursive: true });
    return readJsonFile(this.#file(id), stateSchema);
  }

  async write(id: string, state: DrainState): Promise<void> {
    await writeFileAtomic(this.#file(id), JSON.stringify(state));
  }

  async remove(id: string): Promise<void> {
    await rm(this.#file(id), { force: true });
  }

  async ids(): Promise<string[]> {
    await mkdir(this.#dir, { recursive: true });
    return (await readdir(this.#dir)).flatMap((name) =>
      name.endsWith('.json') && !name.startsWith('.') ? [decodeURIComponent(name.slice(0, -'.json'.length))] : [],
    );
  }
}
