/**
 * The published buildpack API, by a buildpack that uses all of it as the well-known ones do: it fetches a runtime from an
 * address in ENV_DIR, keeps it in the cache, writes .profile.d, export and a Procfile, and finds its own files beside itself.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createServer } from 'node:http';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { compileSlug } from './compile.ts';
import { baseEnv } from './environment.ts';
import { createOutput } from './output.ts';

const buildpack = {
  'README.md': '',
  'lib/common.sh': `indent() { sed -u 's/^/       /'; }
export_env_dir() {
  for file in "$1"/*; do
    case "$(basename "$file")" in PATH|GIT_DIR|LD_PRELOAD) ;; *) export "$(basename "$file")=$(cat "$file")" ;; esac
  done
}
`,
  'bin/detect': `#!/usr/bin/env bash
if [ -f "$1/tool.json" ]; then echo "Tool"; exit 0; fi
echo "no tool.json" >&2
exit 1
`,
  'bin/compile': `#!/usr/bin/env bash
set -eo pipefail
build_dir=$1; cache_dir=$2; env_dir=$3
bp_dir=$(cd "$(dirname "$0")"; cd ..; pwd)
source "$bp_dir/lib/common.sh"
[ -z "\${TOKEN+set}" ] || { echo "variables of the app are in ENV_DIR alone"; exit 3; }
export_env_dir "$env_dir"
mkdir -p "$build_dir/.heroku/tool" "$cache_dir/tool" "$build_dir/.profile.d"
if [ -f "$cache_dir/tool/archive" ]; then echo "-----> Using the tool of the build before"
else
  echo "-----> Fetching the tool for $STACK at $SOURCE_VERSION"
  curl -sSfL "$TOOL_URL" -o "$cache_dir/tool/archive"
fi
tar -xzf "$cache_dir/tool/archive" -C "$build_dir/.heroku/tool" 2>&1 | indent
export PATH="$build_dir/.heroku/tool/bin:$PATH"
cd "$build_dir"
tool 2>&1 | indent
echo 'export PATH="$HOME/.heroku/tool/bin:$PATH"' > .profile.d/tool.sh
echo "export PATH=\\"$build_dir/.heroku/tool/bin:\\$PATH\\" TOOL_HOME=\\"$build_dir/.heroku/tool\\"" > "$bp_dir/export"
[ -f Procfile ] || echo "web: tool serve" > Procfile
exit "\${EXIT:-0}"
`,
  'bin/release': `#!/usr/bin/env bash
cat <<EOF
---
addons: []
config_vars:
  TOOL_MODE: production
default_process_types:
  web: never, as there is a Procfile
  console: tool console
EOF
`,
};

const after = {
  'bin/detect': '#!/bin/sh\necho After\n',
  'bin/compile': '#!/bin/sh\n[ "$TOOL_HOME" = "$1/.heroku/tool" ] && tool | sed "s/^/again: /"\n',
};

/** As those that build one app of a repository of several: what is below `apps/one` becomes all there is. */
const mover = {
  'bin/detect': '#!/bin/sh\necho Mover\n',
  'bin/compile': `#!/usr/bin/env bash
set -e
shopt -s dotglob
kept=$(mktemp -d)
cp -R "$1/apps/one/." "$kept/"
rm -rf "\${1:?}"/*
cp -R "$kept/." "$1/"
rm -rf "$kept"
`,
};

async function write(dir: string, files: Record<string, string>): Promise<void> {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(dir, path)), { recursive: true });
    await writeFile(join(dir, path), text, { mode: path.includes('bin/') ? 0o755 : 0o644 });
  }
}

async function setUp(t: TestContext) {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-contract-'));
  await write(join(dir, 'pack/repository-1.2'), buildpack);
  await write(join(dir, 'after'), after);
  await write(join(dir, 'mover'), mover);
  await write(join(dir, 'tool'), { 'bin/tool': '#!/bin/sh\necho "the tool speaks: ${1:-nothing}"\n' });
  const pack = execFileSync('tar', ['-C', join(dir, 'pack'), '-czf', '-', '.']);
  const tool = execFileSync('tar', ['-C', join(dir, 'tool'), '-czf', '-', '.']);
  let fetches = 0;
  const server = createServer((request, response) => {
    if (request.url === '/tool.tar.gz') fetches += 1;
    response.end(request.url === '/tool.tar.gz' ? tool : pack);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  assert.ok(address !== null && typeof address === 'object');
  const base = `http://127.0.0.1:${address.port}`;
  t.after(async () => {
    server.close();
    await rm(dir, { recursive: true });
  });
  let count = 0;
  const compile = async (files: Record<string, string>, appEnv: Record<string, string>) => {
    count += 1;
    const layout = {
      appDir: join(dir, `app-${count}`),
      cacheDir: join(dir, 'cache'),
      envDir: join(dir, `env-${count}`),
      runtimeDir: join(dir, `opt-${count}`),
      scratchDir: join(dir, `scratch-${count}`),
    };
    for (const path of Object.values(layout)) await mkdir(path, { recursive: true });
    await write(layout.appDir, files);
    let output = '';
    const env = baseEnv({ PATH: process.env['PATH'] }, { home: layout.appDir, commit: 'c0ffee' });
    const out = createOutput((text) => (output += text));
    const signal = AbortSignal.timeout(60_000);
    const given = { TOKEN: 'x y\nz', TOOL_URL: `${base}/tool.tar.gz`, ...appEnv };
    const plan = await compileSlug({ layout, appEnv: given, baseEnv: env, out, nowMs: 0, signal });
    return { plan, output, layout };
  };
  return { dir, base, compile, fetches: () => fetches };
}

test('a buildpack that uses all of the API builds, twice, and the slug runs as it says', async (t) => {
  const world = await setUp(t);
  const appEnv = { BUILDPACK_URL: `${world.base}/archive/v1.2.tar.gz`, STACK: 'heroku-24' };
  const { plan, output, layout } = await world.compile({ 'tool.json': '{}' }, appEnv);
  assert.match(
    output,
    /^-----> Tool app detected\n-----> Fetching the tool for heroku-24 at c0ffee\n {7}the tool speaks: nothing$/m,
  );
  assert.deepEqual(plan.processTypes, { web: 'tool serve', console: 'tool console' });
  const runner = join(import.meta.dirname, 'flynn-run');
  const run = (env: Record<string, string>): string =>
    execFileSync(runner, ['tool "$TOOL_MODE"'], {
      env: { PATH: '/usr/bin:/bin', FLYNN_RUN_DIR: layout.appDir, ...env },
      encoding: 'utf8',
    });
  assert.equal(run({}), 'the tool speaks: production\n');
  assert.equal(run({ TOOL_MODE: 'mine' }), 'the tool speaks: mine\n');

  const again = await world.compile({ 'tool.json': '{}', Procfile: 'web: mine\n' }, appEnv);
  assert.match(again.output, /Using the tool of the build before/);
  assert.deepEqual(again.plan.processTypes, { web: 'mine', console: 'tool console' });
  assert.equal(world.fetches(), 1);
});

test('its export counts for the buildpack after it', async (t) => {
  const world = await setUp(t);
  const listed = `${world.base}/pack.tgz\n${join(world.dir, 'after')}\n`;
  const { output, plan } = await world.compile({ 'tool.json': '{}', '.buildpacks': listed }, {});
  assert.match(output, /^again: the tool speaks: nothing$/m);
  assert.equal(plan.buildpack, 'pack, after');
});

test('a buildpack is asked whether it knows the app once those before it have compiled', async (t) => {
  const world = await setUp(t);
  const app = {
    '.buildpacks': `${join(world.dir, 'mover')}\n${world.base}/pack.tgz\n`,
    'app.json': '{"name": "all"}',
    'apps/one/tool.json': '{}',
    'apps/one/Procfile': 'web: of one\n',
    'apps/one/app.json': '{"formation": {"web": {"quantity": 2}}}',
  };
  const { output, plan } = await world.compile(app, {});
  assert.match(output, /^-----> Mover app detected\n-----> Tool app detected$/m);
  assert.deepEqual(plan.processTypes, { web: 'of one', console: 'tool console' });
  assert.equal(plan.appJson?.formation['web'], 2);
});

test('its exit codes count: detect says whose the app is, compile whether it was built', async (t) => {
  const world = await setUp(t);
  const appEnv = { BUILDPACK_URL: `${world.base}/pack.tgz` };
  await assert.rejects(world.compile({ 'other.json': '' }, appEnv), { message: /Unable to select a buildpack/ });
  await assert.rejects(world.compile({ 'tool.json': '' }, { ...appEnv, EXIT: '7' }), {
    code: 'invalid',
    message: /bin\/compile of the buildpack pack failed with exit code 7/,
  });
  assert.equal(await readFile(join(world.dir, 'env-2/TOKEN'), 'utf8'), 'x y\nz');
});
