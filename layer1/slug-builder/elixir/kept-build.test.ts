import assert from 'node:assert/strict';
import { lstat, rm, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { bench } from '../compile-fixture.ts';
import { exists } from '../nodejs/toolchain.ts';
import { KeptBuild } from './kept-build.ts';

const built = {
  'deps/jason/mix.exs': '',
  '_build/prod/lib/jason/ebin/jason.app': '',
  '_build/prod/lib/shop/ebin/shop.app': '',
  '_build/tailwind-linux-x64': '',
};

test('packages come back compiled, with what makes assets, and the app itself does not', async () => {
  await using b = await bench(built);
  const { appDir, cacheDir } = b.layout;
  let keeps = 0;
  const context = { ...b.context(), keepCache: () => void (keeps += 1) };
  const of = (key: string): KeptBuild => new KeptBuild(context, { key, mixEnv: 'prod' });
  assert.equal(await of('k').restore(), false);
  assert.equal(await of('k').keepPackages(), true);
  assert.equal(keeps, 1);
  assert.equal(await of('k').takeTools(), true);
  assert.equal(await exists(join(appDir, '_build/tailwind-linux-x64')), false, 'it is no part of the slug');
  for (const name of ['deps', '_build']) await rm(join(appDir, name), { recursive: true });
  await utimes(join(cacheDir, 'elixir/kept/deps/jason/mix.exs'), 0, 0);
  assert.equal(await of('another lock').restore(), false);
  assert.equal(await of('k').restore(), true);
  for (const path of Object.keys(built)) assert.equal(await exists(join(appDir, path)), !path.includes('shop'), path);
  assert.ok((await lstat(join(appDir, 'deps/jason/mix.exs'))).mtimeMs > 0, 'it is newer than what configures it');
  assert.equal(await of('k').takeTools(), false, 'it is kept already');
});

test('of an app without packages nothing is kept, and nothing of a build before', async () => {
  await using b = await bench(built);
  const kept = new KeptBuild(b.context(), { key: 'k', mixEnv: 'prod' });
  await kept.keepPackages();
  await rm(join(b.layout.appDir, 'deps'), { recursive: true });
  assert.equal(await kept.keepPackages(), false);
  assert.equal(await kept.takeTools(), false);
  assert.equal(await kept.restore(), false);
});

test('packages of which nothing is compiled come back too', async () => {
  await using b = await bench({ 'deps/heroicons/optimized/bolt.svg': '' });
  const kept = new KeptBuild(b.context(), { key: 'k', mixEnv: 'prod' });
  assert.equal(await kept.keepPackages(), true);
  await rm(join(b.layout.appDir, 'deps'), { recursive: true });
  assert.equal(await kept.restore(), true);
  assert.ok(await exists(join(b.layout.appDir, 'deps/heroicons/optimized/bolt.svg')));
});
