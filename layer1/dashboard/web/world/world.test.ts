import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { newestFirst } from './world.ts';
import { someApp, someJob, worldOf } from './world-fixture.ts';

const blog = someApp({ id: 'a2', name: 'blog' });

describe('the world', () => {
  it('finds an app by its name and by its id', () => {
    const world = worldOf([
      ['app', someApp()],
      ['app', blog],
    ]);
    assert.deepEqual([world.app('blog')?.id, world.app('a1')?.name, world.app('none')], ['a2', 'shop', undefined]);
  });

  it('forgets what is told to be gone', () => {
    const world = worldOf([
      ['app', someApp()],
      ['job', someJob()],
    ]);
    world.take({ event: 'job', data: { type: 'delete', id: 'j1', appId: 'a1' } });
    assert.deepEqual(world.of('job', 'a1'), []);
  });

  it('told anew keeps all until it is whole, then forgets what was not told again', () => {
    const world = worldOf([
      ['app', someApp()],
      ['app', blog],
      ['job', someJob()],
    ]);
    world.begin();
    world.take({ event: 'app', data: { type: 'put', id: 'a2', object: { ...blog, releaseId: 'r9' } } });
    assert.equal(world.all('app').length, 2);
    world.take({ event: 'current', data: { type: 'put', id: 'current' } });
    assert.deepEqual(
      world.all('app').map(({ name, releaseId }) => [name, releaseId]),
      [['blog', 'r9']],
    );
    assert.deepEqual(world.all('job'), []);
  });

  it('that goes on forgets nothing at the next event `current`', () => {
    const world = worldOf([['app', someApp()]]);
    world.take({ event: 'current', data: { type: 'put', id: 'current' } });
    assert.equal(world.all('app').length, 1);
  });

  it('leaves alone what it does not know', () => {
    const world = worldOf([['app', someApp()]]);
    world.take({ event: 'key', data: { type: 'put', id: 'k', object: {} } });
    assert.equal(world.isWhole, true);
  });
});

describe('newest first', () => {
  it('is by time, then by id', () => {
    const times = [
      ['2030', 'a'],
      ['2031', 'b'],
      ['2030', 'c'],
    ] as const;
    assert.deepEqual(
      newestFirst(times.map(([createdAt, id]) => ({ createdAt, id }))).map(({ id }) => id),
      ['b', 'c', 'a'],
    );
  });
});
