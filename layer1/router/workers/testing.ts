/** For tests: the router's program as people start it, before a control plane and a backend that are here. */
import { fork, spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { HttpClient } from '@flynn/kit/http-client';
import { FlynnError } from '@flynn/kit/errors';
import { startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { freePort } from '@flynn/kit/testing-ports';
import { z } from 'zod';
import { ControlPlane, track } from '../testing.ts';
import type { Owner } from '../testing.ts';
import { CertificatePlane } from '../tls/testing.ts';

export const soon = { deadlineMs: 60_000, intervalMs: 10 };
const program = new URL('../main.ts', import.meta.url).pathname;
const key = 'the-key-of-this-test';

export type RunningRouter = {
  client: HttpClient;
  /** Process ids. */
  workers(): Promise<number[]>;
  /** Its exit code. */
  stop(): Promise<number | null>;
};

/** Through the router to the backend, which says everything back. */
export class Tunnel {
  readonly #socket: Socket;
  #heard = '';

  static async open(port: number): Promise<Tunnel> {
    const tunnel = new Tunnel(connect(port, '127.0.0.1'));
    tunnel.#socket.write('GET / HTTP/1.1\r\nHost: app.test\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n');
    await tunnel.#until('\r\n\r\n');
    return tunnel;
  }

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', (bytes: Buffer) => (this.#heard += bytes.toString('latin1')));
    socket.on('error', () => socket.destroy());
  }

  /** Resolves when it has come back. */
  async say(text: string): Promise<void> {
    this.#socket.write(text);
    await this.#until(text);
  }

  async end(): Promise<void> {
    this.#socket.end();
    if (!this.#socket.closed) await once(this.#socket, 'close');
  }

  destroy(): void {
    this.#socket.destroy();
  }

  async #until(text: string): Promise<void> {
    await waitFor(() => this.#heard.endsWith(text) || this.#socket.closed, { what: `"${text}"`, ...soon });
    if (!this.#heard.endsWith(text)) throw new FlynnError('unavailable', `the tunnel ended after "${this.#heard}"`);
  }
}

/** One route for app.test, and ports at which routers are started and replaced. */
export class Place {
  readonly plane: ControlPlane;
  readonly port: number;
  readonly #owner: Owner;
  readonly #httpsPort: number;
  readonly #planeUrl: string;

  static async create(owner: Owner): Promise<Place> {
    const plane = new ControlPlane();
    plane.setRoute({ id: 'r1', domain: 'app.test' });
    const handlers = [...plane.handlers, ...new CertificatePlane().handlers];
    const server = await startServer({ name: 'plane', handlers, host: '127.0.0.1', port: 0, log: silentLogger() });
    owner.after(() => server.close());
    plane.up('controller', `127.0.0.1:${server.port}`);
    const backend = createServer((_incoming, response) => response.end('ok'));
    // Whoever asks for a tunnel gets back what they say.
    backend.on('upgrade', (_incoming, socket: Socket) => {
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n');
      socket.pipe(socket);
    });
    plane.up('web', (await track(owner, backend)).address);
    return new Place(owner, { plane, port: await freePort(), httpsPort: await freePort(), planeUrl: server.url });
  }

  private constructor(owner: Owner, parts: { plane: ControlPlane; port: number; httpsPort: number; planeUrl: string }) {
    this.#owner = owner;
    this.plane = parts.plane;
    this.port = parts.port;
    this.#httpsPort = parts.httpsPort;
    this.#planeUrl = parts.planeUrl;
  }

  get #env() {
    return {
      PATH: process.env.PATH,
      FLYNN_KEY: key,
      FLYNN_DISCOVERY_URL: this.#planeUrl,
      FLYNN_HTTP_PORT: String(this.port),
      FLYNN_HTTPS_PORT: String(this.#httpsPort),
    };
  }

  /** A worker whose parent is the test itself. */
  forkWorker(index: number, count: number): ChildProcess {
    const env = { ...this.#env, FLYNN_ROUTER_WORKERS: String(count), FLYNN_ROUTER_WORKER: String(index) };
    return fork(program, { env, stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  }

  /** `workers` as in FLYNN_ROUTER_WORKERS. `stateDir` is shared by routers that follow each other. */
  async start(workers: string, options: { stateDir?: string } = {}): Promise<RunningRouter> {
    const statusPort = await freePort();
    const child = spawn(process.execPath, [program], {
      env: {
        ...this.#env,
        FLYNN_ROUTER_WORKERS: workers,
        PORT: String(statusPort),
        ...(options.stateDir === undefined ? {} : { FLYNN_STATE_DIR: options.stateDir }),
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const end = async (signal: 'SIGTERM' | 'SIGKILL') => {
      child.kill(signal);
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
      return child.exitCode;
    };
    this.#owner.after(async () => void (await end('SIGKILL')));
    let said = '';
    child.stdout.on('data', (bytes: Buffer) => (said += bytes.toString()));
    const client = new HttpClient({ baseUrl: `http://127.0.0.1:${statusPort}`, name: 'the router', key });
    this.#owner.after(() => client.close());
    await waitFor(() => said.includes('the router serves') || child.exitCode !== null, { what: 'the router', ...soon });
    if (child.exitCode !== null) throw new FlynnError('internal', `the router ended: ${said}`);
    return { client, workers: () => childrenOf(child), stop: () => end('SIGTERM') };
  }
}

async function childrenOf({ pid = 0 }: ChildProcess): Promise<number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '');
  return text
    .split(' ')
    .filter((one) => /^\d+$/.test(one))
    .map(Number);
}

const tallySchema = z.object({ answered: z.int(), unheard: z.int(), failed: z.record(z.string(), z.int()) });
const progressSchema = z.object({ asked: z.int(), tally: tallySchema.optional() });

/** What `load.ts` tells. */
export class Load {
  readonly #child: ChildProcess;
  #last: z.output<typeof progressSchema> = { asked: 0 };

  constructor(child: ChildProcess) {
    this.#child = child;
    child.on('message', (message) => (this.#last = progressSchema.parse(message)));
  }

  /** Until it has asked that often again. */
  async more(requests: number): Promise<void> {
    const until = this.#last.asked + requests;
    await waitFor(() => this.#last.asked >= until, { what: 'more requests', ...soon });
  }

  async stop(): Promise<z.output<typeof tallySchema>> {
    this.#child.send('stop');
    return waitFor(() => this.#last.tally, { what: 'the end of the load', ...soon });
  }
}
