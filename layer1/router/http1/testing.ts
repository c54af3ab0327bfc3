/** A front by itself, without a router around it. */
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import type { TestContext } from 'node:test';
import { Deadlines, tickMs } from './deadlines.ts';
import { Http1Front, shared } from './front.ts';

/** A front whose clock stands until the test moves it, and that answers all requests itself. */
export async function openFront(t: TestContext, { goodbyeMs }: { goodbyeMs: number }) {
  t.mock.timers.enable({ apis: ['setInterval'] });
  let elapsedMs = 0;
  const deadlines = new Deadlines(() => elapsedMs);
  const answer = () => ({ status: 200, code: '', fields: [], body: 'ok' });
  const policy = { admit: () => ({ answer: answer() }), refuse: answer };
  const front = new Http1Front({ policy, shared: { ...shared(), deadlines }, goodbyeMs });
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    front.take(socket, { address: '127.0.0.1', port: socket.remotePort ?? 0, localPort: 0, isTls: false });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  t.after(async () => {
    server.close();
    await front.drain({ deadlineMs: 0 });
  });
  const pass = (ms: number) => {
    for (let left = ms; left > 0; left -= tickMs) {
      elapsedMs += tickMs;
      t.mock.timers.tick(tickMs);
    }
  };
  /** A client that has had an answer, and keeps its connection. */
  const ask = async (socket: Socket) => {
    socket.write('GET / HTTP/1.1\r\nHost: app.test\r\n\r\n');
    const [bytes] = (await once(socket, 'data')) as [Buffer];
    return bytes.toString('latin1');
  };
  const client = async () => {
    const socket = connect(port, '127.0.0.1');
    t.after(() => socket.destroy());
    await ask(socket);
    return socket;
  };
  return { front, port, pass, ask, client };
}
