import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, mkdtempDisposable, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { type Socket, createServer as createNetServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { closed } from '@flynn/kit/testing-sockets';
import { askEngine, daemonOf, isEngineUp, startEngineUnit, stopStartedEngine } from './engine.ts';

/** A folder with the note of an engine that was started once, and an engine that answers at its socket and has these containers. */
async function engineWith(containers: readonly object[]) {
  const folder = await mkdtempDisposable(join(tmpdir(), 'flynn-engine-'));
  const socket = join(folder.path, 'docker.sock');
  const server = createServer((request, response) => {
    response.setHeader('content-type', 'application/json');
    response.end(request.url?.includes('/containers/') === true ? JSON.stringify(containers) : '"OK"');
  });
  await once(server.listen(socket), 'listening');
  return {
    stateDir: folder.path,
    note: (started: object) => writeFile(join(folder.path, 'engine.json'), JSON.stringify({ socket, ...started })),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await folder[Symbol.asyncDispose]();
    },
  };
}

test('an engine that was started for the cluster long ago is not taken for the one that answers now', async () => {
  await using engine = await engineWith([{ Id: 'c1' }]);
  assert.equal(await stopStartedEngine(engine.stateDir), 'not ours', 'nothing is noted');
  await engine.note({ pid: process.pid });
  assert.equal(await stopStartedEngine(engine.stateDir), 'not ours', 'the pid is another program by now');
  await engine.note({ unit: 'docker' });
  assert.equal(await stopStartedEngine(engine.stateDir), 'in use', 'a unit is the same engine, whatever its pid');
});

test('a daemon that runs and is slow to answer gets no other beside it, whatever its pid file said before', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-engine-'));
  const [program, pidFile] = [join(folder.path, 'dockerd'), join(folder.path, 'docker.pid')];
  assert.equal(await daemonOf(pidFile), undefined);
  await writeFile(pidFile, `${process.pid}`);
  assert.equal(await daemonOf(pidFile), undefined, 'the pid is another program by now');
  await copyFile('/bin/sleep', program);
  const daemon = spawn(program, ['60']);
  try {
    await once(daemon, 'spawn');
    await writeFile(pidFile, `${daemon.pid}\n`);
    assert.equal(await daemonOf(pidFile), daemon.pid);
  } finally {
    daemon.kill('SIGKILL');
  }
  await once(daemon, 'close');
  assert.equal(await daemonOf(pidFile), undefined);
});

test('an engine that was started for the cluster and hangs is killed, once it has had its time to end', async () => {
  await using engine = await engineWith([]);
  const program = join(engine.stateDir, 'dockerd');
  await copyFile('/bin/sh', program);
  for (const [onTerm, patienceMs, expected] of [
    ['exit 0', 60_000, 'stopped'],
    ['', 300, 'killed'],
  ] as const) {
    const daemon = spawn(program, ['-c', `trap '${onTerm}' TERM; echo ready; read line`], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const ended = once(daemon, 'exit');
    try {
      await once(daemon.stdout, 'data');
      await engine.note({ pid: daemon.pid });
      assert.equal(await stopStartedEngine(engine.stateDir, patienceMs), expected);
    } finally {
      daemon.kill('SIGKILL');
    }
    assert.deepEqual(await ended, expected === 'killed' ? [null, 'SIGKILL'] : [0, null]);
  }
});

test('an engine that answers is up, one that is not there is not, and one that stands still is not and holds nobody', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-engine-'));
  const socket = join(folder.path, 'docker.sock');
  assert.equal(await isEngineUp(socket), false);
  const frozen = createNetServer().listen(socket);
  await once(frozen, 'listening');
  const accepted = once(frozen, 'connection') as Promise<[Socket]>;
  const isUp = isEngineUp(socket, 50);
  const [connection] = await accepted;
  const hungUp = closed(connection.resume());
  assert.equal(await isUp, false);
  await hungUp;
  frozen.close();
  await once(frozen, 'close');
  await using engine = await engineWith([{ Id: 'c1' }]);
  assert.equal(await isEngineUp(join(engine.stateDir, 'docker.sock')), true);
});

test('an engine that says it is there and nothing else is told as that, and holds nobody', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-engine-'));
  const socket = join(folder.path, 'docker.sock');
  const left = Promise.withResolvers<void>();
  const server = createServer((request, response) => {
    if (request.url === '/_ping') response.end('OK');
    else request.socket.once('close', () => left.resolve());
  });
  await once(server.listen(socket), 'listening');
  assert.equal(await isEngineUp(socket), true);
  await assert.rejects(
    askEngine(socket, (docker) => docker.info(), 50),
    { code: 'unavailable', message: /is there, and does not answer .*systemctl restart docker/ },
  );
  await left.promise;
  server.closeAllConnections();
  server.close();
  await once(server, 'close');
});

/** In place of systemctl: units that start at boot are the words of a file. */
const systemctl = `#!/bin/sh
cd "\${0%/*}"
did=$1
for unit in "$@"; do
  case $unit in docker*) ;; *) continue ;; esac
  case $did in
    is-active) cat active 2>/dev/null; exit ;;
    is-enabled) exec grep -qx "$unit" enabled ;;
    enable) grep -qx "$unit" enabled || echo "$unit" >>enabled ;;
    disable) grep -vx "$unit" enabled >left; mv left enabled ;;
  esac
done
echo "$*" >>did
`;

test('an engine that was enabled and did not run is stopped again, and starts at the next boot as before', async (t) => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-engine-'));
  const at = (name: string): string => join(folder.path, name);
  const socket = at('docker.sock');
  const path = process.env['PATH'] ?? '';
  process.env['PATH'] = `${folder.path}:${path}`;
  t.after(() => (process.env['PATH'] = path));
  await writeFile(at('systemctl'), systemctl, { mode: 0o755 });
  for (const before of ['', 'docker.socket\n', 'docker\ndocker.socket\n']) {
    await writeFile(at('enabled'), before);
    await startEngineUnit(folder.path, socket);
    // After a power cut, say.
    await startEngineUnit(folder.path, socket);
    assert.equal(await stopStartedEngine(folder.path), 'stopped');
    assert.equal(await readFile(at('enabled'), 'utf8'), before);
    await rm(at('engine.json'));
  }
  // One that runs, and is slow to answer, is somebody's, and so may be what is in it.
  const did = await readFile(at('did'), 'utf8');
  await writeFile(at('active'), 'activating\n');
  await startEngineUnit(folder.path, socket);
  assert.equal(await stopStartedEngine(folder.path), 'not ours');
  await writeFile(at('engine.json'), JSON.stringify({ unit: 'docker', socket }));
  assert.equal(await stopStartedEngine(folder.path), 'silent');
  assert.equal(await readFile(at('did'), 'utf8'), did);
  assert.match(
    await readFile(at('did'), 'utf8'),
    /^enable --now docker\nenable --now docker\nstop docker docker\.socket\n/,
  );
});
