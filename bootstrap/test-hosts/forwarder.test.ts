import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type Socket, connect, createServer } from 'node:net';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { freePort } from '@flynn/kit/testing-ports';
import { Forwarder } from './forwarder.ts';

/** Answers with its name and what it was sent, once the client has sent everything. */
async function startHost(host: string, name: string, port: number) {
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    void text(socket).then((said) => socket.end(`${name} ${said}`));
  });
  server.listen(port, host);
  await once(server, 'listening');
  return {
    async [Symbol.asyncDispose]() {
      if (!server.listening) return;
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

async function ask(port: number, said: string): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  socket.end(said);
  return text(socket);
}

test('a client reaches the first host that answers, a host that is off is asked last for a while', async () => {
  let now = 0;
  const port = await freePort();
  const first = await startHost('127.0.0.2', 'first', port);
  await using _second = await startHost('127.0.0.3', 'second', port);
  const targets = ['127.0.0.2', '127.0.0.3'].map((host) => ({ host, port }));
  await using forwarder = await Forwarder.listen({ way: { port: 0, targets }, address: '127.0.0.1', now: () => now });
  assert.equal(await ask(forwarder.port, 'a'), 'first a');

  await first[Symbol.asyncDispose]();
  assert.equal(await ask(forwarder.port, 'b'), 'second b');
  await using _again = await startHost('127.0.0.2', 'first', port);
  assert.equal(await ask(forwarder.port, 'c'), 'second c');
  now += 6_000;
  assert.equal(await ask(forwarder.port, 'd'), 'first d');
});

test('where no host answers the client is hung up on, and the next is served again', async () => {
  const port = await freePort();
  const host = await startHost('127.0.0.2', 'host', port);
  const targets = [{ host: '127.0.0.2', port }];
  await using forwarder = await Forwarder.listen({ way: { port: 0, targets }, address: '127.0.0.1', now: () => 0 });
  await host[Symbol.asyncDispose]();
  await assert.rejects(ask(forwarder.port, 'a'), { code: 'ECONNRESET' });
  await using _again = await startHost('127.0.0.2', 'host', port);
  assert.equal(await ask(forwarder.port, 'b'), 'host b');
});
