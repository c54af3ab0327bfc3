/** A dashboard in front of a controller, and a browser's side of it. For tests. */
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import http, { type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import { HttpClient } from '@flynn/kit/http-client';
import { silentLogger } from '@flynn/kit/log';
import type { Logger } from '@flynn/kit/log';
import { Metrics } from '@flynn/kit/metrics';
import { Pages } from './pages.ts';
import { startDashboard } from './server.ts';

export const host = 'dashboard.example.com';
/** As the router says it of a browser over TLS. */
export const byRouter = { host, 'x-forwarded-for': '192.0.2.7', 'x-forwarded-proto': 'https' };
export const ownPage = { origin: `https://${host}`, 'sec-fetch-site': 'same-origin' };
export const script = 'console.log("pages");'.repeat(200);

export type Answer = Readonly<{ status: number; headers: IncomingMessage['headers']; body: string }>;

export type TestDashboard = AsyncDisposable & {
  readonly port: number;
  readonly url: string;
  readonly metrics: Metrics;
  /** What the router would have sent of a browser at one of our pages; `headers` come on top, undefined takes one away. */
  ask(method: string, path: string, options?: AskOptions): Promise<Answer>;
  open(method: string, path: string, options?: AskOptions): Promise<IncomingMessage>;
  /** Logs in; answers the cookie as a browser sends it back. */
  logIn(token: string): Promise<string>;
  close(): Promise<void>;
};

export type AskOptions = Readonly<{
  headers?: Readonly<Record<string, string | undefined>>;
  body?: string;
  signal?: AbortSignal;
}>;

export async function startTestDashboard(
  controllerUrl: string,
  { log = silentLogger(), now }: { log?: Logger; now?: () => number } = {},
): Promise<TestDashboard> {
  const folder = await mkdtemp(join(tmpdir(), 'flynn-dashboard-'));
  await mkdir(join(folder, 'assets'));
  await writeFile(join(folder, 'index.html'), '<!doctype html><title>flynn</title>');
  await writeFile(join(folder, 'assets/main-ABC.js'), script);
  await writeFile(join(folder, 'assets/main-ABC.js.gz'), gzipSync(script));
  const controller = new HttpClient({ baseUrl: controllerUrl, name: 'the controller' });
  const metrics = new Metrics();
  const server = await startDashboard({
    controller,
    pages: await Pages.open(folder),
    identity: undefined,
    // As in a cluster whose router does not show its certificate yet.
    surroundings: { isEverybodyKnown: false },
    metrics,
    log,
    port: 0,
    host: '127.0.0.1',
    ...(now === undefined ? {} : { now }),
  });
  const open: TestDashboard['open'] = async (method, path, { headers = {}, body, signal } = {}) => {
    const all = Object.entries({ ...byRouter, ...ownPage, ...headers }).filter(([, value]) => value !== undefined);
    const options = { port: server.port, host: '127.0.0.1', method, path, agent: false as const };
    const request = http.request({ ...options, headers: Object.fromEntries(all), ...(signal ? { signal } : {}) });
    request.end(body);
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    return response;
  };
  const ask: TestDashboard['ask'] = async (method, path, options) => {
    const response = await open(method, path, options);
    return { status: response.statusCode ?? 0, headers: response.headers, body: await text(response) };
  };
  return {
    port: server.port,
    url: `http://127.0.0.1:${server.port}`,
    metrics,
    open,
    ask,
    async logIn(token) {
      const answer = await ask('POST', '/session', {
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ token }),
      });
      const [cookie = ''] = answer.headers['set-cookie'] ?? [];
      if (answer.status !== 200) throw new Error(`the login was answered with ${answer.status}: ${answer.body}`);
      return cookie.split(';', 1)[0] ?? '';
    },
    close: () => server.close(),
    async [Symbol.asyncDispose]() {
      await server.close();
      await controller.close();
      await rm(folder, { recursive: true });
    },
  };
}
