/** A server on a free loopback port with a client of it, for tests of whatever speaks routes. */
import { HttpClient } from './http-client.ts';
import { type Handler, type RunningServer, startServer } from './http-server.ts';
import { silentLogger } from './log.ts';
import { freePort } from './testing-ports.ts';

export type Loopback = AsyncDisposable & { server: RunningServer; client: HttpClient };

/** `key` is what the server asks for, `clientKey` what the client sends. */
export async function startLoopback(
  handlers: readonly Handler[],
  options: { key?: string | string[]; clientKey?: string } = {},
): Promise<Loopback> {
  const server = await startServer({
    handlers,
    log: silentLogger(),
    host: '127.0.0.1',
    // Once it is closed nobody answers there.
    port: await freePort(),
    name: 'tester',
    ...(options.key === undefined ? {} : { key: options.key }),
  });
  const client = new HttpClient({
    baseUrl: server.url,
    name: 'the tester',
    ...(options.clientKey === undefined ? {} : { key: options.clientKey }),
  });
  return {
    server,
    client,
    async [Symbol.asyncDispose]() {
      await client.close();
      await server.close();
    },
  };
}
