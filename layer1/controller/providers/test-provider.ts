/** For tests: a provider that keeps to docs/resources.md, and misbehaves when told to. Over real sockets. */
import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import { freePort } from '@flynn/kit/testing-ports';

export type Seen = Readonly<{
  method: string;
  path: string;
  key: string | undefined;
  authorization: string | undefined;
  config: unknown;
}>;

/** What it does instead; 'lost' makes what is asked for and hangs up before it says so. */
export type Misbehaviour = 'lost' | ((request: IncomingMessage, response: ServerResponse) => void);

export class TestProvider implements AsyncDisposable {
  readonly seen: Seen[] = [];
  /** What there is, by its id: the key it was asked for with. */
  readonly made = new Map<string, string>();
  misbehaves: Misbehaviour | undefined;
  env: Record<string, string> = { DATABASE_URL: 'postgres://u:hunter2@db/x' };
  #server: Server | undefined;
  readonly #port: number;

  private constructor(port: number) {
    this.#port = port;
  }

  static async start(): Promise<TestProvider> {
    const provider = new TestProvider(await freePort());
    await provider.listen();
    return provider;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}/resources`;
  }

  /** Again at the same address, after it was closed. */
  async listen(): Promise<void> {
    const server = createServer((request, response) => {
      this.#answer(request, response).catch(() => response.destroy());
    });
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(this.#port, '127.0.0.1', resolve);
    });
    this.#server = server;
  }

  async close(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (server === undefined) return;
    const closed = new Promise((resolve) => server.close(resolve));
    server.closeAllConnections();
    await closed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url = '', headers } = request;
    const body: unknown = method === 'POST' ? await json(request) : undefined;
    const key = headers['idempotency-key']?.toString();
    const config: unknown = Reflect.get(Object(body), 'config');
    this.seen.push({ method, path: url, key, authorization: headers.authorization, config });
    if (typeof this.misbehaves === 'function') {
      this.misbehaves(request, response);
      return;
    }
    if (method === 'POST') this.#make(key ?? '', response);
    else {
      const id = decodeURIComponent(url.split('/').at(-1) ?? '');
      response.writeHead(this.made.delete(id) ? 204 : 404).end();
    }
  }

  #make(key: string, response: ServerResponse): void {
    const known = [...this.made].find(([, one]) => one === key)?.[0];
    const id = known ?? `db/${this.made.size + 1}`;
    this.made.set(id, key);
    if (this.misbehaves === 'lost') response.destroy();
    else response.writeHead(201, { 'content-type': 'application/json' }).end(JSON.stringify({ id, env: this.env }));
  }
}

export function answers(status: number, text: string, headers: Record<string, string> = {}): Misbehaviour {
  return (_request, response) => void response.writeHead(status, headers).end(text);
}

/** Not of the provider: of a router in front of it. */
export function answeredByRouter(status: number, code: string): Misbehaviour {
  return answers(status, 'nobody is here', { 'x-flynn-error': code });
}

export const hangs: Misbehaviour = () => {};
