/**
 * A buildpack finds in the builder's image what those published for Heroku count on. This one does what theirs for Node.js
 * does, in its order and with its programs: it reads package.json with jq, looks a version up, fetches it with curl, checks its
 * digest, unpacks it into .heroku, has it install, and writes .profile.d, export, a report and the cache.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { openContainerBuilds } from './container-builds.ts';

const compile = `#!/usr/bin/env bash
set -o errexit -o pipefail
unset GIT_DIR
BUILD_DIR=\${1:-} CACHE_DIR=\${2:-} ENV_DIR=\${3:-}
BP_DIR=$(cd "$(dirname "\${0:-}")"; cd ..; pwd)
export PATH="$BUILD_DIR/.heroku/node/bin:$BUILD_DIR/.heroku/yarn/bin":$PATH
LOG_FILE=$(mktemp -t node-build-log.XXXXX)
NPM_CONFIG_CACHE=$(mktemp -d -t npmcache.XXXXX)
export NPM_CONFIG_CACHE
now() { (LC_ALL=C; echo "$EPOCHREALTIME"); }
read_json() { cat "$1" | jq -c -M --raw-output "$2 // \\"\\"" || return 1; }
set_raw() { report=$(jq --arg key "$1" --argjson value "$2" '. + { ($key): ($value) }' "$REPORT"); echo "$report" > "$REPORT"; }
indent() { sed -u 's/^/       /'; }
REPORT=$(mktemp); echo '{}' > "$REPORT"
started=$(now)
[ ! -f "$BUILD_DIR/.heroku" ] && [ ! -d "$BUILD_DIR/.heroku/node" ]
for name in $(ls "$ENV_DIR"); do
  echo "$name" | grep -qvE '^(PATH|GIT_DIR|CPATH|CPPATH|LD_PRELOAD|LIBRARY_PATH|LANG|BUILD_DIR)$' && export "$name=$(cat "$ENV_DIR/$name")"
done
mkdir -p "$BUILD_DIR/.heroku/node/" "$BUILD_DIR/.profile.d"
cd "$BUILD_DIR"
printenv | grep ^NODE_ | sort | indent
echo 'export PATH="$HOME/.heroku/node/bin:$HOME/.heroku/yarn/bin:$PATH:$HOME/bin:$HOME/node_modules/.bin"' > .profile.d/nodejs.sh
echo "export PATH=\\"$BUILD_DIR/.heroku/node/bin:\\$PATH\\"" > "$BP_DIR/export"
engine=$(read_json package.json .engines.node)
found=$(jq --arg version "$engine" '.[$version]' "$BP_DIR/inventory.json")
echo "-----> Installing node $engine for $(uname | tr '[:upper:]' '[:lower:]') on $STACK"
curl "$(echo "$found" | jq -r .url)" --no-progress-meter --location --fail --max-time 30 --retry 5 --retry-connrefused --connect-timeout 5 -o /tmp/node.tar.gz
echo "$(echo "$found" | jq -r .checksum) /tmp/node.tar.gz" | sha256sum --check --status
rm -rf "$BUILD_DIR/.heroku/node"/*
tar xzf /tmp/node.tar.gz --strip-components 1 -C "$BUILD_DIR/.heroku/node"
chmod +x "$BUILD_DIR/.heroku/node"/bin/*
npm ci --userconfig "$BUILD_DIR/.npmrc" 2>&1 | tee "$LOG_FILE" | indent
mkdir -p "$CACHE_DIR/node" && cp -a node_modules "$CACHE_DIR/node/"
set_raw build_time "$(awk -v start="$started" -v end="$(now)" 'BEGIN { printf "%f", (end - start) }')"
echo "       took $(jq .build_time "$REPORT") s"
for program in file git gzip make openssl patch perl ps python3 rsync unzip wget xz zip zstd; do command -v "$program" > /dev/null || echo "missing: $program"; done
`;

const release = `#!/usr/bin/env bash
cat << EOF
addons: []
default_process_types:
  web: npm start
EOF
`;

const npm = '#!/bin/sh\n[ "$1" = ci ] && mkdir -p node_modules/a && echo "added 1 package"\n';

async function write(dir: string, files: Record<string, string>): Promise<void> {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(dir, path)), { recursive: true });
    await writeFile(join(dir, path), text, { mode: path.includes('bin/') ? 0o755 : 0o644 });
  }
}

test('a buildpack like the one published for Node.js builds an app in the builder’s image', async (t) => {
  await using builds = await openContainerBuilds();
  const dir = await mkdtemp(join(tmpdir(), 'flynn-published-'));
  t.after(() => rm(dir, { recursive: true }));
  await write(join(dir, 'node-v24.1.0-linux-x64'), { 'bin/npm': npm, 'bin/node': '#!/bin/sh\necho v24.1.0\n' });
  const archive = execFileSync('tar', ['-C', dir, '-czf', '-', 'node-v24.1.0-linux-x64']);
  const server = createServer((request, response) => {
    // As the site does that has them.
    if (request.url === '/node') response.writeHead(302, { location: '/node.tar.gz' }).end();
    else response.end(archive);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const address = server.address();
  assert.ok(address !== null && typeof address === 'object');
  const node = {
    url: `http://127.0.0.1:${address.port}/node`,
    checksum: createHash('sha256').update(archive).digest('hex'),
  };
  await write(join(dir, 'app'), {
    'package.json': JSON.stringify({ engines: { node: '24.x' }, scripts: { start: 'node server.js' } }),
    'pack/bin/compile': compile,
    'pack/bin/detect': '#!/bin/sh\n[ -f "$1/package.json" ] && echo "Node.js"\n',
    'pack/bin/release': release,
    'pack/inventory.json': JSON.stringify({ '24.x': node }),
  });
  const appEnv = { BUILDPACK_URL: '/app/pack', NODE_ENV: 'production', STACK: 'heroku-24' };
  const { code, output, result } = await builds.build('published', join(dir, 'app'), { appEnv });
  assert.equal(code, 0, output);
  assert.match(output, /^ {7}NODE_ENV=production$/m);
  assert.match(
    output,
    /^-----> Installing node 24\.x for linux on heroku-24\n {7}added 1 package\n {7}took [\d.]+ s$/m,
  );
  assert.doesNotMatch(output, /missing: /);
  assert.deepEqual(result?.processTypes, { web: 'npm start' });
});
