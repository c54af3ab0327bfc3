/** A container engine that answers as it is told to, for tests: at a socket of its own, and with nothing behind it. */
import { once } from 'node:events';
import { mkdtempDisposable } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { engineAt } from './engine.ts';

type Answer = { status: number; body?: unknown };

/** Each request is `METHOD path`, without the query. */
export async function engineThat(answer: (request: string) => Answer) {
  const folder = await mkdtempDisposable(join(tmpdir(), 'flynn-engine-'));
  const server = createServer((request, response) => {
    const { status, body } = answer(`${request.method} ${request.url?.replace(/\?.*/, '')}`);
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(body === undefined ? undefined : JSON.stringify(body));
  });
  const socket = join(folder.path, 'docker.sock');
  await once(server.listen(socket), 'listening');
  return {
    socket,
    docker: engineAt(socket),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await folder[Symbol.asyncDispose]();
    },
  };
}
