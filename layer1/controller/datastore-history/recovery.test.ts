/** Restores of a moment: what a worker of before takes them for, and what is read for long. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fakeClock } from '@flynn/kit/clock';
import { FlynnError } from '@flynn/kit/errors';
import { z } from 'zod';
import { datastoreBackups } from '../datastore-backups/api.ts';
import { startDatastoreWorld } from '../datastore-backups/datastore-fixture.ts';
import { newestComplete } from '../datastore-backups/plan.ts';
import type { DatastoreBackupResource } from '../datastore-backups/types.ts';
import { copy, pieces } from './history-fixture.ts';
import { holdBlobs, momentAsked } from './recovery.ts';
import { Story } from './story-fixture.ts';

/** As it was before there were moments. */
const formerRestoreSchema = z.object({
  state: z.enum(['waiting', 'wanted', 'running', 'complete', 'failed']),
  backupId: z.string().optional(),
  by: z.string().optional(),
  isOwed: z.boolean().optional(),
  startedAt: z.string().optional(),
  endedAt: z.string().optional(),
  sentBytes: z.int().optional(),
  error: z.string().optional(),
  wantedMs: z.int(),
  attempt: z.int(),
  nextMs: z.int(),
});

/** What it put back. */
function formerBackupOf(restore: unknown, records: readonly DatastoreBackupResource[]): string | undefined {
  const { backupId } = formerRestoreSchema.parse(restore);
  if (backupId === undefined) return newestComplete(records)?.id;
  return records.find(({ id, status }) => id === backupId && status.state === 'complete')?.id;
}

test('a worker of before there were moments puts no backup in the place of one: there is none of that name', async () => {
  await using at = await startDatastoreWorld();
  const { world, params } = at;
  const story = new Story(at);
  await story.begin();
  await world.client.call(datastoreBackups.run, { params });
  await at.step(story.nowMs);
  const records = await at.records();
  assert.equal(newestComplete(records)?.status.state, 'complete');
  const moment = new Date(story.nowMs - 2_000).toISOString();
  await world.client.call(datastoreBackups.restore, { params, body: { at: moment } });
  const { restore } = (await at.plan()).status;
  assert.equal(formerBackupOf(restore, records), undefined);
  // A new datastore that begins with another is asked for in the same words.
  const asked = momentAsked({ id: 'x', spec: { name: 'x' } }, Date.parse(moment));
  assert.equal(restore?.backupId, asked.backupId);
  assert.equal(restore?.at, moment);
  await at.step(story.nowMs);
  assert.equal((await at.plan()).status.restore?.state, 'complete');
});

test('what a restore reads is asked after before it begins and every hour, so that it is not collected meanwhile', async () => {
  const asked: string[] = [];
  const clock = fakeClock();
  const recovery = { base: copy(0), pieces: pieces(0, 2) };
  const { signal } = new AbortController();
  const stat = async (digest: string) => {
    asked.push(digest);
    return { digest, sizeBytes: 1 };
  };
  {
    await using _ = await holdBlobs({ stat }, recovery, signal, clock);
    assert.deepEqual(asked, ['sha256:copy-0', 'sha256:0', 'sha256:1']);
    await clock.advance(3_600_000);
    assert.equal(asked.length, 6);
  }
  await clock.advance(3_600_000);
  assert.equal(asked.length, 6);
  const gone = async () => {
    throw new FlynnError('not_found', 'it is gone');
  };
  await assert.rejects(holdBlobs({ stat: gone }, recovery, signal, clock), { code: 'not_found' });

  // Others may have what a host that has just gone had: it is read, and asked after soon.
  let refused = 0;
  const silent = async () => {
    refused += 1;
    throw new FlynnError('timeout', 'its host says nothing');
  };
  await using _ = await holdBlobs({ stat: silent }, recovery, signal, clock);
  assert.equal(refused, 1);
  await clock.advance(60_000);
  assert.equal(refused, 2);
});
