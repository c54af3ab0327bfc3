/** For tests of drains: receivers, and drains on a history of their own. */
import assert from 'node:assert/strict';
import { createServer as createTcpServer } from 'node:net';
import type { AddressInfo, Server, Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import type { TestContext } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { freePort } from '@flynn/kit/testing-ports';
import type { Drain, DrainStatus } from './api.ts';
import { Drains } from './drains.ts';
import type { DrainPlaces } from './drains.ts';
import type { History } from './history.ts';
import type { TestHistory } from './testing.ts';

export const deadlineMs = 60_000;
export const range = (from: number, to: number): string[] =>
  Array.from({ length: to - from }, (_, index) => `m${from + index}`);

export async function listen(server: Server, port = 0): Promise<number> {
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

/** A syslog server; takes octet-counted messages apart. */
export async function startSyslog(
  t: TestContext,
  options: { port?: number; tls?: { key: string; cert: string } } = {},
) {
  const texts: string[] = [];
  const sockets = new Set<Socket>();
  const serve = (socket: Socket) => {
    sockets.add(socket);
    let rest = Buffer.alloc(0);
    socket.on('error', () => {});
    socket.on('data', (chunk: Buffer) => {
      rest = Buffer.concat([rest, chunk]);
      for (;;) {
        const [, count] = /^(\d+) /.exec(rest.toString('latin1', 0, 20)) ?? [];
        const head = (count ?? '').length + 1;
        if (count === undefined || rest.length < head + Number(count)) return;
        texts.push(rest.toString('utf8', head, head + Number(count)));
        rest = rest.subarray(head + Number(count));
      }
    });
  };
  const server = options.tls === undefined ? createTcpServer(serve) : createTlsServer(options.tls, serve);
  // Some come back where they were: nobody is to have taken that port meanwhile.
  const port = await listen(server, options.port ?? (await freePort()));
  const close = async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  };
  t.after(close);
  const messages = () => texts.map((text) => text.replace(/^(?:\S+ ){7}/, ''));
  /** What is certain for a drain may be on its way here. */
  const has = (count: number) => waitFor(() => texts.length >= count, { what: `${count} messages`, deadlineMs });
  return { texts, messages, has, port, close };
}

export async function startDrains(
  t: TestContext,
  env: TestHistory,
  { history = env.history, bornMs = 0, ...limits }: { history?: History; bornMs?: number; places?: DrainPlaces } = {},
) {
  const appName = (app: string) => `name-of-${app}`;
  const drains = new Drains({ dir: env.dir, history, bornMs, ...limits, appName, log: silentLogger() });
  t.after(() => drains.close());
  const statusOf = (id: string): DrainStatus => {
    const status = drains.status.find((each) => each.id === id);
    assert.ok(status);
    return status;
  };
  return { drains, statusOf };
}

export const drain = (changes: Partial<Drain>): Drain => ({ id: 'd1', url: '', ...changes });
