/** The catalogue that a cluster finds in the blob store, also where it is spoilt. */
import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import { checkDigest } from '@flynn/blobstore/client';
import { startTestBlobs } from '../testing/blobs.ts';
import { readCatalogue, writeCatalogue } from './catalogue.ts';
import { archive, copy } from './history-fixture.ts';

test('one that is damaged is none; what fails for a moment is no answer', async () => {
  await using store = await startTestBlobs();
  const { blobs } = store;
  const options = { secret: Buffer.alloc(32, 7).toString('base64'), signal: AbortSignal.timeout(60_000) };
  const listed = { run: 1, recent: [], archive: archive([copy(0)]) };
  await writeCatalogue(blobs, 'app', listed, options);
  assert.deepEqual((await readCatalogue(blobs, 'app', options))?.archive, listed.archive);
  const getName = (name: string) => blobs.getName(name);
  const damaged = async (digest: string) => {
    const other = checkDigest(`sha256:${'0'.repeat(64)}`);
    return Readable.from(await blobs.get(digest)).pipe(other);
  };
  assert.equal(await readCatalogue({ getName, get: damaged }, 'app', options), undefined);
  const failing = async () => {
    throw new FlynnError('internal', 'an error of the store');
  };
  await assert.rejects(readCatalogue({ getName, get: failing }, 'app', options), { code: 'internal' });
});
