/** The buildpack protocol, with temporary folders and buildpacks that are shell scripts. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import { nameOf, parseSource, withoutPassword } from './buildpack-source.ts';
import { bench, write } from './compile-fixture.ts';
import { parseRelease } from './custom-buildpack.ts';
import { removeLeft } from './left-caches.ts';
import { builtIns } from './selection.ts';

const sample = resolve(import.meta.dirname, '../../test/apps/custom-buildpack');

test('a custom buildpack gets the build, cache and env folders, and its release counts', async () => {
  await using b = await bench({ 'greeting.txt': 'Hello' });
  const plan = await b.compile({ BUILDPACK_URL: join(sample, 'buildpack'), NAME: 'Ada\nLovelace' });
  assert.deepEqual(plan, {
    buildpack: 'buildpack',
    processTypes: { greeter: 'bin/serve' },
    runtimes: [],
    isCacheChanged: true,
  });
  assert.match(b.output(), /^-----> Greeting app detected\n-----> Build 1 of this app, on flynn-1$/m);
  assert.equal(
    await readFile(join(b.layout.appDir, 'message.txt'), 'utf8'),
    'Hello\n, Ada\nLovelace!\n'.replace('\n,', ','),
  );
  assert.equal(await readFile(join(b.layout.cacheDir, 'count'), 'utf8'), '1\n');
  const script = '. .profile.d/000-defaults.sh; echo "$LOUDNESS"';
  const loudness = (env: Record<string, string>): string =>
    execFileSync('bash', ['--norc', '-c', script], {
      cwd: b.layout.appDir,
      env,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
    });
  assert.equal(loudness({}), '11\n');
  assert.equal(loudness({ LOUDNESS: '3' }), '3\n', "the app's own value wins");
});

test('a buildpack comes by git with a ref, and as an archive with everything in one folder', async () => {
  await using b = await bench({ 'greeting.txt': 'Hi' });
  const repository = join(b.dir, 'buildpack.git');
  await cp(join(sample, 'buildpack'), repository, { recursive: true });
  const git = (...args: string[]): string =>
    execFileSync('git', ['-C', repository, '-c', 'user.name=t', '-c', 'user.email=t@example.com', ...args], {
      encoding: 'utf8',
    });
  git('init', '--quiet', '-b', 'main');
  git('add', '.');
  git('commit', '--quiet', '-m', 'one');
  git('tag', 'v1');
  await writeFile(join(repository, 'bin/compile'), '#!/bin/sh\nexit 9\n');
  git('commit', '--quiet', '-am', 'two');
  await b.compile({ BUILDPACK_URL: `file://${repository}#v1` });
  assert.match(b.output(), /Build 1 of this app/);
  await b.compile({ BUILDPACK_URL: `file://${repository}#${git('rev-parse', 'v1').trim()}` });
  assert.match(b.output(), /Build 2 of this app/, 'a commit does as well');
  await assert.rejects(b.compile({ BUILDPACK_URL: `file://${repository}` }), {
    message: /bin\/compile of the buildpack buildpack failed with exit code 9/,
  });
  await assert.rejects(b.compile({ BUILDPACK_URL: `file://${repository}#v7` }), {
    message: /could not fetch the buildpack.*v7/,
  });
});

test('.buildpacks runs several in order, and each sees what those before it exported', async () => {
  await using b = await bench({ 'greeting.txt': 'Hi' });
  const second = join(b.dir, 'second');
  await write(second, {
    'bin/detect': '#!/bin/sh\necho Second',
    'bin/compile': '#!/bin/sh\necho "tool $GREETING_TOOL, token ${SECRET:-hidden}"',
    'bin/release': '#!/bin/sh\necho "default_process_types: {web: second, greeter: other}"',
  });
  await writeFile(join(b.layout.appDir, '.buildpacks'), `# two\n${join(sample, 'buildpack')}\n${second}\n`);
  const plan = await b.compile({ SECRET: 'x' });
  assert.match(b.output(), /tool installed, token hidden/);
  assert.deepEqual(plan.processTypes, { greeter: 'other', web: 'second' }, 'the last has the say over defaults');
  assert.equal(plan.buildpack, 'buildpack, second');
});

test('those of app.json are used in their order, unless .buildpacks or BUILDPACK_URL says otherwise', async () => {
  const named = (folder: string) => ({
    'bin/detect': `#!/bin/sh\necho ${folder}`,
    'bin/compile': '#!/bin/sh\n',
    'bin/release': `#!/bin/sh\necho "default_process_types: {web: ${folder}}"`,
  });
  await using b = await bench({ 'greeting.txt': 'Hi' });
  const [first, second, third] = ['first', 'second', 'third'].map((name) => join(b.dir, name));
  for (const dir of [first, second, third]) await write(dir ?? '', named((dir ?? '').split('/').at(-1) ?? ''));
  await writeFile(join(b.layout.appDir, 'app.json'), JSON.stringify({ buildpacks: [{ url: first }, { url: second }] }));
  const plan = await b.compile();
  assert.match(b.output(), /Using the 2 buildpacks of app\.json/);
  assert.deepEqual([plan.buildpack, plan.processTypes], ['first, second', { web: 'second' }]);
  await writeFile(join(b.layout.appDir, '.buildpacks'), `${third}\n`);
  assert.equal((await b.compile()).buildpack, 'third');
  assert.equal((await b.compile({ BUILDPACK_URL: first ?? '' })).buildpack, 'first');
});

test('what the cache has of a language that the app has no more goes with the next build that succeeds', async () => {
  await using b = await bench({ Procfile: 'web: ./serve', 'greeting.txt': 'Hi' });
  const ofRuby = { 'gems/key': 'k', 'debian/index.json': '{}' };
  await write(b.layout.cacheDir, ofRuby);
  // One of somebody else's may have filled anything.
  await b.compile({ BUILDPACK_URL: join(sample, 'buildpack') });
  assert.deepEqual((await readdir(b.layout.cacheDir)).toSorted(), ['count', 'debian', 'gems']);
  await rm(join(b.layout.appDir, 'Procfile'));
  await assert.rejects(b.compile());
  assert.deepEqual((await readdir(b.layout.cacheDir)).toSorted(), ['count', 'debian', 'gems']);
  await write(b.layout.appDir, { Procfile: 'web: ./serve' });
  assert.equal((await b.compile()).isCacheChanged, true);
  assert.deepEqual(await readdir(b.layout.cacheDir), []);
  assert.equal((await b.compile()).isCacheChanged, false);
});

test('what somebody else’s buildpack left of the cache read-only stays, and fails no build', async () => {
  await using b = await bench({});
  await write(b.layout.cacheDir, { 'modules/m': 'm', 'gems/key': 'k' });
  const remove = async (path: string): Promise<void> => {
    if (path.endsWith('modules')) throw Object.assign(new Error('permission denied'), { code: 'EACCES' });
    await rm(path, { recursive: true });
  };
  assert.equal(await removeLeft(b.layout.cacheDir, [], remove), true);
  assert.deepEqual(await readdir(b.layout.cacheDir), ['modules']);
  assert.equal(await removeLeft(b.layout.cacheDir, [], remove), false);
});

test('each built-in buildpack names all that it fills of the cache', async () => {
  const top = import.meta.dirname;
  const files = (await readdir(top, { recursive: true })).filter(
    (path) => path.endsWith('.ts') && !/(?:test|fixture)/.test(path),
  );
  const named = new Set(builtIns.flatMap(({ cacheFolders }) => cacheFolders ?? assert.fail('it names none')));
  for (const path of files) {
    const text = await readFile(join(top, path), 'utf8');
    const filled = text.matchAll(/cacheDir, '([^'/]+)|new KeptFolder\(context, '([^']+)/g);
    for (const [, folder, kept] of filled)
      assert.ok(named.has(folder ?? kept ?? ''), `${path} fills ${folder ?? kept}`);
  }
});

test('the cache is good once an install has succeeded, and no longer when another buildpack begins', async () => {
  const preinstall = 'mkdir -p $npm_config_cache && touch $npm_config_cache/$(date +%s%N)';
  const scripts = { preinstall, build: 'exit "${RESULT:-0}"', start: 'node server.js' };
  const lock = { name: 'x', lockfileVersion: 3, packages: { '': { name: 'x' } } };
  await using b = await bench({
    'package.json': JSON.stringify({ name: 'x', scripts }),
    'package-lock.json': JSON.stringify(lock),
  });
  const told: boolean[] = [];
  const tell = (isGood: boolean): void => void told.push(isGood);
  await assert.rejects(b.compile({ RESULT: '1' }, tell), { message: /"npm run build" failed/ });
  assert.deepEqual(told.splice(0), [false, true]);
  const pack = join(b.dir, 'pack');
  await write(pack, { 'bin/detect': '#!/bin/sh\necho Pack', 'bin/compile': '#!/bin/sh\nexit 1' });
  await writeFile(join(b.layout.appDir, '.buildpacks'), `nodejs\n${pack}\n`);
  await assert.rejects(b.compile({}, tell), { message: /bin\/compile of the buildpack pack failed/ });
  assert.deepEqual(told.splice(0), [false, true, false]);
});

test('a site that a buildpack built is served from where it built it, and not the sources', async () => {
  const tool = (makes: string): Record<string, string> => ({
    'bin/detect': '#!/bin/sh\necho Tool',
    'bin/compile': `#!/bin/sh\nmkdir -p "$1/${makes}" && cp "$1/src.html" "$1/${makes}/index.html"`,
  });
  await using b = await bench({ 'src.html': 'x', 'public/icons.svg': '' });
  const pack = join(b.dir, 'tool');
  await write(pack, tool('build'));
  await writeFile(join(b.layout.appDir, '.buildpacks'), `${pack}\nstatic\n`);
  assert.match((await b.compile()).processTypes['web'] ?? '', /static-server\.ts build /);
  await rm(join(b.layout.appDir, 'build'), { recursive: true });
  await write(pack, tool('made/site'));
  await assert.rejects(b.compile(), { code: 'invalid', message: /There is one in made\/site\./ });
  const rules = { root: 'public', routes: { '/**': 'index.html' } };
  await writeFile(join(b.layout.appDir, 'static.json'), JSON.stringify(rules));
  assert.match((await b.compile()).processTypes['web'] ?? '', /static-server\.ts public /);
  assert.match(b.output(), /There is no index\.html in public: \/ is answered as not found/);
});

test('the Procfile overrides defaults type by type', async () => {
  await using b = await bench({ 'greeting.txt': 'Hi', Procfile: 'greeter: mine\nclock: tick\n' });
  const plan = await b.compile({ BUILDPACK_URL: join(sample, 'buildpack') });
  assert.deepEqual(plan.processTypes, { greeter: 'mine', clock: 'tick' });
  assert.match(b.output(), /^ {7}Procfile declares types -> greeter, clock$/m);
});

test('a Procfile alone is an app, and .slugignore takes files of the source out', async () => {
  await using b = await bench({
    Procfile: 'web: ./run',
    run: '',
    '.slugignore': 'docs/\n*.md',
    'docs/a': '',
    'x/R.md': '',
    'x/y': '',
  });
  const plan = await b.compile();
  assert.equal(plan.buildpack, 'procfile');
  assert.deepEqual((await readdir(b.layout.appDir, { recursive: true })).sort(), [
    '.slugignore',
    'Procfile',
    'run',
    'x',
    'x/y',
  ]);
});

test('a wrong Procfile fails before anything is built', async () => {
  await using b = await bench({ 'greeting.txt': 'Hi', Procfile: 'web' });
  await assert.rejects(b.compile({ BUILDPACK_URL: join(sample, 'buildpack') }), { message: /Procfile line 1/ });
  assert.equal(b.output(), '');
});

test('a buildpack that does not know the app is told apart from one that fails', async () => {
  await using b = await bench({ 'other.txt': '' });
  await assert.rejects(b.compile({ BUILDPACK_URL: join(sample, 'buildpack') }), {
    message: /Unable to select a buildpack: BUILDPACK_URL names/,
  });
  await assert.rejects(b.compile({ BUILDPACK_URL: join(b.dir, 'none') }), { message: /there is no folder/ });
  await assert.rejects(b.compile(), { message: /Unable to select a buildpack\. Looked for/ });
});

test('a buildpack is called like its repository', () => {
  for (const end of ['', '/', '.git', '.git/', '/.git'])
    assert.equal(nameOf(`https://git.example.com/a/pack${end}`), 'pack');
  assert.equal(nameOf('git@git.example.com:pack.git'), 'git@git.example.com:pack');
});

const sources: [string, ReturnType<typeof parseSource>][] = [
  ['https://example.com/a/b', { type: 'git', url: 'https://example.com/a/b', ref: undefined }],
  ['https://example.com/a/b.git#v2', { type: 'git', url: 'https://example.com/a/b.git', ref: 'v2' }],
  ['git@example.com:a/b.git#main', { type: 'git', url: 'git@example.com:a/b.git', ref: 'main' }],
  ['https://example.com/b.tgz', { type: 'archive', url: 'https://example.com/b.tgz' }],
  ['https://example.com/b.tar.gz?x=1', { type: 'archive', url: 'https://example.com/b.tar.gz?x=1' }],
  ['/srv/buildpack', { type: 'folder', path: '/srv/buildpack' }],
];
for (const [text, expected] of sources) {
  test(`${text} is fetched as ${expected.type}`, () => assert.deepEqual(parseSource(text), expected));
}

for (const text of ['nope', '--upload-pack=x', 'https://example.com/a#--force', 'ext::sh -c x']) {
  test(`${text} is no buildpack`, () => assert.throws(() => parseSource(text), { code: 'invalid' }));
}

test('a release is YAML, and all of it optional', () => {
  assert.deepEqual(parseRelease('---\n'), { processTypes: {}, configVars: {} });
  assert.deepEqual(parseRelease('addons: [x]\nconfig_vars:\n  N: 3\n'), { processTypes: {}, configVars: { N: '3' } });
});

test('passwords in URLs are not shown', () => {
  assert.equal(withoutPassword('https://user:secret@example.com/a'), 'https://example.com/a');
});

for (const url of [
  'https://user:s3cret@127.0.0.1:1/pack.git',
  'https://user:s3cret@127.0.0.1:1/pack.tgz',
  'ftp://u:s3cret@x/',
]) {
  test(`a buildpack that cannot be fetched from ${withoutPassword(url)} does not give its password away`, async () => {
    await using it = await bench({ Procfile: 'web: run' });
    const error: unknown = await it.compile({ BUILDPACK_URL: url }).catch((reason: unknown) => reason);
    assert.ok(error instanceof FlynnError && error.code === 'invalid');
    assert.doesNotMatch(error.message + it.output(), /s3cret/);
  });
}
