import assert from 'node:assert/strict';
import { mkdtempDisposable, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { supervisorOf } from './agent/agent.ts';
import { readHostOptions } from './host-options.ts';

test('a host has the engine that it was set up with, also for a command that is not told of it', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-options-'));
  const env = { FLYNN_STATE_DIR: folder.path };
  const socketOf = async (more: Record<string, string> = {}) =>
    (await readHostOptions({ ...env, ...more })).FLYNN_DOCKER_SOCKET;
  assert.equal(await socketOf(), '/var/run/docker.sock', 'it is no host yet');
  assert.equal(await socketOf({ FLYNN_DOCKER_SOCKET: '/srv/docker.sock' }), '/srv/docker.sock');

  const socket = join(folder.path, 'docker.sock');
  await writeFile(socket, '');
  await writeFile(join(folder.path, 'agent.env'), `FLYNN_CLUSTER=flynn\nFLYNN_DOCKER_SOCKET=${socket}\nFLYNN_KEY=k\n`);
  assert.equal(await socketOf(), socket);
  assert.equal(await socketOf({ FLYNN_DOCKER_SOCKET: '' }), socket);
  await assert.rejects(socketOf({ FLYNN_DOCKER_SOCKET: '/var/run/docker.sock' }), {
    code: 'conflict',
    message: new RegExp(
      `is /var/run/docker.sock, but what this host runs is in the engine at ${socket}: unset it, .*agent.env`,
    ),
  });
  // By whatever way it is named.
  await symlink(socket, join(folder.path, 'link.sock'));
  assert.equal(await socketOf({ FLYNN_DOCKER_SOCKET: join(folder.path, 'link.sock') }), socket);
});

test('what restarts the agent stays what it is until somebody says otherwise', () => {
  const of = (given: string | undefined, hasOwn = false, hasSystemd = true) =>
    supervisorOf(given, { hasSystemd, hasOwn: () => hasOwn });
  assert.equal(of(undefined), 'systemd');
  assert.equal(of(undefined, false, false), 'own');
  assert.equal(of('own'), 'own');
  assert.equal(of('systemd', true), 'systemd');
  assert.equal(of(undefined, true), 'own', 'of an `up` of before, which wrote down nothing');
  assert.equal(of('', true), 'systemd', 'it is taken away');
});
