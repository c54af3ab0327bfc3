/** What goes live is kept by git as well: pushes that it would refuse after its hook. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { remoteHead, setUp } from './testing.ts';

test(
  'a clone without its history is refused before anything is built, and pushed with it',
  { timeout: 180_000 },
  async (t) => {
    const world = await setUp(t);
    for (const a of ['1', '2', '3']) await world.commit({ a });
    const cwd = join(world.dir, 'shallow');
    await world.git(['clone', '-q', '--depth', '1', `file://${world.work}`, cwd]);
    const shallow = await world.git(['push', world.remote(), 'main'], { cwd });
    assert.notEqual(shallow.code, 0);
    assert.match(shallow.output, /git fetch --unshallow/);
    assert.equal(world.pushes.length, 0);
    const unshallowed = await world.git(['fetch', '-q', '--unshallow'], { cwd });
    assert.equal(unshallowed.code, 0, unshallowed.output);
    const whole = await world.git(['push', world.remote(), 'main'], { cwd });
    assert.equal(whole.code, 0, whole.output);
    const head = await world.commit({ a: '4' });
    const next = await world.git(['push', world.remote(), 'main']);
    assert.equal(next.code, 0, next.output);
    assert.equal(await remoteHead(world), head);
  },
);

test('a branch below or above the one deployed before takes its place', { timeout: 180_000 }, async (t) => {
  const world = await setUp(t);
  for (const branch of ['release', 'release/2', 'release']) {
    world.meta['git.branch'] = branch;
    const head = await world.commit({ a: `${branch} ${world.pushes.length}` });
    const pushed = await world.git(['push', world.remote(), `main:refs/heads/${branch}`]);
    assert.equal(pushed.code, 0, pushed.output);
    const { output } = await world.git(['ls-remote', world.remote(), 'refs/heads/*']);
    assert.match(output, new RegExp(`^${head}\\trefs/heads/${branch}$`, 'm'));
  }
});

test('where git keeps no ref of what is live, that is told', { timeout: 180_000 }, async (t) => {
  const lock = () => writeFile(join(world.dir, 'repos/id-app.git/refs/heads/main.lock'), '');
  const world = await setUp(t, () => ({ lines: [lock] }));
  const head = await world.commit({ a: '1' });
  const pushed = await world.git(['push', world.remote(), 'main']);
  assert.notEqual(pushed.code, 0);
  assert.ok(pushed.output.includes(`${head} is live, but git did not keep it as refs/heads/main`), pushed.output);
});
