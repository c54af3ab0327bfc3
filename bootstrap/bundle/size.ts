/** What a bundle says of itself before anything is unpacked, and how much room it will take. */
import { open } from 'node:fs/promises';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { bundleFile, bundleSchema } from '../origin.ts';
import { runProgram } from '../machine/program.ts';

export type BundleSize = Readonly<{
  version: string;
  features: readonly string[];
  /** Tags, as engines name them. */
  images: readonly string[];
  fileBytes: number;
  unpackedBytes: number;
  /** What an engine is handed with all images. */
  imagesBytes: number;
}>;

const readMs = 60_000;
/** Images compress to a third. */
const imagesFactor = 3;
const wordBytes = 2 ** 32;

/** `invalid` for what is no bundle. */
export async function sizeOfBundle(file: string): Promise<BundleSize> {
  try {
    // Among its first files: the rest is not read.
    const args = ['-xzOf', file, '--force-local', '--occurrence=1', `flynn/${bundleFile}`];
    const text = await runProgram('tar', args, { timeoutMs: readMs });
    const { version, features, images, imagesBytes } = bundleSchema.parse(JSON.parse(text));
    const { fileBytes, unpackedBytes } = await sizesOf(file);
    return {
      version,
      features,
      images: Object.values(images),
      fileBytes,
      unpackedBytes,
      imagesBytes: imagesBytes ?? fileBytes * imagesFactor,
    };
  } catch (error) {
    throw new FlynnError('invalid', `${file} is no bundle of flynn, or a damaged one: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

/** RFC 1952: its last four bytes are the size before compression, without what is above 32 bits. */
async function sizesOf(file: string): Promise<{ fileBytes: number; unpackedBytes: number }> {
  await using handle = await open(file);
  const { size: fileBytes } = await handle.stat();
  const { buffer } = await handle.read(Buffer.alloc(4), 0, 4, fileBytes - 4);
  let unpackedBytes = buffer.readUInt32LE();
  while (unpackedBytes < fileBytes) unpackedBytes += wordBytes;
  return { fileBytes, unpackedBytes };
}
