/** Serves routes over HTTP. */
import { type IncomingMessage, type Server, ServerResponse, createServer } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { Server as NetServer, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { FlynnError } from './errors.ts';
import { rememberUpgrade } from './http-answer.ts';
import { type Answer, type AppOptions, createApp } from './http-app.ts';
import type { LiveIdentity } from './identity.ts';
import { listenOn } from './listening.ts';
import { openMutualDoor } from './mutual-door.ts';

export { type Handler, handle } from './http-handler.ts';

const drainMs = 5000;

type Shown = Readonly<{ certificate: string; privateKey: string }>;

/** Where a server listens, and for whom. `name` is for logs. */
export type ListenerOptions = Pick<AppOptions, 'name' | 'log'> & {
  /** Default: every IPv4 address of the machine. */
  host?: string;
  /** 0 takes a free one. */
  port: number;
  /** Closes the server when it aborts. */
  signal?: AbortSignal;
  /** Serves HTTPS: PEM, the certificate with those above it. What is renewed is shown from the next connection on. */
  tls?: Shown | Readonly<{ current: Shown; onChange: LiveIdentity['onChange'] }>;
  /** Instead: HTTPS for those who show a certificate of the cluster, beside plain HTTP. Its gate tells them apart by `peer`. */
  mutual?: LiveIdentity | undefined;
  /** Who takes longer to send a request's head, default 20 s, is cut off. */
  headTimeoutMs?: number;
  /** Lets several processes share the port. */
  reusePort?: boolean;
  /** Connections beyond these are cut off at once: those of one address, and of all that are not exempt. */
  maxConnections?: Readonly<{ ofOne: number; ofAll: number; isExempt: (address: string) => boolean }>;
};

/**
 * `name` is for logs and GET /ping ('controller'). Without a key every route is open; several keys are valid side by side,
 * for changing them.
 */
export type ServerOptions = AppOptions & ListenerOptions;

/**
 * What becomes of what is asked, once per request. Neither may throw. Upgrades to other protocols are answered as requests. Of an
 * upgrade there is a response for refusing it as any request, which has to be detached from the socket before that is used.
 */
export type Serving = Readonly<{
  answer: Answer;
  /** In lower case. */
  protocol: string;
  upgrade: (
    request: IncomingMessage,
    response: ServerResponse,
    taken: Readonly<{ socket: Duplex; head: Buffer }>,
  ) => void;
}>;

export type RunningServer = AsyncDisposable & {
  readonly port: number;
  readonly url: string;
  /** Stops accepting, ends event streams, gives running requests 5 s, then cuts what is left. Safe to call again. */
  close(): Promise<void>;
};

export async function startServer(options: ServerOptions): Promise<RunningServer> {
  return startListener(options, (closing) => {
    const answer = createApp(options, closing);
    return {
      answer,
      protocol: 'flynn',
      upgrade(request, response, { socket, head }) {
        rememberUpgrade(request, socket, head);
        void answer(request, response);
      },
    };
  });
}

/** For servers that answer by other means than routes. `closing` aborts when it begins to close: what lasts should end then. */
export async function startListener(
  options: ListenerOptions,
  serving: (closing: AbortSignal) => Serving,
): Promise<RunningServer> {
  const { log, host = '0.0.0.0', signal, headTimeoutMs = 20_000 } = options;
  const closing = new AbortController();
  const { answer, protocol, upgrade } = serving(closing.signal);
  const limits = {
    // Uploads and event streams last as long as they need. A head does not, nor a JSON body: see http-request.
    requestTimeout: 0,
    headersTimeout: headTimeoutMs,
    connectionsCheckingInterval: Math.min(5_000, headTimeoutMs),
    keepAliveTimeout: 30_000,
    shouldUpgradeCallback: (request: IncomingMessage) => request.headers.upgrade?.toLowerCase() === protocol,
  };
  const { tls } = options;
  const { acceptor, servers, leave } =
    options.mutual === undefined
      ? tls === undefined
        ? oneDoor(createServer(limits))
        : openTlsDoor(tls, limits)
      : openMutualDoor(options.mutual, limits, log);
  const sockets = new Set<Socket>();
  const mayEnter = entry(options.maxConnections);
  acceptor.on('connection', (socket: Socket) => {
    if (!mayEnter(socket)) {
      socket.destroy();
      return;
    }
    // Keep-alive probes find out that a peer's host is gone.
    sockets.add(socket.setNoDelay(true).setKeepAlive(true, 30_000));
    socket.once('close', () => sockets.delete(socket));
  });
  for (const server of servers) {
    server.on('request', (request, response) => void answer(request, response));
    server.on('upgrade', (request, socket, head) => {
      socket.on('error', (error) => log.debug({ err: error }, 'an upgraded connection broke'));
      const response = responseOn(request);
      if (response === undefined) socket.destroy();
      else upgrade(request, response, { socket, head });
    });
  }
  const at = { host, port: options.port, reusePort: options.reusePort ?? false };
  const port = await listenOn(acceptor, { name: options.name, at, log });

  let closed: Promise<void> | undefined;
  const close = () => {
    closing.abort(new FlynnError('cancelled', `the ${options.name} is shutting down`));
    closed ??= drain({ acceptor, servers }, sockets).finally(() => {
      leave();
      signal?.removeEventListener('abort', onAbort);
    });
    return closed;
  };
  const onAbort = () => void close();
  if (signal?.aborted === true) onAbort();
  else signal?.addEventListener('abort', onAbort, { once: true });

  return {
    port,
    url: `${tls === undefined && options.mutual === undefined ? 'http' : 'https'}://${urlHostOf(host)}:${port}`,
    close,
    [Symbol.asyncDispose]: close,
  };
}

function entry(limits: ListenerOptions['maxConnections']): (socket: Socket) => boolean {
  if (limits === undefined) return () => true;
  const open = new Map<Socket, string>();
  return (socket) => {
    const address = socket.remoteAddress ?? '';
    if (limits.isExempt(address)) return true;
    const ofOne = [...open.values()].filter((one) => one === address).length;
    if (ofOne >= limits.ofOne || open.size >= limits.ofAll) return false;
    open.set(socket, address);
    socket.once('close', () => open.delete(socket));
    return true;
  };
}

/** Who accepts connections, and who speaks HTTP on them. */
export type Doors = Readonly<{ acceptor: NetServer; servers: readonly Server[]; leave: () => void }>;

function oneDoor(server: Server, leave: () => void = () => undefined): Doors {
  return { acceptor: server, servers: [server], leave };
}

function openTlsDoor(tls: NonNullable<ServerOptions['tls']>, limits: Parameters<typeof createServer>[0]): Doors {
  const options = () => {
    const { certificate, privateKey } = 'current' in tls ? tls.current : tls;
    return { cert: certificate, key: privateKey, minVersion: 'TLSv1.3' as const };
  };
  const server = createTlsServer({ ...limits, ...options() });
  return oneDoor(server, 'current' in tls ? tls.onChange(() => server.setSecureContext(options())) : undefined);
}

function urlHostOf(host: string): string {
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1';
  return host.includes(':') ? `[${host}]` : host;
}

/**
 * Node makes no response for an upgrade request; with this one, refusals are ordinary answers. Undefined where an answer to what
 * was asked ahead of it is still under way, be it Node's own: a client that does not wait for that cannot have both.
 */
function responseOn(request: IncomingMessage): ServerResponse | undefined {
  const response = new ServerResponse(request);
  response.shouldKeepAlive = false;
  try {
    response.assignSocket(request.socket);
  } catch {
    return undefined;
  }
  response.once('finish', () => request.socket.destroySoon());
  return response;
}

async function drain(
  { acceptor, servers }: Pick<Doors, 'acceptor' | 'servers'>,
  sockets: ReadonlySet<Socket>,
): Promise<void> {
  const ended = Promise.withResolvers<void>();
  acceptor.close(() => ended.resolve());
  // A connection whose last answer has just gone out is idle and would otherwise be kept for the next request.
  const sweep = setInterval(() => {
    for (const server of servers) server.closeIdleConnections();
  }, 20);
  const cut = setTimeout(() => {
    for (const socket of sockets) socket.destroy();
  }, drainMs);
  await ended.promise;
  clearTimeout(cut);
  clearInterval(sweep);
}
