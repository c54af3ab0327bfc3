/** The unit as systemd itself reads it. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempDisposableSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { before, test } from 'node:test';
import { removeAgent } from './agent.ts';
import { node } from '../origin.ts';
import { refuseUnclaimed, unclaimedOf } from '../machine/unclaimed.ts';
import { startUnit, unitFile, unitText } from './unit.ts';

before(() => {
  // Where systemd is not what runs the machine its programs may be missing.
  if (spawnSync('systemd-analyze', ['--version']).error === undefined) return;
  execFileSync('apt-get', ['-q', 'update'], { stdio: 'ignore', timeout: 240_000 });
  const install = ['-qy', 'install', '--no-install-recommends', 'systemd'];
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  execFileSync('apt-get', install, { stdio: 'ignore', timeout: 240_000, env });
});

/** What systemd has to say of a unit in a machine of its own, in which what the unit waits for is there. */
function verify(text: (stateDir: string) => string): { status: number | null; said: string } {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'flynn-unit-'));
  const units = join(folder.path, 'units');
  mkdirSync(units);
  for (const name of ['docker.service', 'dbus.service']) {
    writeFileSync(join(units, name), '[Service]\nExecStart=/bin/true\n');
  }
  const file = join(units, 'flynn-host-test.service');
  writeFileSync(file, text(join(folder.path, 'state')));
  const { status, stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', file], {
    encoding: 'utf8',
    timeout: 60_000,
    env: { ...process.env, SYSTEMD_UNIT_PATH: `${units}:` },
  });
  // Units of the machine itself may be odd; this is about ours.
  const said = stderr.split('\n').filter((line) => line.includes('flynn-host-test'));
  return { status, said: said.join('\n') };
}

const unitIn = (stateDir: string): string =>
  unitText({ name: 'test' }, { stateDir, node, program: join(stateDir, 'agent/current/host-agent.mjs') });

test('systemd finds nothing wrong with the unit', { timeout: 600_000 }, () => {
  assert.deepEqual(verify(unitIn), { status: 0, said: '' });
});

test('it would find a setting that it does not know, or in a section that is not its own', { timeout: 600_000 }, () => {
  const misplaced = (stateDir: string): string => `${unitIn(stateDir)}StartLimitIntervalSec=0\n`;
  assert.match(verify(misplaced).said, /StartLimitIntervalSec.* in section \[?'?Install/);
});

test('the unit of a cluster in another folder is not written over', { timeout: 60_000 }, async () => {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'flynn-unit-'));
  const name = `t${process.pid}`;
  const file = unitFile({ name });
  writeFileSync(join(folder.path, 'cluster.json'), '{}');
  const places = { node, program: '/none' };
  const text = unitText({ name }, { ...places, stateDir: folder.path });
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
  try {
    const stateDir = join(folder.path, 'other');
    const next = unitText({ name }, { ...places, stateDir });
    await assert.rejects(startUnit({ name }, next, { stateDir, stopMs: 1_000 }), {
      code: 'conflict',
      message: new RegExp(`that of the cluster in ${folder.path}, and stays`),
    });
    assert.equal(readFileSync(file, 'utf8'), text);
  } finally {
    rmSync(file);
  }
});

test(
  'a unit whose state is not where it was is that of a cluster on a disk that is not mounted',
  { timeout: 60_000 },
  async () => {
    using folder = mkdtempDisposableSync(join(tmpdir(), 'flynn-unit-'));
    const name = `t${process.pid}`;
    const file = unitFile({ name });
    const options = {
      FLYNN_STATE_DIR: folder.path,
      FLYNN_DOCKER_SOCKET: join(folder.path, 'none.sock'),
      FLYNN_SUPERVISOR: 'systemd',
    } as const;
    const nothing = { containers: 0, volumes: 0 };
    assert.deepEqual(await unclaimedOf(options, name), nothing);
    mkdirSync(dirname(file), { recursive: true });
    try {
      // Its engine is on that disk, too, and says nothing.
      writeFileSync(file, unitText({ name }, { node, program: '/none', stateDir: folder.path }));
      assert.deepEqual(await unclaimedOf(options, name), { ...nothing, unitStateDir: folder.path });
      await assert.rejects(refuseUnclaimed(options, { name, command: 'npm run down' }), { code: 'conflict' });
      assert.deepEqual(await unclaimedOf({ ...options, FLYNN_SUPERVISOR: 'own' }, name), nothing, 'of a test host');
      // As an `up`, or a `down`, that was broken off leaves it.
      writeFileSync(join(folder.path, 'cluster.json'), '{}');
      assert.deepEqual(await unclaimedOf(options, name), nothing);
    } finally {
      rmSync(file);
    }
  },
);

test('what people set beside a unit goes after it, and not before', { timeout: 60_000 }, async () => {
  const name = `t${process.pid}`;
  const file = unitFile({ name });
  const dropIn = join(`${file}.d`, 'override.conf');
  mkdirSync(dirname(dropIn), { recursive: true });
  writeFileSync(dropIn, '[Service]\nEnvironment=A=b\n');
  try {
    // That of a cluster in another folder.
    writeFileSync(file, unitText({ name }, { node, program: '/none', stateDir: '/data/flynn' }));
    const agent = { stateDir: join(tmpdir(), 'flynn-none'), cluster: { name } };
    assert.deepEqual(await removeAgent(agent), []);
    assert.ok(existsSync(dropIn));
    rmSync(file);
    assert.deepEqual(await removeAgent(agent), [`settings of your own beside flynn-host-${name}`]);
    assert.equal(existsSync(dirname(dropIn)), false);
    assert.deepEqual(await removeAgent(agent), []);
  } finally {
    rmSync(file, { force: true });
    rmSync(dirname(dropIn), { recursive: true, force: true });
  }
});
