/** How far each container's log was read, kept on disk so that a restart loses no lines, and repeats few. */
import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { pause } from '@flynn/kit/clock';
import { readJsonFile, writeFileAtomic } from '@flynn/kit/files';
import { messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { z } from 'zod';
import type { Cursor, Position } from './lines.ts';

const nanoseconds = z.string().regex(/^\d+$/);
const positionSchema = z.object({ timestampNs: nanoseconds, count: z.int(), highestNs: nanoseconds.optional() });
const fileSchema = z.record(
  z.string(),
  z.object({ stdout: positionSchema.optional(), stderr: positionSchema.optional(), endedAtMs: z.number().optional() }),
);

export type ContainerCursor = Readonly<{
  cursor: Cursor;
  /** The end up to which the log was read completely. */
  endedAtMs?: number;
}>;

/** What was read since comes twice after a crash, as after a power cut: no reason to keep the disk, which etcd waits for, busy. */
const saveEveryMs = 5_000;

export class LogCursors {
  readonly #path: string;
  readonly #log: Logger;
  readonly #cursors = new Map<string, ContainerCursor>();
  #isDirty = false;
  #isFailing = false;

  constructor(options: { path: string; log: Logger }) {
    this.#path = options.path;
    this.#log = options.log;
  }

  /** A file that is damaged is set aside: lines may come twice, which their identity makes good. */
  async load(): Promise<void> {
    await mkdir(dirname(this.#path), { recursive: true });
    try {
      const file = (await readJsonFile(this.#path, fileSchema)) ?? {};
      for (const [id, { stdout, stderr, endedAtMs }] of Object.entries(file)) {
        const cursor = { ...positioned('stdout', stdout), ...positioned('stderr', stderr) };
        this.#cursors.set(id, { cursor, ...(endedAtMs === undefined ? {} : { endedAtMs }) });
      }
    } catch (error) {
      this.#log.warn(`reading all logs from their start: ${messageOf(error)}`);
    }
  }

  get(containerId: string): ContainerCursor {
    return this.#cursors.get(containerId) ?? { cursor: {} };
  }

  set(containerId: string, cursor: ContainerCursor): void {
    this.#cursors.set(containerId, cursor);
    this.#isDirty = true;
  }

  keepOnly(containerIds: ReadonlySet<string>): void {
    for (const id of this.#cursors.keys()) {
      if (containerIds.has(id)) continue;
      this.#cursors.delete(id);
      this.#isDirty = true;
    }
  }

  /** Resolves when the signal aborts. Call `save` when nobody sets cursors any more. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await pause(saveEveryMs, signal);
      await this.save();
    }
  }

  async save(): Promise<void> {
    if (!this.#isDirty) return;
    this.#isDirty = false;
    try {
      const file = [...this.#cursors].map(([id, { cursor, endedAtMs }]) => [id, { ...written(cursor), endedAtMs }]);
      await writeFileAtomic(this.#path, JSON.stringify(Object.fromEntries(file)), { isSynced: false });
      this.#isFailing = false;
    } catch (error) {
      this.#isDirty = true;
      // Told once: on a full disk a line every few seconds makes it worse.
      if (this.#isFailing) return;
      this.#isFailing = true;
      this.#log.warn(`could not save how far logs are read; after a restart lines may come twice: ${messageOf(error)}`);
    }
  }
}

function positioned(stream: 'stdout' | 'stderr', saved: z.output<typeof positionSchema> | undefined): Cursor {
  if (saved === undefined) return {};
  const { timestampNs, count, highestNs } = saved;
  const position: Position = {
    timestampNs: BigInt(timestampNs),
    count,
    ...(highestNs === undefined ? {} : { highestNs: BigInt(highestNs) }),
  };
  return { [stream]: position };
}

function written(cursor: Cursor): Record<string, z.output<typeof positionSchema>> {
  return Object.fromEntries(
    Object.entries(cursor).map(([stream, { timestampNs, count, highestNs }]) => [
      stream,
      {
        timestampNs: String(timestampNs),
        count,
        ...(highestNs === undefined ? {} : { highestNs: String(highestNs) }),
      },
    ]),
  );
}
