/** Compression of what is large: layers of images, slugs, caches. */
import { open } from 'node:fs/promises';
import type { Transform } from 'node:stream';
import zlib, { createGunzip, createZstdCompress, createZstdDecompress } from 'node:zlib';

const gzipMagic = Buffer.from([0x1f, 0x8b]);
const zstdMagic = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);

/** By themselves Node's streams hand on 16 KiB at a time, each by way of another thread: twice the CPU, and three times as long. */
const chunkSize = 256 * 1024;

export const fromZstd = (): Transform => createZstdDecompress({ chunkSize });

/** `level` is zstd's, 1 to 22. */
export const toZstd = (level: number): Transform =>
  createZstdCompress({ chunkSize, params: { [zlib.constants.ZSTD_c_compressionLevel]: level } });

/** What undoes the compression, gzip's or zstd's, of something that begins like this; undefined where there is none. */
export function decompressorOf(head: Buffer): Transform | undefined {
  if (head.subarray(0, 2).equals(gzipMagic)) return createGunzip({ chunkSize });
  if (head.subarray(0, 4).equals(zstdMagic)) return fromZstd();
  return undefined;
}

/** As many of its first bytes as tell how it is compressed. */
export async function headOfFile(path: string): Promise<Buffer> {
  await using file = await open(path);
  const head = Buffer.alloc(4);
  const { bytesRead } = await file.read(head, 0, head.length, 0);
  return head.subarray(0, bytesRead);
}
