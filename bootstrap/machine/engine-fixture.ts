/** A container engine that answers as it is told to, for tests: at a socket of its own, and with nothing behind it. */
import { once } from 'node:events';
import { mkdtempDisposable } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { engineAt } from './engine.ts';

/** What is `never` answered hangs until the engine goes. */
type Answer = { status: number; body?: unknown } | 'never';
const filtersSchema = z.object({ label: z.array(z.string()).optional() });
type Filters = z.output<typeof filtersSchema>;

/** Each request is `METHOD path`, without the query, and what it filters by. */
export async function engineThat(answer: (request: string, filters: Filters) => Answer) {
  const folder = await mkdtempDisposable(join(tmpdir(), 'flynn-engine-'));
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://engine');
    const filters = filtersSchema.parse(JSON.parse(searchParams.get('filters') ?? '{}'));
    const answered = answer(`${request.method} ${pathname}`, filters);
    if (answered === 'never') return;
    const { status, body } = answered;
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
