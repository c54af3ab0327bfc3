/** The script in a repository of nothing else, with an npm of the test's. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtempDisposable, readFile, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** One at a time finds nothing of another in its way. */
const npm = `#!/bin/sh
mkdir busy || exit 1
echo "$*" >>calls
sleep 0.3
mkdir -p node_modules/.bin
printf '#!/bin/sh\\necho v24.0.0\\n' >node_modules/.bin/node
chmod +x node_modules/.bin/node
rmdir busy
`;

test('of two commands at once one installs the packages, and the other waits for its end', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-prepare-'));
  const at = (path: string): string => join(folder.path, path);
  await mkdir(at('bootstrap'));
  await mkdir(at('programs'));
  for (const script of ['prepare', 'command-file']) {
    await copyFile(join(import.meta.dirname, script), at(`bootstrap/${script}`));
  }
  await writeFile(at('package-lock.json'), '{}');
  await writeFile(at('programs/npm'), npm, { mode: 0o755 });
  const env = { ...process.env, PATH: `${at('programs')}:${process.env['PATH'] ?? ''}` };
  const prepare = () => run('sh', [at('bootstrap/prepare')], { env });
  await Promise.all([prepare(), prepare()]);
  await prepare();
  assert.equal((await readFile(at('calls'), 'utf8')).split('\n').length - 1, 1);
});

test('whose sudo has passed no proxy on is told so, and how it does', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-prepare-'));
  const at = (path: string): string => join(folder.path, path);
  await mkdir(at('bootstrap'));
  await mkdir(at('programs'));
  await copyFile(join(import.meta.dirname, 'prepare'), at('bootstrap/prepare'));
  await writeFile(at('package-lock.json'), '{}');
  await writeFile(at('programs/npm'), '#!/bin/sh\nexit 1\n', { mode: 0o755 });
  const { http_proxy: _1, https_proxy: _2, HTTP_PROXY: _3, HTTPS_PROXY: _4, ...rest } = process.env;
  const env = { ...rest, PATH: `${at('programs')}:${process.env['PATH'] ?? ''}`, SUDO_USER: 'me' };
  const said = async (more: Record<string, string>): Promise<string> =>
    run('sh', [at('bootstrap/prepare')], { env: { ...env, ...more } }).then(
      () => 'nothing',
      (error: unknown) => String(Object(error).stderr),
    );
  assert.match(
    await said({}),
    /npm ci failed[^]*sudo --preserve-env=http_proxy,https_proxy,no_proxy[^]*run the same command again/,
  );
  assert.doesNotMatch(await said({ https_proxy: 'http://192.0.2.1:3128' }), /preserve-env/);
  assert.doesNotMatch(await said({ SUDO_USER: '' }), /preserve-env/);
});

test('root finds its own programs also where su has left the path of somebody else', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-prepare-'));
  const at = (path: string): string => join(folder.path, path);
  await mkdir(at('bootstrap'));
  for (const script of ['prepare', 'command-file']) {
    await copyFile(join(import.meta.dirname, script), at(`bootstrap/${script}`));
  }
  await writeFile(at('bootstrap/packages'), 'echo "$PATH"; exit 3\n');
  const env = { ...process.env, PATH: '/usr/local/bin:/usr/bin:/bin' };
  const said = await run('sh', [at('bootstrap/prepare'), '--root'], { env }).catch((error: unknown) =>
    String(Object(error).stdout),
  );
  assert.equal(said, '/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin\n');
});

/** Says what it is to run, and makes what it is to make. */
const node = `#!/bin/sh
case $1 in
  --version) echo v24.0.0 ;;
  bootstrap/make-command.ts) mkdir -p "\${2%/*}" && : >"$2" ;;
  *) echo "$2" ;;
esac
`;

test('the command is run from one file as long as nothing it is made of has changed', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-prepare-'));
  const at = (path: string): string => join(folder.path, path);
  for (const path of ['bin', 'bootstrap', 'cli', 'layer0', 'layer1', 'node_modules/.bin']) {
    await mkdir(at(path), { recursive: true });
  }
  for (const path of ['bin/flynn', 'bootstrap/prepare', 'bootstrap/command-file']) {
    await copyFile(join(import.meta.dirname, '..', path), at(path));
  }
  await writeFile(at('package-lock.json'), '{}');
  await writeFile(at('node_modules/.flynn-lock'), '{}');
  await writeFile(at('node_modules/.bin/node'), node, { mode: 0o755 });
  await writeFile(at('cli/main.ts'), '');
  const program = async () => relative(folder.path, (await run('sh', [at('bin/flynn')])).stdout.trim());
  assert.equal(await program(), 'cli/main.ts');
  await run('sh', [at('bootstrap/prepare')]);
  assert.equal(await program(), 'node_modules/.cache/flynn/flynn.mjs');
  const soon = new Date(Date.now() + 1_000);
  await utimes(at('cli/main.ts'), soon, soon);
  assert.equal(await program(), 'cli/main.ts');
});
