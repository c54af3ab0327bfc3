/** The door over HTTP, as drivers of etcd speak it. */
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http';
import type { Socket } from 'node:net';
import { pipeline } from 'node:stream/promises';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { listenOn } from '@flynn/kit/listening';
import type { Logger } from '@flynn/kit/log';
import type { Door } from './door.ts';
import { Refusal, asRefusal, wireOf } from './refusal.ts';

const maxBodyBytes = 1024 ** 2;
/** A job has a connection for each of its watches, and a few. */
const maxConnections = 64;

const limits = {
  headersTimeout: 10_000,
  requestTimeout: 10_000,
  connectionsCheckingInterval: 5_000,
  // Longer than clients pause, so that it is them who close what they do not use.
  keepAliveTimeout: 60_000,
} as const;

export type ServerOptions = Readonly<{
  door: Pick<Door, 'answer'>;
  host: string;
  port: number;
  log: Logger;
}>;

export type DoorServer = AsyncDisposable & Readonly<{ port: number }>;

/** Resolves when it listens. Errors are those of listening. Closed, it cuts what is open: whoever asks retries. */
export async function serveDoor({ door, host, port, log }: ServerOptions): Promise<DoorServer> {
  const closing = new AbortController();
  const server = createServer(limits, (request, response) => void serve(request, response, { door, log, closing }));
  const open = new Map<string, number>();
  server.on('connection', (socket: Socket) => {
    const address = socket.remoteAddress ?? '';
    const count = (open.get(address) ?? 0) + 1;
    open.set(address, count);
    socket.once('close', () => {
      const left = (open.get(address) ?? 1) - 1;
      if (left > 0) open.set(address, left);
      else open.delete(address);
    });
    // A job that lost its power, or its network, says no goodbye.
    if (count <= maxConnections) socket.setNoDelay(true).setKeepAlive(true, 30_000);
    else socket.destroy();
  });
  const taken = await listenOn(server, { name: 'door to keyspaces', at: { host, port }, log });
  return {
    port: taken,
    async [Symbol.asyncDispose]() {
      closing.abort(new FlynnError('cancelled', 'the agent is shutting down'));
      const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}

type Serving = Readonly<{ door: Pick<Door, 'answer'>; log: Logger; closing: AbortController }>;

/** Never rejects. */
async function serve(request: IncomingMessage, response: ServerResponse, serving: Serving): Promise<void> {
  const { door, log, closing } = serving;
  const gone = new AbortController();
  response.once('close', () => gone.abort(new FlynnError('cancelled', 'the client has gone')));
  try {
    using answer = await door.answer({
      method: request.method ?? '',
      path: (request.url ?? '').replace(/\?.*$/s, ''),
      address: request.socket.remoteAddress ?? '',
      url: `http://${request.socket.localAddress}:${request.socket.localPort}`,
      authorization: request.headers.authorization,
      readBody: () => readBody(request),
      signal: AbortSignal.any([gone.signal, closing.signal]),
    });
    response.writeHead(answer.status, { 'content-type': 'application/json' });
    if (typeof answer.body === 'string') response.end(answer.body);
    else await pipeline(answer.body, response);
  } catch (error) {
    if (response.headersSent || gone.signal.aborted) {
      log.debug({ reason: messageOf(error) }, 'an answer to a job with a keyspace was cut off');
      return;
    }
    refuse(request, response, error, log);
  }
}

function refuse(request: IncomingMessage, response: ServerResponse, error: unknown, log: Logger): void {
  const refusal = asRefusal(error);
  if (refusal.kind === 'fault') log.error({ err: error }, 'a request about a keyspace failed');
  const { status, body } = wireOf(refusal);
  // What of the request was not read is not waited for: the connection ends with the answer.
  const isRead = request.complete;
  response.writeHead(status, { 'content-type': 'application/json', ...(isRead ? {} : { connection: 'close' }) });
  response.end(JSON.stringify(body));
  if (!isRead) request.resume();
}

async function readBody(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  const tooLarge = () => new Refusal('invalid', `a request has ${maxBodyBytes} bytes at most`);
  if (Number(request.headers['content-length'] ?? 0) > maxBodyBytes) throw tooLarge();
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    if (!Buffer.isBuffer(chunk)) throw new FlynnError('internal', 'a request came as text');
    bytes += chunk.length;
    if (bytes > maxBodyBytes) throw tooLarge();
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8'));
  } catch (error) {
    throw new Refusal('invalid', `the request is not JSON: ${messageOf(error)}`, { cause: error });
  }
}
