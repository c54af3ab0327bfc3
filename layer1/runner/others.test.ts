import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Deployment } from '@flynn/controller/model';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { Execution } from './execution.ts';
import { afterOthers } from './others.ts';

const other: Deployment = { id: 'd0', appId: 'a', newReleaseId: 'r2', state: 'releasing', progress: {}, createdAt: '' };
const never = new AbortController().signal;
const waits = { othersMs: 60_000, failuresMs: 100, lookMs: 20 };

function refusal(): FlynnError {
  return new FlynnError('conflict', 'a deployment of shop is under way', { detail: { deploymentId: other.id } });
}

/** A controller that tells of one deployment, in these states one after the other. */
function world(...states: (Deployment['state'] | Pick<Deployment, 'state' | 'rollout'>)[]) {
  const told: string[] = [];
  const controller = {
    call: async () => {
      const now = (states.length > 1 ? states.shift() : states[0]) ?? 'complete';
      return { ...other, ...(typeof now === 'string' ? { state: now } : now) };
    },
  } as unknown as Execution['controller'];
  const write = async (...lines: string[]) => void told.push(...lines);
  return { told, execution: { controller, write, signal: never } };
}

test('another deployment is waited for as long as it goes on, however long that is, and it is told once', async () => {
  const { told, execution } = world('releasing', 'running', 'finishing');
  const untilMs = performance.now() + 5 * waits.failuresMs;
  const act = async (): Promise<string> => {
    if (performance.now() < untilMs) throw refusal();
    return 'released';
  };
  assert.equal(await afterOthers('releasing', execution, act, undefined, waits), 'released');
  assert.deepEqual(told, ['       Waiting for another deployment of this app to end']);
});

test('one that waits for people is not waited for, and one that never ends not for ever', async () => {
  const refused = () => Promise.reject(refusal());
  await assert.rejects(
    afterOthers('releasing', world('running', 'paused').execution, refused, undefined, waits),
    (error) => hasCode(error, 'invalid') && /the deployment before is paused/.test(error.message),
  );
  await assert.rejects(
    afterOthers('releasing', world('running').execution, refused, undefined, { ...waits, othersMs: 200 }),
    (error) => hasCode(error, 'timeout') && /went on for .* h: .*flynn deployment abort/.test(error.message),
  );
});

test('canaries that are promoted by themselves are waited for, those that people judge are not', async () => {
  let isOver = false;
  const act = async (): Promise<string> => {
    if (!isOver) throw refusal();
    return 'released';
  };
  const byItself = { strategy: 'canary', canaries: 1, minHealthyMs: 0, autoPromoteMs: 60_000 } as const;
  setTimeout(() => (isOver = true), 100);
  const { execution } = world('canary');
  const { told, execution: promoted } = world({ state: 'canary', rollout: byItself });
  assert.equal(await afterOthers('releasing', promoted, act, undefined, waits), 'released');
  assert.equal(told.length, 1);
  isOver = false;
  await assert.rejects(
    afterOthers('releasing', execution, act, undefined, waits),
    (error) => hasCode(error, 'invalid') && /canaries to be judged/.test(error.message),
  );
});

test('what else goes wrong is tried again for its time alone, and whoever cancels is not kept', async () => {
  const { told, execution } = world('running');
  const overtaken = () => Promise.reject(new FlynnError('conflict', 'the app was changed'));
  await assert.rejects(afterOthers('releasing', execution, overtaken, undefined, waits), /the app was changed/);
  assert.deepEqual(told, []);
  const leaving = new AbortController();
  const refused = () => Promise.reject(refusal());
  const waiting = afterOthers('releasing', { ...execution, signal: leaving.signal }, refused, undefined, waits);
  setTimeout(() => leaving.abort(), 50);
  await assert.rejects(waiting, (error) => hasCode(error, 'cancelled'));
});
