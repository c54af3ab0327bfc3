import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { HookDoor } from './door.ts';

test('each address comes in so often, and so many are inside at once', async () => {
  const door = new HookDoor(() => 0, { rate: { burst: 3, perSecond: 1 }, places: 2, placesOfOne: 2 });
  const isExhausted = (error: unknown) => hasCode(error, 'exhausted') && error.detail['retryAfterMs'] !== undefined;
  const leave: (() => void)[] = [];
  const stay = (address: string) =>
    door.pass(address, () => new Promise<void>((resolve) => leave.push(() => resolve())));
  const [first, second] = [stay('192.0.2.1'), stay('192.0.2.2')];
  await assert.rejects(stay('192.0.2.3'), isExhausted);
  leave.shift()?.();
  await first;
  assert.equal(await door.pass('192.0.2.1', async () => 'in'), 'in');
  await assert.rejects(
    door.pass('192.0.2.1', async () => {
      throw new Error('what goes wrong inside');
    }),
    /inside/,
  );
  await assert.rejects(
    door.pass('192.0.2.1', async () => 'in'),
    isExhausted,
  );
  assert.equal(await door.pass('192.0.2.2', async () => 'in'), 'in', 'another address is none the worse');
  leave.shift()?.();
  await second;
});

test('whoever sends slowly, and as much as it can, leaves places for the others', async () => {
  const door = new HookDoor(() => 0, { rate: { burst: 100, perSecond: 1 }, places: 4, placesOfOne: 3 });
  const leave: (() => void)[] = [];
  const slow = Array.from({ length: 10 }, () =>
    door.pass('192.0.2.1', () => new Promise<void>((resolve) => leave.push(() => resolve()))),
  );
  const ended = Promise.allSettled(slow);
  assert.equal(leave.length, 3);
  assert.equal(await door.pass('192.0.2.2', async () => 'in'), 'in');
  for (const one of leave) one();
  assert.equal((await ended).filter(({ status }) => status === 'fulfilled').length, 3);
  assert.equal(await door.pass('192.0.2.1', async () => 'in'), 'in', 'its places are there again');
});
