import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { type Socket, createServer as createNetServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { closed } from '@flynn/kit/testing-sockets';
import { isEngineUp, stopStartedEngine } from './engine.ts';

/** A folder with the note of an engine that was started once, and an engine that answers at its socket and is in use. */
async function engineInUse() {
  const folder = await mkdtempDisposable(join(tmpdir(), 'flynn-engine-'));
  const socket = join(folder.path, 'docker.sock');
  const server = createServer((request, response) => {
    response.setHeader('content-type', 'application/json');
    response.end(request.url?.includes('/containers/') === true ? JSON.stringify([{ Id: 'c1' }]) : '"OK"');
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
  await using engine = await engineInUse();
  assert.equal(await stopStartedEngine(engine.stateDir), 'not ours', 'nothing is noted');
  await engine.note({ pid: process.pid });
  assert.equal(await stopStartedEngine(engine.stateDir), 'not ours', 'the pid is another program by now');
  await engine.note({ unit: 'docker' });
  assert.equal(await stopStartedEngine(engine.stateDir), 'in use', 'a unit is the same engine, whatever its pid');
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
  await using engine = await engineInUse();
  assert.equal(await isEngineUp(join(engine.stateDir, 'docker.sock')), true);
});
