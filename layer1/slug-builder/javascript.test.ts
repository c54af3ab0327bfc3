import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bench } from './compile-fixture.ts';
import { chooseJavaScript } from './javascript.ts';
import { selectBuildpacks } from './selection.ts';

const apps: [names: string[], packageManager: string | undefined, name: string, note?: RegExp][] = [
  [[], undefined, 'nodejs'],
  [['package-lock.json'], undefined, 'nodejs'],
  [['bun.lock'], undefined, 'bun'],
  [['bun.lockb'], undefined, 'bun'],
  [[], 'bun@1.4.5', 'bun'],
  [['package-lock.json', 'bun.lock'], 'bun@1.4.5', 'bun'],
  [['package-lock.json'], 'bun@1.4.5', 'nodejs', /says bun@1\.4\.5, .* package-lock\.json: .*commit bun\.lock/],
  [['bun.lock', 'yarn.lock'], undefined, 'nodejs', /There are yarn\.lock and bun\.lock: .*git rm yarn\.lock/],
  [['deno.json'], undefined, 'nodejs', /There is deno\.json, and no deno\.lock: .*commit deno\.lock/],
  [['deno.json', 'deno.lock'], undefined, 'deno'],
  [['deno.lock'], undefined, 'deno'],
  [['deno.json', 'deno.lock', 'package-lock.json'], undefined, 'nodejs'],
  [['deno.json', 'deno.lock', 'bun.lock'], undefined, 'bun'],
  [['bun.lock'], 'pnpm@9.1.0', 'nodejs', /packageManager says pnpm@9\.1\.0: .*remove that/],
];
for (const [names, packageManager, name, note] of apps) {
  test(`package.json${names.map((each) => ` and ${each}`).join('')}, of ${packageManager ?? 'no manager'}, is for ${name}`, () => {
    const choice = chooseJavaScript(['package.json', ...names], packageManager);
    assert.equal(choice?.name, name);
    if (note === undefined) assert.equal(choice?.note, undefined);
    else assert.match(choice?.note ?? '', note);
  });
}

test('without package.json an app is for Deno by its own files, or none of JavaScript', () => {
  for (const name of ['deno.json', 'deno.jsonc', 'deno.lock'])
    assert.deepEqual(chooseJavaScript([name, 'bun.lock'], undefined), { name: 'deno' });
  assert.equal(chooseJavaScript(['main.ts', 'bun.lock'], undefined), undefined);
  assert.equal(chooseJavaScript(['deno.json', 'index.html'], undefined), undefined, 'a site whose files Deno formats');
  assert.deepEqual(chooseJavaScript(['deno.json', 'deno.lock', 'index.html'], undefined), { name: 'deno' });
});

test('an app of another language that has a deno.json stays one of that', async () => {
  await using b = await bench({ 'go.mod': 'module example.com/x\n', 'deno.json': '{}' });
  assert.deepEqual(
    (await selectBuildpacks(b.context())).map(({ buildpack }) => buildpack.name),
    ['go'],
  );
  assert.match(b.output(), /looks like Deno too/);
});

test('an app of Bun does not look like one of Node.js too, and either can be named', async () => {
  const names = async (files: Record<string, string>): Promise<[string[], string]> => {
    await using b = await bench({ 'package.json': '{}', 'bun.lock': '{}', ...files });
    const selection = await selectBuildpacks(b.context());
    for (const { recognize } of selection) await recognize(b.context());
    return [selection.map(({ buildpack }) => buildpack.name), b.output()];
  };
  assert.deepEqual(await names({}), [['bun'], '']);
  assert.deepEqual((await names({ '.buildpacks': 'nodejs\n' }))[0], ['nodejs']);
  const [first, said] = await names({ Gemfile: '' });
  assert.deepEqual(first, ['ruby']);
  assert.match(said, /looks like Bun too[^]*printf 'bun\\nruby\\n'/);
});
