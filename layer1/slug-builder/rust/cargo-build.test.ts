import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { bench } from '../compile-fixture.ts';
import { exists } from '../nodejs/toolchain.ts';
import { buildPrograms, cargoEnv, cargoExports, jobsWithin } from './cargo-build.ts';

const artifact = `{"package_id":"path+file:///app#shop@1.0.0","target":{"name":"shop","kind":["bin"]},"executable":"'"$CARGO_TARGET_DIR"'/release/shop"}`;
const cargo = `echo "cargo $*" >&2
[ ! -e broken ] || exit 101
mkdir -p "$CARGO_TARGET_DIR/release/.fingerprint"
echo "made of $CARGO_NET_GIT_FETCH_WITH_CLI $SQLX_OFFLINE" > "$CARGO_TARGET_DIR/release/shop"
echo '${artifact}'`;

const apps: [says: string, files: Record<string, string>, appEnv: Record<string, string>, called: string][] = [
  ['with a lockfile as that says', { 'Cargo.lock': '' }, {}, 'build --release --locked'],
  ['without a lockfile as it comes', {}, {}, 'build --release'],
  [
    'with flags of its own',
    { 'Cargo.lock': '' },
    { RUST_CARGO_BUILD_FLAGS: '--frozen -p shop' },
    'build --frozen -p shop',
  ],
];
for (const [says, files, appEnv, called] of apps) {
  test(`an app is built ${says}, and the slug has its programs where Cargo puts them`, async () => {
    await using b = await bench({ ...files, '.sqlx/query.json': '' });
    const baseEnv = await b.withProgram('cargo', cargo);
    const context = { ...b.context(), baseEnv, appEnv };
    const env = await cargoEnv(context, join(b.dir, 'none'));
    assert.deepEqual(await buildPrograms(context, env), [{ name: 'shop', path: 'release/shop' }]);
    assert.equal(await readFile(join(b.layout.appDir, 'target/release/shop'), 'utf8'), 'made of true true\n');
    assert.equal(await exists(join(env.CARGO_TARGET_DIR, 'release/shop')), false);
    assert.match(b.output(), new RegExp(`cargo ${called} --message-format=json-render-diagnostics\n`));
    assert.doesNotMatch(b.output(), /package_id/);
    assert.equal(/There is no Cargo\.lock/.test(b.output()), files['Cargo.lock'] === undefined);
  });
}

test('of a build that fails it is said what to check', async () => {
  await using b = await bench({ broken: '', 'Cargo.lock': '' });
  const context = { ...b.context(), baseEnv: await b.withProgram('cargo', cargo) };
  await assert.rejects(buildPrograms(context, await cargoEnv(context, join(b.dir, 'none'))), {
    code: 'invalid',
    message: /^"cargo build --release --locked" failed with exit code 101[^]*CARGO_MIRROR_URL/,
  });
});

test('what Cargo fetches for the next buildpack is kept, and not in the slug', async () => {
  await using b = await bench({});
  const { PATH, CARGO_HOME } = cargoExports(b.context(), '/opt/rust');
  assert.match(PATH ?? '', /^\/opt\/rust\/usr\/bin:/);
  assert.equal(CARGO_HOME, (await cargoEnv(b.context(), '/opt/rust')).CARGO_HOME);
  assert.ok(CARGO_HOME?.startsWith(b.layout.cacheDir));
});

test('no more is compiled at once than there is memory for', () => {
  const gigabyte = 1024 ** 3;
  assert.equal(jobsWithin(gigabyte, 4), 2);
  assert.equal(jobsWithin(gigabyte / 4, 4), 1);
  assert.equal(jobsWithin(gigabyte, 2), undefined);
});
