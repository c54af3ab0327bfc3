/** What somebody who waits for dumps before a backup of the cluster is told of them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HttpClient } from '@flynn/kit/http-client';
import { FlynnError } from '@flynn/kit/errors';
import { followBackup, withDumps } from './dumps.ts';

const asked = { resource: 'r1', backup: 'asked', attempt: 0 };

/** There are these alone. */
function clientWith(backups: Readonly<{ id: string; state: string }>[]): Pick<HttpClient, 'call'> {
  return { call: async () => ({ backups }) as never };
}

test('one that is gone is followed by any that is complete, and had not begun before', async () => {
  const there = clientWith([
    { id: 'newer', state: 'complete' },
    { id: 'old', state: 'complete' },
  ]);
  const follow = (earlier?: string[]) => followBackup(there, { ...asked, earlier }, () => undefined);
  assert.equal((await follow(['old'])).id, 'newer');
  for (const earlier of [['old', 'newer'], undefined]) {
    await assert.rejects(follow(earlier), { code: 'cancelled', message: /asked was cancelled, or deleted, meanwhile/ });
  }
  const begun = clientWith([{ id: 'newer', state: 'running' }]);
  await assert.rejects(
    followBackup(begun, { ...asked, earlier: [] }, () => undefined),
    { code: 'cancelled' },
  );
});

/** Whoever waits for dumps, all of which are made at once; notes of which databases they were asked for. */
function waiting() {
  const asked: unknown[] = [];
  const call = async (_route: unknown, input: { body?: { only?: string[] } }) => {
    if (!('params' in input)) asked.push(input.body?.only ?? 'all');
    return 'params' in input
      ? { backups: [{ id: 'b1', state: 'complete' }] }
      : (input.body?.only ?? ['shop-postgres']).map((datastore) => {
          return { datastore, resource: 'r1', backup: 'b1', attempt: 0 };
        });
  };
  const context = {
    client: async () => ({ call: call as HttpClient['call'] }),
    progress: <T>(_text: unknown, work: () => Promise<T>) => work(),
    tell: () => {},
  };
  return { asked, context };
}

const lacking = (...undumped: string[]) =>
  new FlynnError('conflict', 'no whole backup can be made', { detail: { undumped } });

test('a database that is made while others are dumped is dumped too, and those are not dumped again', async () => {
  const { asked, context } = waiting();
  const outcomes = [lacking('new-postgres'), lacking('newer-redis'), 'made'];
  const made = await withDumps(context, { mayMiss: false }, async () => {
    const outcome = outcomes.shift();
    if (outcome instanceof FlynnError) throw outcome;
    return outcome;
  });
  assert.equal(made, 'made');
  assert.deepEqual(asked, ['all', ['new-postgres'], ['newer-redis']]);
});

test('where others are made all the time it is given up, and what else fails is not tried again', async () => {
  const { asked, context } = waiting();
  const always = withDumps(context, { mayMiss: false }, () => Promise.reject(lacking('one-more')));
  await assert.rejects(always, { code: 'conflict' });
  assert.equal(asked.length, 4);
  for (const error of [new FlynnError('conflict', 'it is being restored'), new FlynnError('unavailable', 'away')]) {
    const once = waiting();
    await assert.rejects(
      withDumps(once.context, { mayMiss: false }, () => Promise.reject(error)),
      error,
    );
    assert.deepEqual(once.asked, ['all']);
  }
});
