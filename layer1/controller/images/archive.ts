/**
 * A tar archive laid out on the disk, so that its files can be read in any order.
 *
 * INVARIANT: nothing in the archive names a path of this machine. Files are kept under numbers, links are names of other
 * entries: an archive that was made to write or read elsewhere has nowhere to point at.
 */
import { once } from 'node:events';
import { createReadStream, createWriteStream } from 'node:fs';
import { join, posix } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { text } from 'node:stream/consumers';
import { decompressorOf } from '@flynn/kit/compression';
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import { extract } from 'tar-stream';

export type ArchivedFile = { path: string; sizeBytes: number };

/** What is read as text is small; somebody else's archive may say otherwise. */
const maxTextBytes = 8 * 1024 ** 2;

export class Archive {
  readonly #files: ReadonlyMap<string, ArchivedFile>;
  readonly #links: ReadonlyMap<string, string>;

  private constructor(files: ReadonlyMap<string, ArchivedFile>, links: ReadonlyMap<string, string>) {
    this.#files = files;
    this.#links = links;
  }

  /**
   * Reads a tar archive, plain or compressed, into the folder, which is the caller's to remove. `invalid` if it is none, or cut
   * off.
   */
  static async unpack(input: Readable, folder: string, signal: AbortSignal): Promise<Archive> {
    const files = new Map<string, ArchivedFile>();
    const links = new Map<string, string>();
    try {
      const archive = extract();
      const unpacked = decompressorOf(await headOf(input, signal));
      const reading = pipeline([input, ...(unpacked === undefined ? [] : [unpacked]), archive], { signal });
      const laying = async (): Promise<void> => {
        for await (const entry of archive) {
          const { name, type, linkname } = entry.header;
          if (type === 'file') {
            const path = join(folder, String(files.size));
            await pipeline(Readable.from(entry), createWriteStream(path), { signal });
            files.set(posix.normalize(name), { path, sizeBytes: entry.header.size });
          } else if ((type === 'symlink' || type === 'link') && typeof linkname === 'string') {
            const target = type === 'link' ? linkname : posix.join(posix.dirname(name), linkname);
            links.set(posix.normalize(name), posix.normalize(target));
          }
          entry.resume();
        }
      };
      await Promise.all([laying(), reading]);
    } catch (error) {
      signal.throwIfAborted();
      if (hasCode(error, 'unavailable', 'timeout', 'exhausted')) throw error;
      throw new FlynnError('invalid', `this is no archive of an image, or it was cut off: ${messageOf(error)}`);
    }
    if (files.size === 0) throw new FlynnError('invalid', 'this is no archive of an image: there are no files in it');
    return new Archive(files, links);
  }

  find(name: string): ArchivedFile | undefined {
    const at = posix.normalize(name);
    const target = this.#links.get(at);
    return this.#files.get(at) ?? (target === undefined ? undefined : this.#files.get(target));
  }

  file(name: string): ArchivedFile {
    const found = this.find(name);
    if (found === undefined) throw new FlynnError('invalid', `the archive of the image lacks the file ${name}`);
    return found;
  }

  async text(name: string): Promise<string> {
    const { path, sizeBytes } = this.file(name);
    if (sizeBytes > maxTextBytes) {
      throw new FlynnError('invalid', `${name} in the archive of the image is ${sizeBytes} bytes: that is no image`);
    }
    return text(createReadStream(path));
  }
}

/** The first bytes, which stay to be read. */
async function headOf(input: Readable, signal: AbortSignal): Promise<Buffer> {
  const ended = new AbortController();
  const either = AbortSignal.any([signal, ended.signal]);
  input.once('end', () => ended.abort());
  for (;;) {
    const head: unknown = input.read();
    if (Buffer.isBuffer(head)) {
      input.unshift(head);
      return head;
    }
    if (input.readableEnded) return Buffer.alloc(0);
    try {
      await once(input, 'readable', { signal: either });
    } catch (error) {
      if (!ended.signal.aborted) throw error;
    }
  }
}
