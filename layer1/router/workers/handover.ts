/** For tests: a router replaced by another one, again and again, while every request comes over a new connection. */
import { fork } from 'node:child_process';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createDiscoveryClient } from '@flynn/discovery/client';
import { HttpClient } from '@flynn/kit/http-client';
import { startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { startRouter } from '../router.ts';
import { ControlPlane } from '../testing.ts';

const [, , times = '1'] = process.argv;
const log = silentLogger();
const soon = { deadlineMs: 60_000, intervalMs: 2 };
const plane = new ControlPlane();
plane.setRoute({ id: 'r1', domain: 'app.test' });
const server = await startServer({ name: 'plane', handlers: plane.handlers, host: '127.0.0.1', port: 0, log });
const backend = createServer((_request, response) => response.end('ok'));
await new Promise<void>((resolve) => backend.listen(0, '127.0.0.1', resolve));
plane.up('web', `127.0.0.1:${(backend.address() as AddressInfo).port}`);
const controller = new HttpClient({ baseUrl: server.url, name: 'the controller' });
const discovery = createDiscoveryClient({ url: server.url });

const start = (httpPort: number) => startRouter({ controller, discovery, host: '127.0.0.1', httpPort, log });

let current = await start(0);
const { httpPort } = current;
const load = fork(new URL('./load.ts', import.meta.url), [String(httpPort), '8']);
let heard: { asked: number; tally?: unknown } = { asked: 0 };
load.on('message', (message: typeof heard) => (heard = message));
const more = async (requests: number) => {
  const until = heard.asked + requests;
  await waitFor(() => heard.asked >= until, { what: 'more requests', ...soon });
};
await more(100);
for (let i = 0; i < Number(times); i += 1) {
  const next = await start(httpPort);
  await more(20);
  await current.stop({ drainMs: 10_000 });
  current = next;
}
await more(100);
load.send('stop');
const tally = await waitFor(() => heard.tally, { what: 'the end of the load', ...soon });
process.stdout.write(`${JSON.stringify(tally)}\n`, () => process.exit(0));
