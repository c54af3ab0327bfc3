/** Where backups are kept: a port of four calls, and its driver for a directory of a host. */
import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { backupFileRoutes } from '@flynn/host-agent/disk/backup-files';
import type { Bytes } from './archive.ts';

export type BackupTarget = Readonly<{
  /** It is there whole, or not at all, and replaces one of that name. Answers once it is kept. */
  put(name: string, body: Bytes, signal: AbortSignal): Promise<{ sizeBytes: number; sha256: string }>;
  /**
   * Removes what puts of names that begin so left behind because their maker was killed, unless each put does so by itself.
   * None of them may be under way.
   */
  clear(beginning: string, signal: AbortSignal): Promise<void>;
  /** Names of what is there that begin so: a bucket may have a million others. `not_found` if the place is not. */
  list(beginning: string, signal: AbortSignal): Promise<string[]>;
  /** One that is not there is fine. */
  remove(name: string, signal: AbortSignal): Promise<void>;
}>;

/** A slow disk and many blobs take their time. */
const putMs = 12 * 60 * 60_000;

/** Where that host has mounted what the directory is on, if it has; `unknown` while its agent does not tell. */
export async function askMount(
  client: HttpClient,
  directory: string,
  signal: AbortSignal,
): Promise<{ mount?: string | undefined } | 'unknown'> {
  try {
    return await client.call(backupFileRoutes.mount, { query: { directory } }, { signal });
  } catch (error) {
    // One of a version before has no such route; and of a folder that is not there, writing to it tells.
    if (hasCode(error, 'not_found')) return 'unknown';
    throw error;
  }
}

/**
 * `client` is asked before each call: the host may have another address by then. `mount`: where what the directory is on was
 * mounted when it was chosen; `conflict` while it is not, because what is put there would be on the disk that it is to
 * outlive.
 */
export function directoryTarget(client: () => HttpClient, directory: string, mount?: string): BackupTarget {
  const checkMount = async (signal: AbortSignal): Promise<void> => {
    if (mount === undefined) return;
    const found = await askMount(client(), directory, signal);
    if (found === 'unknown' || found.mount === mount) return;
    const { mount: now } = found;
    throw new FlynnError(
      'conflict',
      `${directory} was on what is mounted at ${mount} when it was chosen, and is on ${now === undefined ? 'the disk of the system' : `what is mounted at ${now}`} now: mount it, or set the schedule again for the directory as it is`,
    );
  };
  const pathOf = (name: string): string => `${directory.replace(/\/$/, '')}/${name}`;
  return {
    async put(name, body, signal) {
      await checkMount(signal);
      const hash = createHash('sha256');
      const hashed = async function* (): AsyncGenerator<Uint8Array> {
        for await (const chunk of body) {
          hash.update(chunk);
          yield chunk;
        }
      };
      const kept = await client().call(
        backupFileRoutes.put,
        { query: { path: pathOf(name) }, body: Readable.from(hashed(), { objectMode: false }) },
        { signal, timeoutMs: putMs },
      );
      if (kept.sha256 === hash.digest('hex')) return kept;
      await client().call(backupFileRoutes.remove, { query: { path: pathOf(name) } }, { signal });
      throw new FlynnError(
        'internal',
        `what the host read back of ${pathOf(name)} is not what was sent: see to its disk`,
      );
    },
    // The host's agent removes what is left whenever it writes.
    clear: async () => undefined,
    async list(beginning, signal) {
      const found = await client().call(backupFileRoutes.list, { query: { directory } }, { signal });
      return found.map(({ name }) => name).filter((name) => name.startsWith(beginning));
    },
    remove: (name, signal) => client().call(backupFileRoutes.remove, { query: { path: pathOf(name) } }, { signal }),
  };
}
