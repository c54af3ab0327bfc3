import assert from 'node:assert/strict';
import { mkdir, mkdtempDisposable, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { isUnitOf, otherStateDir, unitText } from './unit.ts';

const places = {
  stateDir: '/var/lib/flynn',
  node: '/opt/flynn/1.0.0/node_modules/.bin/node',
  program: '/var/lib/flynn/agent/current/host-agent.mjs',
};
const lines = unitText({ name: 'flynn' }, places).split('\n');
const sectionOf = (line: string): string | undefined =>
  lines.slice(0, lines.indexOf(line)).findLast((one) => one.startsWith('['));

test('under systemd, stopping the agent leaves jobs running, its watchdog, and the update that stops it', () => {
  assert.equal(sectionOf('KillMode=process'), '[Service]');
  assert.equal(sectionOf('OOMPolicy=continue'), '[Service]');
});

test('a restart is told apart from a stop, which a shutdown is', () => {
  assert.equal(sectionOf('RestartKillSignal=SIGUSR2'), '[Service]');
  assert.ok(!lines.some((line) => line.startsWith('KillSignal=')), 'SIGTERM otherwise');
});

test('an agent that ends is started again, and never given up', () => {
  assert.equal(sectionOf('Restart=always'), '[Service]');
  // In another section systemd passes over it, and gives up after five starts within ten seconds.
  assert.equal(sectionOf('StartLimitIntervalSec=0'), '[Unit]');
});

test('after a boot the network, the engine and the disks with its files are there before it', () => {
  assert.ok(lines.includes('After=network-online.target docker.service'));
  assert.ok(lines.includes('Wants=network-online.target docker.service'));
  assert.ok(lines.includes(`RequiresMountsFor=/var/lib/flynn ${places.node}`));
  assert.ok(lines.includes('EnvironmentFile=/var/lib/flynn/agent.env'));
});

test('the unit of another state directory is told apart, though its cluster has the same name', () => {
  assert.equal(isUnitOf(lines.join('\n'), '/var/lib/flynn'), true);
  assert.equal(isUnitOf(lines.join('\n'), '/var/lib/flynn-test/host-1/state'), false);
  assert.equal(isUnitOf(lines.join('\n'), '/var/lib'), false);
});

test('a state directory is the same by whatever way it is named', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-unit-'));
  const [its, link, other] = ['its', 'link', 'other'].map((name) => join(folder.path, name));
  assert.ok(its !== undefined && link !== undefined && other !== undefined);
  await mkdir(its);
  await symlink(its, link);
  const text = unitText({ name: 'flynn' }, { ...places, stateDir: link });
  assert.equal(otherStateDir(text, link), undefined);
  assert.equal(otherStateDir(text, its), undefined);
  assert.equal(otherStateDir(text, other), link);
  assert.ok(isUnitOf(text, its), 'it goes with that one');
  // Its disk is not mounted.
  const gone = unitText({ name: 'flynn' }, { ...places, stateDir: other });
  assert.equal(otherStateDir(gone, its), other);
  assert.equal(otherStateDir(gone, other), undefined);
  assert.equal(otherStateDir('', its), undefined);
  assert.ok(!isUnitOf('', its));
});
