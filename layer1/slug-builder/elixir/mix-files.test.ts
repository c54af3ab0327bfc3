import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readMix, startOfMix } from './mix-files.ts';

const phoenix = `
  def project do
    [app: :shop, deps: deps(), aliases: aliases(), releases: [shop: [applications: [shop: :permanent]]]]
  end
  defp deps do
    [
      {:phoenix, "~> 1.8.1"},
      {:esbuild, "~> 0.9", runtime: Mix.env() == :dev}
    ]
  end
  defp aliases do
    ["assets.deploy": ["tailwind shop --minify", "esbuild shop --minify", "phx.digest"]]
  end
`;

test('mix.exs tells Phoenix, how assets are made, and whether a release is', () => {
  assert.deepEqual(readMix(phoenix), { isPhoenix: true, hasAssets: true, hasReleases: true });
  assert.deepEqual(readMix('releases: releases()'), { isPhoenix: false, hasAssets: false, hasReleases: true });
  const others = '# {:phoenix, "~> 1"}\n{:phoenix_html, "~> 4"}\n# releases: [a: []]\n"a # b" <> my_releases: [1]\n';
  assert.deepEqual(readMix(others), { isPhoenix: false, hasAssets: false, hasReleases: false });
});

test('a release is started, by the script of Phoenix where it made one; without one Mix starts the app, and compiles nothing', () => {
  const [plain, ofPhoenix] = [readMix(''), readMix(phoenix)];
  const release = { path: '_build/prod/rel/shop', name: 'shop', hasServer: false };
  assert.equal(startOfMix(ofPhoenix, release), 'PHX_SERVER=true _build/prod/rel/shop/bin/shop start');
  assert.equal(startOfMix(ofPhoenix, { ...release, hasServer: true }), '_build/prod/rel/shop/bin/server');
  assert.equal(startOfMix(ofPhoenix, undefined), 'mix phx.server --no-compile --no-deps-check');
  assert.equal(startOfMix(plain, undefined), 'mix run --no-halt --no-compile --no-deps-check');
});
