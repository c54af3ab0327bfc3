/** For tests: an HTTP/2 front before backends that the test starts, by a policy that sends everything to them. */
import { once } from 'node:events';
import { connect, constants } from 'node:http2';
import type { ClientHttp2Session, ClientHttp2Stream, OutgoingHttpHeaders } from 'node:http2';
import { createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import type { TestContext } from 'node:test';
import { createServer as createTlsServer } from 'node:tls';
import { silentLogger } from '@flynn/kit/log';
import { createAuthority, issueCertificate } from '@flynn/kit/tls';
import { Backend } from '../backend.ts';
import type { Answer, Ending, Exchange, Limits, Policy, RequestHead } from '../exchange.ts';
import { shared, type Shared } from '../http1/front.ts';
import { Http2Front } from './front.ts';
import { linesOf } from '../policy/origin.ts';

export const generous: Limits = {
  dialMs: 20_000,
  firstByteMs: 20_000,
  idleMs: 20_000,
  totalMs: 0,
  bodyBytes: 0,
  bufferBytes: 0,
};

/** Sends every request to the first of the backends that did not fail it yet, and remembers what it was told. */
export class FakePolicy implements Policy {
  readonly heads: RequestHead[] = [];
  readonly endings: Ending[] = [];
  readonly failures: string[] = [];
  inUse = 0;
  backends: Backend[] = [];
  limits: Limits = generous;
  protocol: 'http1' | 'h2c' = 'http1';
  requestFields: string[] = ['x-request-id', 'id-1', 'x-forwarded-proto', 'https'];

  admit(head: RequestHead): { answer: Answer } | { exchange: Exchange } {
    this.heads.push(head);
    if (head.host !== 'app.test') return { answer: this.refuse(404, 'unknown-host', 'nobody') };
    return { exchange: this.#exchange(head) };
  }

  refuse(status: number, code: string, message: string): Answer {
    return { status, code, fields: ['content-type', 'text/plain'], body: message };
  }

  #exchange(head: RequestHead): Exchange {
    const tried = new Set<Backend>();
    return {
      requestId: 'id-1',
      target: head.target,
      backendProtocol: this.protocol,
      limits: this.limits,
      requestFields: this.requestFields,
      requestLines: linesOf(this.requestFields),
      removedFields: new Set(['x-removed', 'x-request-id', 'x-forwarded-proto']),
      pick: () => {
        const backend = this.backends.find((known) => !tried.has(known));
        if (backend !== undefined) this.inUse += 1;
        return backend;
      },
      failed: (backend, how) => {
        this.failures.push(how);
        if (how === 'dial') tried.add(backend);
      },
      answered: () => ['x-request-id', 'id-1'],
      release: () => {
        this.inUse -= 1;
      },
      answerFor: (problem) => this.refuse(problem === 'body-too-large' ? 413 : 503, problem, problem),
      end: (ending) => {
        this.endings.push(ending);
      },
    };
  }
}

export type Door = { policy: FakePolicy; front: Http2Front; url: string; port: number; connect(): ClientHttp2Session };

const localhost = createAuthority('flynn test').then((authority) =>
  issueCertificate(authority, { name: 'app.test', addresses: ['app.test'] }),
);

/** `tls` as the public port does it, otherwise with prior knowledge. */
export async function openDoor(t: TestContext, options: { isTls?: boolean; shared?: Shared } = {}): Promise<Door> {
  const policy = new FakePolicy();
  const front = new Http2Front({ policy, shared: options.shared ?? shared(), log: silentLogger() });
  const isTls = options.isTls ?? false;
  const take = (socket: Socket) => {
    const { remoteAddress = '', remotePort = 0, localPort = 0 } = socket;
    front.take(socket, { address: remoteAddress, port: remotePort, localPort, isTls });
  };
  const { certificate, privateKey } = await localhost;
  const server = isTls
    ? createTlsServer({ cert: certificate, key: privateKey, ALPNProtocols: ['h2'] }, take)
    : createServer(take);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const url = `${isTls ? 'https' : 'http'}://127.0.0.1:${port}`;
  const sessions = new Set<ClientHttp2Session>();
  t.after(async () => {
    for (const session of sessions) session.destroy();
    await front.drain({ deadlineMs: 0 });
    await new Promise((resolve) => server.close(resolve));
  });
  return {
    policy,
    front,
    url,
    port,
    connect() {
      const session = connect(url, { rejectUnauthorized: false, servername: 'app.test' });
      session.on('error', () => undefined);
      sessions.add(session);
      return session;
    },
  };
}

export function backendAt(port: number): Backend {
  return new Backend('web', `127.0.0.1:${port}`);
}

export type Reply = {
  status: number;
  headers: Record<string, unknown>;
  body: string;
  trailers: Record<string, unknown>;
  informations: Record<string, unknown>[];
};

export function request(
  session: ClientHttp2Session,
  fields: OutgoingHttpHeaders = {},
  isWhole = true,
): ClientHttp2Stream {
  const stream = session.request({ ':authority': 'app.test', ':path': '/', ...fields }, { endStream: isWhole });
  stream.on('error', () => undefined);
  return stream;
}

/** The whole answer; throws the code of the reset if the stream is broken off. */
export async function replyOf(stream: ClientHttp2Stream): Promise<Reply> {
  const reply: Reply = { status: 0, headers: {}, body: '', trailers: {}, informations: [] };
  const chunks: Buffer[] = [];
  stream.on('headers', (headers) => reply.informations.push(headers));
  stream.on('response', (headers) => {
    reply.status = Number(headers[':status']);
    reply.headers = headers;
  });
  stream.on('data', (bytes: Buffer) => chunks.push(bytes));
  stream.on('trailers', (headers) => (reply.trailers = headers));
  if (!stream.closed) await new Promise((resolve) => stream.once('close', resolve));
  if (stream.rstCode !== constants.NGHTTP2_NO_ERROR) throw new Error(`reset ${stream.rstCode}`);
  reply.body = Buffer.concat(chunks).toString();
  return reply;
}
