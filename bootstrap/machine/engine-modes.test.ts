import assert from 'node:assert/strict';
import { test } from 'node:test';
import { engineThat } from './engine-fixture.ts';
import {
  engineFacts,
  engineProblems,
  readEngine,
  readUpgradeText,
  refuseUnfitEngine,
  upgradeText,
} from './engine-modes.ts';

test('an engine that maps users, or runs without root, is told as one that no host is made of, with what to change', () => {
  const told = (SecurityOptions: unknown): string =>
    engineProblems(engineFacts({ SecurityOptions }).modes)
      .map(({ what, remedy }) => `${what}; ${remedy}`)
      .join('\n');
  assert.match(told(['name=seccomp,profile=builtin', 'name=userns']), /userns-remap.*daemon\.json/);
  assert.match(told(['name=rootless', 'name=cgroupns']), /rootless.*FLYNN_DOCKER_SOCKET/);
  assert.equal(told(['name=apparmor', 'name=seccomp,profile=builtin', 'name=cgroupns', 'name=toString']), '');
  for (const none of [undefined, null, []]) assert.equal(told(none), '');
});

test('an engine of a snap is told as one that no host is made of: it sees no folder of the host outside of homes', () => {
  const { dataDir, modes } = engineFacts({
    DockerRootDir: '/var/snap/docker/common/var-lib-docker',
    SecurityOptions: null,
  });
  assert.equal(dataDir, '/var/snap/docker/common/var-lib-docker');
  assert.match(
    engineProblems(modes)
      .map(({ what, remedy }) => `${what}; ${remedy}`)
      .join(),
    /snap.*snap remove docker/,
  );
  assert.deepEqual(engineFacts({ DockerRootDir: '/var/snapshots/docker' }).modes, []);
});

test('of which addresses an engine gives networks theirs is known where somebody has set it', () => {
  const poolsOf = (DefaultAddressPools: unknown) => engineFacts({ DefaultAddressPools }).pools;
  assert.deepEqual(poolsOf([{ Base: '100.64.0.0/10', Size: 24 }]), ['100.64.0.0/10']);
  for (const none of [undefined, null, []]) assert.deepEqual(poolsOf(none), []);
});

test('one that was just started is asked too: what was changed by then is said', async () => {
  await using engine = await engineThat(() => ({
    status: 200,
    body: { DockerRootDir: '/data/docker/100000.100000', SecurityOptions: ['name=userns'] },
  }));
  assert.deepEqual(await readEngine(engine.socket), {
    dataDir: '/data/docker/100000.100000',
    modes: ['userns'],
    pools: [],
  });
  await assert.rejects(refuseUnfitEngine(engine.socket, { done: 'It was started.' }), {
    code: 'conflict',
    message: /userns-remap.*It was started\.$/,
  });
  await using fit = await engineThat(() => ({ status: 200, body: {} }));
  await refuseUnfitEngine(fit.socket, { done: 'It was started.' });
});

test('where containers end with their engine, people are told before its next upgrade', async () => {
  await using engine = await engineThat(() => ({ status: 200, body: { LiveRestoreEnabled: false } }));
  assert.match(await readUpgradeText(engine.socket), /live-restore/);
  await using silent = await engineThat(() => ({ status: 500, body: {} }));
  assert.equal(await readUpgradeText(silent.socket), '');
  assert.equal(upgradeText({ LiveRestoreEnabled: true }), '');
  assert.equal(upgradeText({}), '');
  assert.equal(upgradeText({ LiveRestoreEnabled: false, Swarm: { LocalNodeState: 'active' } }), '');
  assert.notEqual(upgradeText({ LiveRestoreEnabled: false, Swarm: { LocalNodeState: 'inactive' } }), '');
});
