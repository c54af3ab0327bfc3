import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { engineAt } from '../machine/engine.ts';
import { debianImage, hasImage } from './debian.ts';

test('a download that stands still is given up, and the image made another way', async (t) => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-debian-'));
  const socket = join(folder.path, 'docker.sock');
  const engine = createServer((request, response) => {
    if (request.method === 'GET') response.writeHead(404).end('{}');
    else response.write('{"status":"Pulling fs layer"}\n');
  });
  await once(engine.listen(socket), 'listening');
  // Without anything to make it from.
  const path = process.env['PATH'];
  process.env['PATH'] = folder.path;
  t.after(() => {
    process.env['PATH'] = path;
    engine.closeAllConnections();
    engine.close();
  });
  const machine = { aptOptions: [], aptSources: [], proxies: {} };
  const options = { suite: 'trixie', packages: [], machine, report: () => undefined, quietMs: 50 };
  await assert.rejects(debianImage(engineAt(socket), options), (error) => hasCode(error, 'unavailable'));
});

test('an engine that does not say whether it has an image holds nobody, and is told as one that does not answer', async (t) => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-debian-'));
  const socket = join(folder.path, 'docker.sock');
  const engine = createServer(() => undefined);
  await once(engine.listen(socket), 'listening');
  t.after(() => {
    engine.closeAllConnections();
    engine.close();
  });
  await assert.rejects(hasImage(engineAt(socket), 'debian:trixie-slim', 50), {
    code: 'unavailable',
    message: /does not answer .*systemctl restart docker/,
  });
});
