import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http2';
import type { ServerHttp2Session, ServerHttp2Stream } from 'node:http2';
import { createServer as createNetServer } from 'node:net';
import type { Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { Server, ServerCredentials, credentials, makeGenericClientConstructor, status } from '@grpc/grpc-js';
import type {
  ServerDuplexStream,
  ServerReadableStream,
  ServerUnaryCall,
  ServerWritableStream,
  ServiceDefinition,
  ServiceError,
  sendUnaryData,
} from '@grpc/grpc-js';
import { waitFor } from '@flynn/kit/retry';
import { Deadlines } from '../http1/deadlines.ts';
import { shared } from '../http1/front.ts';
import {
  endHeaders,
  endStream,
  frame,
  framesIn,
  frameTypes,
  literals,
  preface,
  settings,
  uint32,
} from '../hostile/frames.ts';
import { startBackend, track } from '../testing.ts';
import { H2cUpstream } from './h2c-upstream.ts';
import { Http2Head, readRequest } from './request.ts';
import { backendAt, openDoor, replyOf, request } from './testing.ts';
import type { Door } from './testing.ts';

const soon = { deadlineMs: 60_000, intervalMs: 5 };

type H2c = { port: number; sessions: Set<ServerHttp2Session> };

async function startH2c(t: TestContext, onStream: (stream: ServerHttp2Stream, path: string) => void): Promise<H2c> {
  const server = createServer();
  const sessions = new Set<ServerHttp2Session>();
  server.on('session', (session) => {
    sessions.add(session);
    session.once('close', () => sessions.delete(session));
  });
  server.on('stream', (stream, headers) => {
    stream.on('error', () => undefined);
    onStream(stream, String(headers[':path']));
  });
  const { port } = await track(t, server);
  return { port, sessions };
}

async function openH2cDoor(t: TestContext, port: number, own = shared()): Promise<Door> {
  const door = await openDoor(t, { shared: own });
  door.policy.protocol = 'h2c';
  door.policy.backends = [backendAt(port)];
  return door;
}

describe('a backend that speaks h2c', () => {
  test('gets all requests in one session, bodies both ways whole', async (t) => {
    const backend = await startH2c(t, (stream) => {
      stream.respond({ ':status': 200 });
      stream.pipe(stream);
    });
    const door = await openH2cDoor(t, backend.port);
    const session = door.connect();
    const bodies = Array.from({ length: 20 }, () => randomBytes(200_000));
    const back = await Promise.all(
      bodies.map((body) => {
        const stream = request(session, { ':method': 'POST' }, false);
        stream.end(body);
        return buffer(stream);
      }),
    );
    assert.ok(back.every((body, i) => bodies[i]?.equals(body)));
    assert.equal(backend.sessions.size, 1);
    await waitFor(() => door.policy.endings.length === 20, { what: 'all ends', ...soon });
    assert.ok(door.policy.endings.every((ending) => ending.how === 'answered'));
    assert.equal(door.policy.inUse, 0);
  });

  test('that allows few streams gets more sessions', async (t) => {
    const server = createServer({ settings: { maxConcurrentStreams: 3 } });
    const sessions = new Set<ServerHttp2Session>();
    server.on('session', (session) => sessions.add(session));
    const waiting: ServerHttp2Stream[] = [];
    server.on('stream', (stream) => waiting.push(stream));
    const { port } = await track(t, server);
    const door = await openH2cDoor(t, port);
    const client = door.connect();
    const first = replyOf(request(client));
    await waitFor(() => waiting.length === 1, { what: 'the first request', ...soon });
    const replies = Array.from({ length: 8 }, () => replyOf(request(client)));
    await waitFor(() => waiting.length === 9, { what: 'all requests at once', ...soon });
    assert.equal(sessions.size, 3);
    for (const stream of waiting) stream.respond({ ':status': 204 }, { endStream: true });
    for (const reply of await Promise.all([first, ...replies])) assert.equal(reply.status, 204);
  });

  test('that says GOAWAY ends what it has, and gets the next in a new session', async (t) => {
    const waiting: ServerHttp2Stream[] = [];
    const backend = await startH2c(t, (stream, path) => {
      if (path === '/wait') waiting.push(stream);
      else {
        stream.respond();
        stream.end('next');
      }
    });
    const door = await openH2cDoor(t, backend.port);
    const client = door.connect();
    const slow = replyOf(request(client, { ':path': '/wait' }));
    await waitFor(() => waiting.length === 1, { what: 'the request', ...soon });
    for (const session of backend.sessions) session.close();
    // Either it crosses the GOAWAY, and is asked again, or comes after it.
    assert.equal((await replyOf(request(client))).body, 'next');
    waiting[0]?.respond();
    waiting[0]?.end('slow');
    assert.equal((await slow).body, 'slow');
    await waitFor(() => door.policy.endings.length === 2, { what: 'both ends', ...soon });
    assert.deepEqual(
      door.policy.endings.map((ending) => ending.how),
      ['answered', 'answered'],
    );
  });

  test('that is busy for longer than anybody pings answers in the end: it is the route that says how long that may take', async (t) => {
    const frame = (type: number, flags: number, stream: number, payload: readonly number[] = []) =>
      Buffer.from([0, 0, payload.length, type, flags, 0, 0, 0, stream, ...payload]);
    const [headers, settings] = [1, 4];
    let answer: (() => void) | undefined;
    const server = createNetServer((socket) => {
      socket.on('error', () => undefined);
      socket.write(frame(settings, 0, 0));
      // Whatever comes then waits to be read.
      socket.once('data', () => {
        socket.pause();
        const [endOfAll, status204] = [5, 0x89];
        answer = () => socket.write(Buffer.concat([frame(settings, 1, 0), frame(headers, endOfAll, 1, [status204])]));
      });
    });
    const { port } = await track(t, server);
    const own = shared();
    const door = await openH2cDoor(t, port, own);
    const reply = replyOf(request(door.connect()));
    await waitFor(() => door.policy.inUse === 1 && answer !== undefined, { what: 'the request', ...soon });
    for (let at = 1; at <= 6; at += 1) {
      own.h2c.tick(own.deadlines.nowMs + at * 30_000);
      await new Promise(setImmediate);
    }
    answer?.();
    assert.equal((await reply).status, 204);
  });

  test('that resets is not taken for one that has answered', async (t) => {
    const backend = await startH2c(t, (stream, path) => {
      if (path === '/begun') {
        // Else node:http2 says the end before the reset.
        stream.respond({}, { waitForTrailers: true });
        stream.write('some', () => stream.close(2));
      } else stream.close(2);
    });
    const door = await openH2cDoor(t, backend.port);
    await assert.rejects(replyOf(request(door.connect(), { ':path': '/begun' })), /reset 2/);
    assert.equal((await replyOf(request(door.connect(), { ':method': 'POST' }))).body, 'backend-broke');
    assert.equal(door.policy.inUse, 0);
  });

  test('that speaks HTTP/1.1 instead, or nothing, is unreachable', async (t) => {
    const http1 = await startBackend(t, (_incoming, response) => response.end('ok'));
    const silent = await track(
      t,
      createNetServer((socket) => socket.resume()),
    );
    const door = await openH2cDoor(t, http1.port);
    assert.equal((await replyOf(request(door.connect()))).body, 'unreachable');
    door.policy.backends = [backendAt(silent.port)];
    door.policy.limits = { ...door.policy.limits, dialMs: 200 };
    assert.equal((await replyOf(request(door.connect()))).body, 'unreachable');
    await waitFor(() => silent.sockets.size === 0, { what: 'the connection to be given up', ...soon });
  });

  test('is given up in the very moment in which it is reached, and nothing comes of it', async (t) => {
    const backend = await startH2c(t, () => undefined);
    const head = readRequest([':method', 'GET', ':scheme', 'http', ':authority', 'app.test', ':path', '/'], true);
    assert.ok(head instanceof Http2Head);
    const exchange = { target: '/', requestFields: [], requestLines: '', removedFields: new Set<string>() };
    const deadlines = new Deadlines();
    using upstream = new H2cUpstream(deadlines);
    const dialled = backendAt(backend.port);
    const ended = Promise.withResolvers<void>();
    dialled.own = (socket) => {
      // Before node:http2 hears of it, which tells of the session in its next turn.
      socket.once('connect', () => attempt.abort());
      socket.once('close', () => ended.resolve());
    };
    const unheard = () => assert.fail('nobody is to be told');
    const receiver = {
      onConnected: unheard,
      onInformation: unheard,
      onHead: unheard,
      onUpgraded: unheard,
      onData: unheard,
      onEnd: unheard,
      onDrain: unheard,
      onFailure: unheard,
    };
    const attempt = upstream.open(dialled, { head, exchange, canRepeat: true, wantsNew: false }, receiver);
    attempt.begin();
    await ended.promise;
  });

  test('is not to blame for a request that HTTP/2 cannot say', async (t) => {
    const backend = await startH2c(t, (stream) => stream.respond({ ':status': 204 }, { endStream: true }));
    const door = await openH2cDoor(t, backend.port);
    assert.equal((await replyOf(request(door.connect()))).status, 204);
    door.policy.requestFields = ['not a name', '1'];
    assert.equal((await replyOf(request(door.connect()))).body, 'unfit');
    assert.deepEqual([door.policy.failures, door.policy.inUse], [[], 0]);
    door.policy.requestFields = [];
    assert.equal((await replyOf(request(door.connect()))).status, 204);
    assert.equal(backend.sessions.size, 1);
  });

  test('of Node itself, which takes fewer fields than the router does and says so by its reset alone, is not to blame', async (t) => {
    const backend = await startH2c(t, (stream) => stream.respond({ ':status': 204 }, { endStream: true }));
    const door = await openH2cDoor(t, backend.port);
    door.policy.requestFields = Array.from({ length: 180 }, (_, i) => [`x-${i}`, '1']).flat();
    for (let i = 0; i < 3; i += 1) assert.equal((await replyOf(request(door.connect()))).body, 'unfit');
    assert.deepEqual([door.policy.failures, door.policy.inUse], [[], 0]);
    door.policy.requestFields = [];
    assert.equal((await replyOf(request(door.connect()))).status, 204);
  });

  test('gets the longest heads, unless it takes none as long, and stays as well as its session does', async (t) => {
    const open = async (maxHeaderListSize: number) => {
      const server = createServer({ settings: { maxHeaderListSize }, maxHeaderListPairs: 400 });
      const seen = { streams: 0, sessions: 0 };
      server.on('session', () => (seen.sessions += 1));
      server.on('stream', (stream) => {
        seen.streams += 1;
        stream.respond({ ':status': 204 }, { endStream: true });
      });
      const { port } = await track(t, server);
      return { port, seen };
    };
    const [lenient, strict] = [await open(131_072), await open(8_192)];
    const door = await openH2cDoor(t, lenient.port);
    const longest = Array.from({ length: 190 }, (_, i) => [`x-${i}`, 'x'.repeat(340)]).flat();
    door.policy.requestFields = longest;
    for (let i = 0; i < 3; i += 1) assert.equal((await replyOf(request(door.connect()))).status, 204);
    assert.deepEqual(lenient.seen, { streams: 3, sessions: 1 });
    door.policy.backends = [backendAt(strict.port)];
    assert.equal((await replyOf(request(door.connect()))).body, 'unfit');
    door.policy.requestFields = [];
    assert.equal((await replyOf(request(door.connect()))).status, 204);
    assert.deepEqual(strict.seen, { streams: 1, sessions: 1 });
    assert.deepEqual(door.policy.failures, []);
  });

  test('that says GOAWAY and does not leave keeps no connection', async (t) => {
    const server = createNetServer({ allowHalfOpen: true }, (socket) => {
      let unread = Buffer.alloc(0);
      socket.write(settings());
      socket.on('data', (bytes: Buffer) => {
        unread = Buffer.concat([unread, bytes]);
        const { frames } = framesIn(unread.subarray(preface.length));
        if (!frames.some(({ type }) => type === frameTypes.headers)) return;
        const answer = frame('headers', endHeaders | endStream, 1, literals([':status', '204']));
        socket.write(Buffer.concat([answer, frame('goaway', 0, 0, uint32(1, 0))]));
      });
    });
    const { port } = await track(t, server);
    const door = await openH2cDoor(t, port);
    const [backend] = door.policy.backends;
    assert.ok(backend !== undefined);
    const ours: Socket[] = [];
    const own = backend.own.bind(backend);
    backend.own = (socket) => {
      ours.push(socket);
      own(socket);
    };
    assert.equal((await replyOf(request(door.connect()))).status, 204);
    await waitFor(() => ours.length === 1 && ours[0]?.destroyed, { what: 'the connection to be gone', ...soon });
  });

  test('that leaves keeps no session', async (t) => {
    const backend = await startH2c(t, (stream) => stream.respond({ ':status': 204 }, { endStream: true }));
    const door = await openH2cDoor(t, backend.port);
    await replyOf(request(door.connect()));
    door.policy.backends[0]?.leave();
    await waitFor(() => backend.sessions.size === 0, { what: 'the session to end', ...soon });
  });
});

const text = {
  requestStream: false,
  responseStream: false,
  requestSerialize: (value: string) => Buffer.from(value),
  requestDeserialize: (bytes: Buffer) => bytes.toString(),
  responseSerialize: (value: string) => Buffer.from(value),
  responseDeserialize: (bytes: Buffer) => bytes.toString(),
};
const service = {
  unary: { ...text, path: '/echo/unary' },
  collect: { ...text, path: '/echo/collect', requestStream: true },
  count: { ...text, path: '/echo/count', responseStream: true },
  chat: { ...text, path: '/echo/chat', requestStream: true, responseStream: true },
} satisfies ServiceDefinition;
const EchoClient = makeGenericClientConstructor(service, 'echo');

describe('gRPC', () => {
  let unanswered = { begun: 0, cancelled: 0 };
  let cancelledChats = 0;
  const implementation = {
    unary(call: ServerUnaryCall<string, string>, callback: sendUnaryData<string>) {
      if (call.request === 'fail') callback({ code: status.NOT_FOUND, details: 'no such thing' });
      else if (call.request !== 'never') callback(null, `${call.request}!`);
      else {
        unanswered.begun += 1;
        call.on('cancelled', () => (unanswered.cancelled += 1));
      }
    },
    collect(call: ServerReadableStream<string, string>, callback: sendUnaryData<string>) {
      const parts: string[] = [];
      call.on('data', (part: string) => parts.push(part));
      call.on('end', () => callback(null, parts.join('+')));
    },
    count(call: ServerWritableStream<string, string>) {
      for (let i = 1; i <= Number(call.request); i += 1) call.write(String(i));
      call.end();
    },
    chat(call: ServerDuplexStream<string, string>) {
      call.on('data', (part: string) => call.write(`${part}?`));
      call.on('end', () => call.end());
      call.on('cancelled', () => (cancelledChats += 1));
    },
  };

  async function connectThrough(t: TestContext) {
    const server = new Server();
    server.addService(service, implementation);
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, port) =>
      error === null ? resolve(port) : reject(error),
    );
    const door = await openH2cDoor(t, await promise);
    const client = new EchoClient(`127.0.0.1:${door.port}`, credentials.createInsecure(), {
      'grpc.default_authority': 'app.test',
    });
    t.after(() => {
      client.close();
      server.forceShutdown();
    });
    const call = (method: string) => client[method]?.bind(client) ?? assert.fail(method);
    return { door, call };
  }
  type Done = (error: ServiceError | null, value: string) => void;
  const whole = (begin: (done: Done) => void) =>
    new Promise<string>((resolve, reject) =>
      begin((error, value) => (error === null ? resolve(value) : reject(error))),
    );

  test('one for one, many for one, one for many, many for many', async (t) => {
    const { door, call } = await connectThrough(t);
    assert.equal(await whole((done) => call('unary')('hello', done)), 'hello!');
    const collected = await whole((done) => {
      const stream = call('collect')(done);
      for (const part of ['a', 'b', 'c']) stream.write(part);
      stream.end();
    });
    assert.equal(collected, 'a+b+c');
    const counted = [];
    for await (const part of call('count')('1000')) counted.push(part);
    assert.equal(counted.length, 1_000);
    const chat = call('chat')();
    const heard = [];
    for (const part of ['x', 'y']) {
      chat.write(part);
      heard.push(await new Promise((resolve) => chat.once('data', resolve)));
    }
    chat.end();
    await new Promise((resolve) => chat.once('status', resolve));
    assert.deepEqual(heard, ['x?', 'y?']);
    await waitFor(() => door.policy.inUse === 0 && door.policy.endings.length === 4, { what: 'all ends', ...soon });
    assert.ok(door.policy.endings.every((ending) => ending.how === 'answered'));
  });

  test('an error arrives as what it is', async (t) => {
    const { door, call } = await connectThrough(t);
    await assert.rejects(
      whole((done) => call('unary')('fail', done)),
      { code: status.NOT_FOUND, details: 'no such thing' },
    );
    door.policy.backends = [];
    await assert.rejects(
      whole((done) => call('unary')('hello', done)),
      { code: status.UNAVAILABLE },
    );
  });

  test('deadlines and cancellations reach the server', async (t) => {
    const { door, call } = await connectThrough(t);
    unanswered = { begun: 0, cancelled: 0 };
    cancelledChats = 0;
    // On a busy machine a deadline may be over before the call has left the client.
    for (let deadlineMs = 200; unanswered.begun === 0 && deadlineMs < 30_000; deadlineMs *= 2) {
      await assert.rejects(
        whole((done) => call('unary')('never', { deadline: Date.now() + deadlineMs }, done)),
        { code: status.DEADLINE_EXCEEDED },
      );
    }
    const areCancelled = () => unanswered.begun > 0 && unanswered.cancelled === unanswered.begun;
    await waitFor(areCancelled, { what: 'the server to hear of the deadline', ...soon });
    const chat = call('chat')();
    chat.on('error', () => undefined);
    chat.write('x');
    await new Promise((resolve) => chat.once('data', resolve));
    chat.cancel();
    await waitFor(() => cancelledChats === 1, { what: 'the server to hear of the cancellation', ...soon });
    await waitFor(() => door.policy.inUse === 0, { what: 'the backend to be let go of', ...soon });
  });
});
