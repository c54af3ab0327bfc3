import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { readRefresh } from '@flynn/host-agent/update/refresh-record';
import { freePort } from '@flynn/kit/testing-ports';
import { createAuthority } from '@flynn/kit/tls';
import { bundle as bundleProgram } from '../images/bundle.ts';
import { imageNames } from '../images/recipes.ts';
import { bundleFile, bundleSchema, root } from '../origin.ts';
import { lockFileOf, withHostLock } from '../host-lock.ts';
import { readOptions, settle } from '../settings.ts';
import { writeCluster } from '../state.ts';
import { sourcesOf, versionIn } from './contents.ts';

const bundle = bundleSchema.parse({
  version: '9.8.7',
  platform: 'linux-x64',
  madeAt: '2026-01-01T00:00:00Z',
  images: Object.fromEntries(imageNames.map((name) => [name, `flynn/${name}:1`])),
});

test('what a bundle takes from the repository is there, each thing in one place', () => {
  const sources = sourcesOf(bundle);
  for (const source of sources) {
    if (source.type === 'repository') assert.ok(existsSync(join(root, source.source)), source.source);
    if (source.type === 'bundle') assert.ok(existsSync(join(root, source.entry)), source.entry);
  }
  const paths = sources.map(({ path }) => path);
  assert.equal(new Set(paths).size, paths.length);
});

test('a version is three numbers, perhaps with what it leads up to', () => {
  for (const text of ['0.1.0', '10.20.30', '1.0.0-rc.1', '1.0.0-a1b2']) assert.equal(versionIn(text), text);
  for (const text of ['', '1', '1.0', 'v1.0.0', '1.0.0-', '1.0.0/..', '1.0.0-RC', '../1.0.0'])
    assert.equal(versionIn(text), undefined);
});

describe('its programs, where there is no repository', () => {
  let prefix = '';
  const program = (name: string): string => join(prefix, bundle.version, 'programs', name);
  before(async () => {
    prefix = await mkdtemp(join(tmpdir(), 'flynn-bundle-'));
    const folder = join(prefix, bundle.version);
    await mkdir(join(folder, 'programs'), { recursive: true });
    await writeFile(join(folder, bundleFile), JSON.stringify(bundle));
    await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
    for (const [name, entry] of [
      ['flynn-host.mjs', 'bootstrap/flynn-host.ts'],
      ['flynn.mjs', 'cli/main.ts'],
      ['flynn-runner.mjs', 'layer1/runner/main.ts'],
    ] as const) {
      await writeFile(program(name), await bundleProgram(entry, { version: bundle.version }));
    }
  });
  after(() => rm(prefix, { recursive: true }));

  const makeState = async (): Promise<string> => {
    const stateDir = join(prefix, 'state');
    const machine = {
      hostname: 'host1',
      address: '127.0.0.1',
      now: new Date(0),
      newSecret: () => 'secret',
      authority: await createAuthority('flynn'),
    };
    // Nobody answers there, though this machine may be a host of a cluster, whose etcd has the usual port.
    const etcdEndpoints = [`https://127.0.0.1:${await freePort()}`];
    await writeCluster(stateDir, { ...settle(readOptions({}), undefined, machine), etcdEndpoints });
    return stateDir;
  };

  const runWith = (more: Record<string, string>, name: string, ...args: string[]) => {
    const env = { PATH: process.env['PATH'], FLYNN_STATE_DIR: join(prefix, 'state'), ...more };
    return spawnSync(process.execPath, [program(name), ...args], { encoding: 'utf8', cwd: prefix, env });
  };
  const run = (name: string, ...args: string[]) => runWith({}, name, ...args);

  test('run, and say the version that they were made as', () => {
    assert.match(run('flynn-host.mjs', 'help', 'bootstrap').stdout, /--min-hosts/);
    for (const name of ['flynn.mjs', 'flynn-host.mjs']) assert.equal(run(name, '--version').stdout, '9.8.7\n');
  });

  test('are a runner outside of the cluster, too, which says what it needs', () => {
    const runner = (env: Record<string, string>) =>
      spawnSync(process.execPath, [program('flynn-runner.mjs')], { encoding: 'utf8', cwd: prefix, env });
    const bare = runner({});
    assert.deepEqual(
      [bare.status, /FLYNN_CONTROLLER_URL: ..flynn runner add ID/.test(bare.stdout)],
      [1, true],
      bare.stdout,
    );
    const half = runner({ FLYNN_CONTROLLER_URL: 'https://controller.example.com', FLYNN_RUNNER_ID: 'office' });
    assert.match(half.stdout, /with FLYNN_CONTROLLER_URL go FLYNN_RUNNER_ID and FLYNN_RUNNER_TOKEN/);
    const key = { FLYNN_KEY: 'k', FLYNN_CONTROLLER_URL: 'https://controller.example.com' };
    assert.match(runner(key).stdout, /FLYNN_KEY is for runners that are jobs of the platform/);
  });

  test('go back by the programs of the version before where a host does not become one of theirs, and note why', async () => {
    const bin = join(prefix, '9.7.0', 'bin');
    await mkdir(bin, { recursive: true });
    const asked = join(prefix, 'asked back');
    await writeFile(join(bin, 'flynn-host'), `#!/bin/sh\necho "$*" >"${asked}"\n`, { mode: 0o755 });
    await symlink('9.7.0', join(prefix, 'current'));
    const stateDir = await makeState();
    const { status, stderr } = runWith({ FLYNN_CLUSTER: 'another' }, 'flynn-host.mjs', 'refresh');
    assert.equal(status, 1);
    assert.match(stderr, /was made with flynn/);
    assert.equal(await readFile(asked, 'utf8'), 'refresh\n');
    const record = await readRefresh(stateDir);
    assert.equal(record?.version, bundle.version);
    assert.match(record.error ?? '', /was made with flynn[^]*The host is of version 9\.7\.0 again\./);
    await rm(stateDir, { recursive: true });
  });

  test('move a cluster by the programs of the version that is to be, and say what came of it', async () => {
    const bin = join(prefix, '9.9.0', 'bin');
    await mkdir(bin, { recursive: true });
    const asked = join(prefix, 'asked');
    const lock = join(prefix, 'lock');
    const given = join(prefix, 'given');
    const other = `#!/bin/sh\necho "$*" >"${asked}"\nreadlink /proc/self/fd/3 >"${lock}"\necho "\${FLYNN_NETWORK_BACKEND-unset}" >"${given}"\nexit 1\n`;
    await writeFile(join(bin, 'flynn-host'), other, { mode: 0o755 });
    const nowhere = run('flynn-host.mjs', 'update', '--to', '9.9.0');
    assert.equal(nowhere.status, 1);
    assert.match(nowhere.stderr, /no host of a cluster: flynn-host bootstrap makes it one/);
    const stateDir = await makeState();
    assert.equal(run('flynn-host.mjs', 'update', '--to', '9.9.0', '--stay', '--leave-away').status, 1);
    assert.equal(await readFile(lock, 'utf8'), `${lockFileOf(stateDir)}\n`, 'they go on under the lock');
    assert.equal(await readFile(asked, 'utf8'), `--state-dir ${prefix}/state update --to 9.9.0 --stay --leave-away\n`);
    // A version that does not know it would refuse it, and the cluster could not go back.
    assert.equal(runWith({ FLYNN_NETWORK_BACKEND: 'vxlan' }, 'flynn-host.mjs', 'update', '--to', '9.9.0').status, 1);
    assert.equal(await readFile(given, 'utf8'), 'unset\n');
    const missing = run('flynn-host.mjs', 'update', '--to', '9.9.9');
    assert.equal(missing.status, 1);
    assert.match(missing.stderr, /9\.9\.9 is not installed here: give its bundle/);
    await rm(stateDir, { recursive: true });
  });

  test('change a host one at a time: whoever comes second is refused at once, with what is at work', async () => {
    const stateDir = await makeState();
    await withHostLock(stateDir, 'a command of a test', async () => {
      for (const args of [['update', '--to', '9.7.0'], ['refresh'], ['bootstrap'], ['join', 'TOKEN'], ['uninstall']]) {
        const { status, stderr } = run('flynn-host.mjs', ...args);
        assert.equal(status, 1);
        assert.match(stderr, /a command of a test is at work here since .* \(process \d+\)/, args[0]);
      }
    });
    assert.equal(await readRefresh(stateDir), undefined, 'nothing was changed');
    await rm(stateDir, { recursive: true });
  });
});
