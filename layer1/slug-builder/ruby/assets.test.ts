import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bench } from '../compile-fixture.ts';
import { precompileAssets } from './assets.ts';

const lockOf = (...gems: string[]): string => `GEM\n  specs:\n${gems.map((gem) => `    ${gem} (1.0)\n`).join('')}`;

/** An app with a Rakefile, where Bundler is this script. */
async function withBundle(script: string) {
  const b = await bench({ Rakefile: '' });
  const env = await b.withProgram('bundle', script);
  return { ...b, precompile: (lock: string): Promise<void> => precompileAssets(b.context(), env, lock) };
}

test('a Rakefile that production cannot load ends the build only of an app that has assets', async () => {
  await using app = await withBundle('echo "cannot load such file -- rspec/core/rake_task" >&2; exit 1');
  await app.precompile(lockOf('rack', 'rake', 'rspec'));
  assert.match(app.output(), /Rakefile could not be loaded, so no assets[^]*rspec\/core\/rake_task/);
  await assert.rejects(app.precompile(lockOf('rake', 'railties')), {
    code: 'invalid',
    message: /Rakefile could not be loaded[^]*rspec\/core\/rake_task[^]*RAILS_ENV=production/,
  });
});

test('assets are made where the Rakefile has a task for it', async () => {
  const bundle = (task: string): string => `case "$*" in *-P*) echo "rake ${task}";; *) echo "made by $*";; esac`;
  await using none = await withBundle(bundle('test'));
  await none.precompile(lockOf('rake'));
  assert.equal(none.output(), '');
  await using some = await withBundle(bundle('assets:precompile'));
  await some.precompile(lockOf('rake'));
  assert.match(some.output(), /Precompiling assets\n +made by exec rake assets:precompile/);
});
