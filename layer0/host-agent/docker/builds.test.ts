/** A build that fails, by what an engine that is pretended says of it, and when. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempDisposable } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Readable } from 'node:stream';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { connectDocker } from './docker.ts';
import { buildNetwork } from '../engine/labels.ts';

const cluster = 'test';
const network = buildNetwork(cluster, 'b1');
const limits = { memoryBytes: 128 * 1024 ** 2, cpuMillis: 500, pids: 64, diskBytes: 1024 ** 3 };

const eventLines = {
  connect: { Action: 'connect', Actor: { ID: 'n1', Attributes: { name: network, container: 'c1' } } },
  oom: { Action: 'oom', Actor: { ID: 'c1', Attributes: {} } },
};

/** An engine on which a step of the one build is killed for its memory; that it was is said after the end of the build. */
async function startEngine() {
  const folder = await mkdtempDisposable(join(tmpdir(), 'flynn-engine-'));
  const asked: URL[] = [];
  let events: ServerResponse | undefined;
  const say = (name: keyof typeof eventLines) => events?.write(`${JSON.stringify(eventLines[name])}\n`);
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '', 'http://engine');
    asked.push(url);
    request.resume().on('end', () => {
      const json = (code: number, answer: unknown): void => {
        response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
      };
      if (url.pathname.endsWith('/events')) {
        events = response;
        response.writeHead(200, { 'content-type': 'application/json' }).flushHeaders();
      } else if (url.pathname.endsWith('/build')) {
        say('connect');
        // Of a container that is removed nothing is said any more.
        const isKept = url.searchParams.get('forcerm') === 'false';
        response.on('close', () => setTimeout(() => isKept && say('oom'), 50));
        json(200, { errorDetail: { message: `The command '${'x'.repeat(70_000)}' returned a non-zero code: 137` } });
      } else if (url.pathname.endsWith('/networks/create')) json(201, { Id: 'n1' });
      else if (request.method === 'DELETE') response.writeHead(204).end();
      else json(200, []);
    });
  });
  const socketPath = join(folder.path, 'docker.sock');
  await once(server.listen(socketPath), 'listening');
  return {
    asked,
    socketPath,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await folder.remove();
    },
  };
}

test('a step whose end is heard before that memory ran out is told to have needed too much of it', async () => {
  await using fake = await startEngine();
  const beganMs = Date.now();
  const engine = connectDocker({
    socketPath: fake.socketPath,
    cluster,
    fetchBlob: () => Promise.reject(new FlynnError('not_found', 'no blob')),
    scratchDir: tmpdir(),
  });
  const build = { id: 'b1', cache: 'app', dockerfile: 'Dockerfile', args: {}, limits, onText: () => undefined };
  await assert.rejects(
    engine.buildImage({ ...build, context: Readable.from(['x']) }),
    (error) => hasCode(error, 'exhausted') && /more memory than its limit of 128 MB/.test(error.message),
  );
  const since = Number(fake.asked.find(({ pathname }) => pathname.endsWith('/events'))?.searchParams.get('since'));
  assert.ok(since * 1_000 >= beganMs - 1, 'nothing is missed, and nothing of a build before is heard');
});
