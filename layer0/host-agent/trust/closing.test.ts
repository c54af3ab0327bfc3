import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { stat, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { FileIdentity, closedForMs, identityFiles } from '@flynn/kit/identity';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { tellJobs } from './closing.ts';
import { trustFixture } from './trust-fixture.ts';

const within = { deadlineMs: 60_000, intervalMs: 10 };

test('all jobs with a certificate hear whether everybody has one, later ones too, until the agent stops', async () => {
  await using fixture = await trustFixture();
  const { jobs } = await fixture.open();
  const isTold = (jobId: string) => existsSync(join(jobs.folderOf(jobId), identityFiles.closed));
  await jobs.issue('h1-a', 'blobstore');
  let isKnown = false;
  const stop = new AbortController();
  const options = { jobs, isEverybodyKnown: () => isKnown, log: silentLogger(), signal: stop.signal, everyMs: 10 };
  const telling = tellJobs(options);
  isKnown = true;
  await waitFor(() => isTold('h1-a'), { what: 'the job to be told', ...within });
  assert.equal((await FileIdentity.open(jobs.folderOf('h1-a'))).isEverybodyKnown, true);
  isKnown = false;
  await waitFor(() => !isTold('h1-a'), { what: 'the word to be taken back', ...within });
  await jobs.issue('h1-b', 'router');
  isKnown = true;
  await waitFor(() => isTold('h1-a') && isTold('h1-b'), { what: 'both to be told', ...within });
  stop.abort();
  await telling;
  assert.deepEqual([isTold('h1-a'), isTold('h1-b')], [false, false], 'the next agent may be of a version before');
});

test('the word is given again before it is too old', async () => {
  await using fixture = await trustFixture();
  const { jobs } = await fixture.open();
  await jobs.issue('h1-a', 'blobstore');
  const word = join(jobs.folderOf('h1-a'), identityFiles.closed);
  await jobs.tell(true);
  const past = new Date(Date.now() - 2 * closedForMs);
  await utimes(word, past, past);
  await jobs.tell(true);
  assert.ok((await stat(word)).mtimeMs > past.getTime() + closedForMs);
  await jobs.tell(false);
  assert.equal(existsSync(word), false);
});
