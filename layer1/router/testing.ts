/** For tests: a controller and a discovery server that tell what the test wants, and a router that believes them. */
import { once } from 'node:events';
import { Agent, createServer, request as httpRequest } from 'node:http';
import type { IncomingMessage, RequestListener } from 'node:http';
import { connect } from 'node:net';
import type { AddressInfo, Server, Socket } from 'node:net';
import { routing } from '@flynn/controller/routes/api';
import { type Route, routeSchema } from '@flynn/controller/model';
import { routes as discoveryRoutes } from '@flynn/discovery/api';
import type { Instance } from '@flynn/discovery/api';
import { createDiscoveryClient } from '@flynn/discovery/client';
import { identityAttribute } from '@flynn/discovery/parts';
import { HttpClient } from '@flynn/kit/http-client';
import { handle, startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { AsyncQueue } from '@flynn/kit/queue';
import { waitFor } from '@flynn/kit/retry';
import type { ServerEvent } from '@flynn/kit/routes';
import type { z } from 'zod';
import type { Driver } from './config.ts';
import type { Timeouts } from './exchange.ts';
import { startRouter } from './router.ts';
import type { Router, RouterOptions } from './router.ts';

/** Streams of events whose every reader is told the whole state first, as the real services do. */
export class Feed {
  readonly #readers = new Map<AsyncQueue<ServerEvent>, () => ServerEvent[]>();

  async *follow(state: () => ServerEvent[]): AsyncGenerator<ServerEvent> {
    const queue = new AsyncQueue<ServerEvent>();
    this.#readers.set(queue, state);
    for (const event of state()) queue.push(event);
    queue.push({ event: 'current', data: {} });
    try {
      yield* queue;
    } finally {
      this.#readers.delete(queue);
    }
  }

  tell(event: ServerEvent): void {
    for (const queue of this.#readers.keys()) queue.push(event);
  }

  cut(): void {
    for (const queue of this.#readers.keys()) queue.end();
  }
}

export class ControlPlane {
  readonly #routes = new Map<string, Route>();
  readonly #unreadable = new Set<string>();
  readonly #services = new Map<string, Set<string>>();
  readonly #releases = new Map<string, string>();
  readonly #leaders = new Map<string, string>();
  /** By their address: the app as which those of the platform have a certificate. */
  readonly identities = new Map<string, string>();
  readonly #routeFeed = new Feed();
  readonly #serviceFeeds = new Map<string, Feed>();

  readonly handlers = [
    handle(routing.events, async () =>
      this.#routeFeed.follow(() => [
        ...[...this.#routes.values()].map((route) => ({ event: 'set', data: route })),
        ...[...this.#unreadable].map((id) => ({ event: 'unreadable', data: { id } })),
      ]),
    ),
    handle(discoveryRoutes.events, async ({ params }) =>
      this.#feedOf(params.service).follow(() => [
        ...[...(this.#services.get(params.service) ?? [])].map((address) => this.#event('up', params.service, address)),
        ...(this.#leaders.has(params.service) ? [this.#leaderEvent(params.service)] : []),
      ]),
    ),
    handle(discoveryRoutes.instances, async ({ params }) =>
      [...(this.#services.get(params.service) ?? [])].map((address) => this.#instanceOf(params.service, address)),
    ),
  ];

  #feedOf(service: string): Feed {
    const feed = this.#serviceFeeds.get(service) ?? new Feed();
    this.#serviceFeeds.set(service, feed);
    return feed;
  }

  setRoute(route: Partial<z.input<typeof routeSchema>> & { id: string }): void {
    const whole = routeSchema.parse({ appId: 'a', type: 'http', service: 'web', createdAt: '', ...route });
    this.#routes.set(whole.id, whole);
    this.#routeFeed.tell({ event: 'set', data: whole });
  }

  removeRoute(id: string): void {
    this.#routes.delete(id);
    this.#routeFeed.tell({ event: 'remove', data: { id } });
  }

  /** As if another version had come in the controller's place. */
  cannotReadAnyMore(id: string): void {
    this.#routes.delete(id);
    this.#unreadable.add(id);
    this.#routeFeed.cut();
  }

  /** As if the controller had gone and come back, having missed nothing but the connection. */
  forgetRouteQuietly(id: string): void {
    this.#routes.delete(id);
    this.#routeFeed.cut();
  }

  up(service: string, address: string, release?: string): void {
    if (release !== undefined) this.#releases.set(address, release);
    this.#services.set(service, (this.#services.get(service) ?? new Set()).add(address));
    this.#feedOf(service).tell(this.#event('up', service, address));
  }

  lead(service: string, address: string): void {
    this.#leaders.set(service, address);
    this.#feedOf(service).tell(this.#leaderEvent(service));
  }

  down(service: string, address: string): void {
    this.#services.get(service)?.delete(address);
    this.#feedOf(service).tell(this.#event('down', service, address));
  }

  #event(event: 'up' | 'down', service: string, address: string): ServerEvent {
    return { event, data: this.#instanceOf(service, address) };
  }

  #leaderEvent(service: string): ServerEvent {
    const leader = this.#leaders.get(service) ?? '';
    return { event: 'leader', data: { service, instance: this.#instanceOf(service, leader) } };
  }

  #instanceOf(service: string, address: string): Instance {
    const release = this.#releases.get(address);
    const identity = this.identities.get(address);
    const attributes = {
      ...(release === undefined ? {} : { 'flynn.release': release }),
      ...(identity === undefined ? {} : { [identityAttribute]: identity }),
    };
    return { id: address.replaceAll(':', '-'), service, address, attributes, createdRevision: 1 };
  }
}

export type World = { plane: ControlPlane; router: Router; url: string; port: number };

/** Whoever ends what was started for it: a test, or a program. */
export type Owner = { after(end: () => Promise<void>): void };

/** A limit that is reached soon, but not by one standstill of the process, of which half a second counts (http1/deadlines.ts). */
export const standstillMs = 600;

/** One HTTP route for app.test to the service `web`; more is up to the test. */
export async function setUp(
  t: Owner,
  timeouts: Partial<Timeouts> = {},
  driver?: Driver,
  more: Partial<
    Pick<
      RouterOptions,
      'trustedProxies' | 'proxyProtocol' | 'unanswered' | 'identity' | 'tcpWait' | 'tls' | 'routesDeadlineMs'
    >
  > = {},
): Promise<World> {
  const plane = new ControlPlane();
  plane.setRoute({ id: 'r1', domain: 'app.test' });
  const log = silentLogger();
  const server = await startServer({ name: 'plane', handlers: plane.handlers, host: '127.0.0.1', port: 0, log });
  const controller = new HttpClient({ baseUrl: server.url, name: 'the controller' });
  const discovery = createDiscoveryClient({ url: server.url });
  const router = await startRouter({
    controller,
    discovery,
    host: '127.0.0.1',
    httpPort: 0,
    driver,
    clusterKey: 'key',
    // Longer than any machine takes: what is tested of them says so itself.
    timeouts: { dialMs: 120_000, firstByteMs: 120_000, idleMs: 120_000, ...timeouts },
    tcpWait: { ms: 100, most: 1_000 },
    ...more,
    log,
  });
  t.after(async () => {
    await router.stop({ drainMs: 0 });
    await controller.close();
    await discovery.close();
    await server.close();
  });
  return { plane, router, url: `http://127.0.0.1:${router.httpPort}`, port: router.httpPort };
}

export type Backend = { address: string; port: number; sockets: Set<Socket>; requests: number; close(): Promise<void> };

/** Tracks its sockets, so that tests can tell what is left open. */
export async function track(
  t: Owner,
  server: Server,
  counter: { requests: number } = { requests: 0 },
): Promise<Backend> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    socket.on('error', () => socket.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const close = async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  };
  t.after(close);
  return {
    address: `127.0.0.1:${port}`,
    port,
    sockets,
    get requests() {
      return counter.requests;
    },
    close,
  };
}

export async function startBackend(t: Owner, listener: RequestListener): Promise<Backend> {
  const counter = { requests: 0 };
  const server = createServer((request, response) => {
    counter.requests += 1;
    listener(request, response);
  });
  return track(t, server, counter);
}

/** It says for so long that it is at work (102), and then its answer: `done`. */
export function startWorkingBackend(t: Owner, forMs: number): Promise<Backend> {
  return startBackend(t, (request, response) => {
    request.resume();
    const at = performance.now();
    const telling = setInterval(() => {
      response.writeProcessing();
      if (performance.now() - at < forMs) return;
      clearInterval(telling);
      response.end('done');
    }, 50);
    response.on('close', () => clearInterval(telling));
  });
}

/** Until the router knows exactly these backends. */
export async function settled(router: Router, addresses: string[]): Promise<void> {
  const wanted = addresses.toSorted().join();
  const known = () =>
    router
      .status()
      .backends.filter((backend) => !backend.isLeaving)
      .map((backend) => backend.address)
      .toSorted()
      .join();
  await waitFor(() => known() === wanted, { what: `backends ${wanted}`, deadlineMs: 30_000, intervalMs: 5 });
}

/** Says exactly these bytes and gives back everything that is answered until the router closes. Rejects when it is reset. */
export async function sayRaw(port: number, ...parts: string[]): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  socket.on('error', () => socket.destroy());
  for (const part of parts) socket.write(part);
  await once(socket, 'close');
  return Buffer.concat(chunks).toString('latin1');
}

type AskOptions = { method?: string; path?: string; headers?: Record<string, string>; agent?: Agent; body?: Buffer };

/** One request to app.test over a connection of its own, unless an agent is given. */
export async function ask(port: number, options: AskOptions = {}): Promise<IncomingMessage> {
  const { method, path, agent, body } = options;
  const headers = { host: 'app.test', ...options.headers };
  const request = httpRequest({ host: '127.0.0.1', port, method, path, headers, agent: agent ?? new Agent() });
  request.end(body);
  const [response] = await once(request, 'response');
  return response;
}
