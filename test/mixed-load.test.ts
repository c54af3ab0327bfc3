import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';
import { systemClock } from '@flynn/kit/clock';
import { waitFor } from '@flynn/kit/retry';
import { type WebSocket, WebSocketServer } from 'ws';
import { MixedLoad } from './mixed-load.ts';

const soon = { deadlineMs: 30_000, intervalMs: 10 };

type App = {
  router: string;
  answers: number;
  connections: number;
  echoes: number;
  talkers: Set<WebSocket>;
  status: number;
};

/** What the sample app does, as far as the load asks for it. */
async function startApp(t: TestContext): Promise<App> {
  // No connection that rests ends while the next request is on its way to it.
  const server = createServer({ keepAliveTimeout: 600_000 }, (incoming, response) => {
    app.answers += 1;
    const ms = Number(new URL(incoming.url ?? '', 'http://app').searchParams.get('ms') ?? 0);
    void systemClock.sleep(ms).then(() => response.writeHead(app.status).end('answer'));
  });
  const sockets = new WebSocketServer({ server, path: '/ws' });
  const app: App = { router: '', answers: 0, connections: 0, echoes: 0, talkers: sockets.clients, status: 200 };
  sockets.on('connection', (socket) => {
    app.connections += 1;
    socket.send('hello');
    socket.on('message', () => {
      app.echoes += 1;
      socket.send('echo');
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  app.router = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  t.after(() => {
    sockets.close();
    for (const socket of sockets.clients) socket.terminate();
    server.closeAllConnections();
    server.close();
  });
  return app;
}

const loadOf = ({ router }: App): MixedLoad =>
  new MixedLoad({ router, host: 'app.test', perSecond: 200, slow: { lanes: 2, ms: 50 }, sockets: 2 });

test('what is answered as it should be is counted, and an app that goes away is asked again', async (t) => {
  const app = await startApp(t);
  await using load = loadOf(app);
  await waitFor(() => app.answers > 50 && app.connections === 2, { what: 'some load', ...soon });
  for (const socket of app.talkers) socket.close(1001);
  const { answers } = app;
  await waitFor(() => app.answers > answers + 50 && app.connections === 4 && app.echoes > 0, {
    what: 'more of it',
    ...soon,
  });
  const report = await load.stop();
  assert.deepEqual(report.failures, []);
  assert.equal(report.reconnects, 2);
  assert.equal(report.requests + report.slow, app.answers);
  assert.ok(report.slow > 0 && report.messages > 0);
});

test('an answer that is none, and a WebSocket that breaks, are failures', async (t) => {
  const app = await startApp(t);
  await using load = loadOf(app);
  await waitFor(() => app.answers > 50 && app.connections === 2, { what: 'some load', ...soon });
  const [one] = app.talkers;
  one?.terminate();
  app.status = 503;
  const { answers } = app;
  await waitFor(() => app.answers > answers + 50 && app.connections === 3, { what: 'more of it', ...soon });
  const { failures } = await load.stop();
  assert.ok(failures.some((failure) => failure.startsWith('WebSocket: closed with 1006')));
  assert.ok(failures.some((failure) => failure.startsWith('/: 503')));
  assert.ok(failures.some((failure) => failure.startsWith('/slow?ms=50: 503')));
});
