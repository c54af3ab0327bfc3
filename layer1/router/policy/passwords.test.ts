import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { Passwords } from './passwords.ts';

/** A look takes until the test lets it end. */
function startLooking() {
  const world = { nowMs: 0, looking: 0, most: 0, ends: [] as ((isRight: boolean) => void)[] };
  const passwords = new Passwords({
    elapsed: () => world.nowMs,
    async isPasswordOf() {
      world.looking += 1;
      world.most = Math.max(world.most, world.looking);
      const isRight = await new Promise<boolean>((resolve) => world.ends.push(resolve));
      world.looking -= 1;
      return isRight;
    },
  });
  const check = (client: string, app = 'shop') => passwords.check({ app, client, password: 'x', hash: 'y' });
  /** Of those that are looked at, one after the other, until none is left. */
  const endAll = async (isRight: boolean) => {
    for (let idle = 0; idle < 3; idle += 1) {
      await new Promise((resolve) => setImmediate(resolve));
      const ends = world.ends.splice(0);
      for (const end of ends) end(isRight);
      if (ends.length > 0) idle = 0;
    }
  };
  return { world, check, endAll };
}

describe('passwords', () => {
  test('are looked at one at a time, and nobody waits behind too many', async () => {
    const { world, check, endAll } = startLooking();
    const all = Array.from({ length: 40 }, (_, n) => check(`client-${n}`));
    await endAll(true);
    const found = (await Promise.all(all)).map(({ is }) => is);
    assert.equal(world.most, 1);
    assert.deepEqual(
      [found.filter((is) => is === 'right').length, found.filter((is) => is === 'busy').length],
      [32, 8],
    );
    const later = check('client-1');
    await endAll(true);
    assert.equal((await later).is, 'right');
  });

  test('of one client are few at once, so that it does not keep all others waiting', async () => {
    const { check, endAll } = startLooking();
    const own = Array.from({ length: 6 }, () => check('a'));
    const other = check('b');
    await endAll(true);
    assert.deepEqual(
      (await Promise.all([...own, other])).map(({ is }) => is),
      ['right', 'right', 'right', 'right', 'busy', 'busy', 'right'],
    );
  });

  test('of an app that very many ask for keep those of another waiting for one look', async () => {
    const { world, check, endAll } = startLooking();
    const crowd = Array.from({ length: 40 }, (_, n) => check(`client-${n}`));
    const endOne = async (isRight: boolean) => {
      await waitFor(async () => world.ends.length === 1, { what: 'a look', deadlineMs: 10_000 });
      world.ends.splice(0)[0]?.(isRight);
    };
    const other = check('client-0', 'blog');
    // That which is under way, and one of those that wait already.
    for (const isRight of [false, false, true]) await endOne(isRight);
    assert.equal((await other).is, 'right');
    await endAll(false);
    const found = (await Promise.all(crowd)).map(({ is }) => is);
    assert.deepEqual(
      [found.filter((is) => is === 'wrong').length, found.filter((is) => is === 'busy').length],
      [32, 8],
    );
    assert.equal(world.most, 1);
  });

  test('that are wrong are looked at so often of a client, and that are right do not count', async () => {
    const { world, check, endAll } = startLooking();
    const one = async (client: string, isRight: boolean) => {
      const checking = check(client);
      await endAll(isRight);
      return checking;
    };
    for (let nth = 1; nth <= 30; nth += 1) assert.equal((await one('a', true)).is, 'right');
    for (let nth = 1; nth <= 10; nth += 1) assert.equal((await one('a', false)).is, 'wrong');
    const refused = await one('a', true);
    assert.ok(refused.is === 'too-often' && refused.waitMs > 5_000 && refused.waitMs <= 6_000, JSON.stringify(refused));
    assert.equal((await one('b', false)).is, 'wrong');
    world.nowMs += 6_001;
    assert.equal((await one('a', true)).is, 'right');
  });

  test('that cannot be looked at are neither right nor in the way of the next', async () => {
    let isBroken = true;
    const passwords = new Passwords({
      elapsed: () => 0,
      async isPasswordOf() {
        if (isBroken) throw new Error('no memory');
        return true;
      },
    });
    const asked = { app: 'shop', client: 'a', password: 'x', hash: 'y' };
    assert.equal((await passwords.check(asked)).is, 'busy');
    isBroken = false;
    assert.equal((await passwords.check(asked)).is, 'right');
  });
});
