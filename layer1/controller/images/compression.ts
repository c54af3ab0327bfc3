/** Layers come as plain tar files, or compressed with gzip or zstd: their first bytes tell. */
import { open } from 'node:fs/promises';
import type { Transform } from 'node:stream';
import { createGunzip, createZstdDecompress } from 'node:zlib';

const gzipMagic = Buffer.from([0x1f, 0x8b]);
const zstdMagic = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);

/** What undoes the compression of something that begins like this; undefined where there is none. */
export function decompressorOf(head: Buffer): Transform | undefined {
  if (head.subarray(0, 2).equals(gzipMagic)) return createGunzip();
  if (head.subarray(0, 4).equals(zstdMagic)) return createZstdDecompress();
  return undefined;
}

export async function headOfFile(path: string): Promise<Buffer> {
  await using file = await open(path);
  const head = Buffer.alloc(4);
  const { bytesRead } = await file.read(head, 0, head.length, 0);
  return head.subarray(0, bytesRead);
}
