import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { bench } from '../compile-fixture.ts';
import { exists } from '../nodejs/toolchain.ts';
import { removeFetchedHistory } from './fetched-history.ts';
import { KeptBuild } from './kept-build.ts';

const files = {
  'deps/jason/mix.exs': '',
  'deps/icons/.git/HEAD': 'ref: refs/heads/main',
  'deps/icons/icons/.gitignore': '',
  'deps/icons/vendor/sub/.git': 'gitdir: ../../.git/modules/sub',
};

test('of packages that Mix has of git the slug has no history; the next build has it, without which Mix would fetch them anew', async () => {
  await using b = await bench(files);
  const there = async (): Promise<string[]> => {
    const found = Object.keys(files).map(async (path) => ((await exists(join(b.layout.appDir, path))) ? [path] : []));
    return (await Promise.all(found)).flat();
  };
  const kept = new KeptBuild(b.context(), { key: 'k', mixEnv: 'prod' });
  await kept.keepPackages();
  await removeFetchedHistory(b.context());
  assert.deepEqual(await there(), ['deps/jason/mix.exs', 'deps/icons/icons/.gitignore']);
  await kept.restore();
  assert.deepEqual(await there(), Object.keys(files));
});

test('an app without packages, or whose release has them, has none to lose', async () => {
  await using b = await bench({ 'mix.exs': '' });
  await removeFetchedHistory(b.context());
  assert.ok(await exists(join(b.layout.appDir, 'mix.exs')));
});
