import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { pause } from '@flynn/kit/clock';
import { waitFor } from '@flynn/kit/retry';
import { startBackend } from '../testing.ts';
import { endHeaders, endStream, frame, frameTypes, literals, preface, settings, uint32 } from '../hostile/frames.ts';
import { backendAt, openDoor, replyOf, request } from './testing.ts';
import type { Door } from './testing.ts';

const soon = { deadlineMs: 60_000, intervalMs: 5 };
const plain = [':method', 'GET', ':scheme', 'https', ':authority', 'app.test', ':path', '/'];
const post = [':method', 'POST', ...plain.slice(2)];

/** Says frames and hears which came back, by type and first bytes. */
class RawClient {
  readonly socket;
  isClosed = false;
  #heard = Buffer.alloc(0);

  constructor(port: number, options: { allowHalfOpen?: boolean } = {}) {
    this.socket = connect({ port, host: '127.0.0.1', ...options });
    this.socket.on('error', () => undefined);
    this.socket.on('close', () => (this.isClosed = true));
    this.socket.on('data', (bytes: Buffer) => (this.#heard = Buffer.concat([this.#heard, bytes])));
    this.say(preface, frame('settings', 0, 0));
  }

  say(...frames: Buffer[]): boolean {
    return this.socket.write(Buffer.concat(frames));
  }

  /** The error codes of what was reset or ended. */
  codes(type: 'reset' | 'goaway'): number[] {
    const codes: number[] = [];
    for (let at = 0; at + 9 <= this.#heard.length;) {
      const length = this.#heard.readUIntBE(at, 3);
      if (at + 9 + length > this.#heard.length) break;
      if (this.#heard[at + 3] === frameTypes[type])
        codes.push(this.#heard.readUInt32BE(at + 9 + (type === 'goaway' ? 4 : 0)));
      at += 9 + length;
    }
    return codes;
  }
}

async function setUp(t: TestContext): Promise<{ door: Door; client: RawClient; seen: string[] }> {
  const door = await openDoor(t);
  const seen: string[] = [];
  const backend = await startBackend(t, (incoming, response) => {
    seen.push(`${incoming.method} ${incoming.url} ${JSON.stringify(incoming.rawHeaders)}`);
    incoming.resume();
    incoming.on('end', () => response.end('ok'));
  });
  door.policy.backends = [backendAt(backend.port)];
  const client = new RawClient(door.port);
  t.after(() => client.socket.destroy());
  return { door, client, seen };
}

/** Not if it was cut off, or is not read from any more. */
async function takesMore(socket: Socket): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const yes = () => resolve(true);
  const no = () => resolve(false);
  const late = setTimeout(no, 500);
  socket.once('drain', yes).once('close', no);
  await promise;
  clearTimeout(late);
  socket.off('drain', yes).off('close', no);
  return promise;
}

/** Another client is served as if nothing were the matter. */
async function servesOthers(door: Door): Promise<void> {
  assert.equal((await replyOf(request(door.connect()))).body, 'ok');
}

const smuggled: Record<string, string[]> = {
  'a newline in a value': [...plain, 'x', 'a\r\ntransfer-encoding: chunked'],
  'a line feed alone': [...plain, 'x', 'a\ntransfer-encoding: chunked'],
  'a null in a value': [...plain, 'x', 'a\0b'],
  'a newline in a name': [...plain, 'x: a\r\nhost', 'evil'],
  'a colon in a name': [...plain, 'transfer-encoding:chunked\r\nx', 'y'],
  'an upper-case name': [...plain, 'Transfer-Encoding', 'chunked'],
  'a transfer coding': [...post, 'transfer-encoding', 'chunked'],
  'a connection field': [...plain, 'connection', 'close'],
  'te beyond trailers': [...plain, 'te', 'gzip'],
  'a newline in the path': [...plain.slice(0, 6), ':path', '/ HTTP/1.1\r\nhost: evil\r\n\r\nGET /x'],
  'a space in the path': [...plain.slice(0, 6), ':path', '/ HTTP/1.1'],
  'a newline in the method': [':method', 'GET / HTTP/1.1\r\nhost: evil\r\n\r\nGET', ...plain.slice(2)],
  'a newline in the authority': [...plain.slice(0, 4), ':authority', 'app.test\r\nx: y', ':path', '/'],
  'a newline in the scheme': [':method', 'GET', ':scheme', 'http\r\nx: y', ...plain.slice(4)],
  'another host': [...plain, 'host', 'evil.test'],
  'two paths': [...plain, ':path', '/other'],
  'a pseudo field after the others': [
    ':method',
    'GET',
    ':scheme',
    'https',
    ':path',
    '/',
    'x',
    'y',
    ':authority',
    'app.test',
  ],
  'no path': plain.slice(0, 6),
  'two lengths': [...post, 'content-length', '3', 'content-length', '4'],
};

describe('a request that would be another one, or two, as HTTP/1.1 never reaches a backend:', () => {
  for (const [what, fields] of Object.entries(smuggled)) {
    test(what, async (t) => {
      const { door, client, seen } = await setUp(t);
      client.say(frame('headers', endStream | endHeaders, 1, literals(fields)));
      // What comes after it on the connection tells that it was dealt with.
      client.say(frame('headers', endStream | endHeaders, 3, literals(plain)));
      await waitFor(() => client.isClosed || seen.length > 0, { what: 'it to be dealt with', ...soon });
      if (client.isClosed) await servesOthers(door);
      // nghttp2 leaves a field out that has characters it may not have, and takes the rest; all else it refuses.
      assert.ok(
        seen.every((line) => line.startsWith('GET / ')),
        seen.join('\n'),
      );
      assert.ok(seen.length <= 2);
      assert.doesNotMatch(seen.join(), /evil|transfer-encoding|"x"|gzip/i);
    });
  }

  for (const [what, body] of Object.entries({
    'more body than announced': 'abcdef',
    'less body than announced': 'ab',
  })) {
    test(what, async (t) => {
      const { door, client, seen } = await setUp(t);
      client.say(frame('headers', endHeaders, 1, literals([...post, 'content-length', '4'])));
      client.say(frame('data', endStream, 1, Buffer.from(body)));
      await waitFor(() => client.codes('reset').length > 0 || client.isClosed, { what: 'a reset', ...soon });
      await waitFor(() => door.policy.inUse === 0, { what: 'the backend to be let go of', ...soon });
      assert.ok(seen.length <= 1);
      assert.ok(door.policy.endings.every((ending) => ending.how !== 'answered'));
      await servesOthers(door);
    });
  }
});

test('a client that says goodbye and does not leave is cut', async (t) => {
  const door = await openDoor(t);
  const client = new RawClient(door.port, { allowHalfOpen: true });
  t.after(() => client.socket.destroy());
  client.say(frame('goaway', 0, 0, Buffer.alloc(8)));
  await once(client.socket, 'end');
  assert.equal(door.front.connections, 1);
  await waitFor(() => door.front.connections === 0, { what: 'the connection to be gone', ...soon });
});

test('a client that reads slowly has all of an answer, though the session ended with its last stream', async (t) => {
  const sizeBytes = 1_000_000;
  const backend = await startBackend(t, (_request, response) => response.end(Buffer.alloc(sizeBytes)));
  const door = await openDoor(t);
  door.policy.backends = [backendAt(backend.port)];
  const socket = connect(door.port, '127.0.0.1');
  t.after(() => socket.destroy());
  socket.pause();
  const large = settings(4, 2 ** 24);
  const window = frame('windowUpdate', 0, 0, uint32(2 ** 24));
  socket.write(Buffer.concat([preface, large, window, frame('headers', endHeaders | endStream, 1, literals(plain))]));
  await waitFor(() => door.policy.endings.length === 1, { what: 'all to be on its way', ...soon });
  const drained = door.front.drain({ deadlineMs: 30_000 });
  // Longer than a session that answered nothing has.
  await pause(3_000, t.signal);
  let bytes = 0;
  socket.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    // What a closed socket answers with a reset, by which the rest is lost.
    socket.write(frame('windowUpdate', 0, 0, uint32(chunk.length)));
  });
  socket.on('end', () => socket.end());
  socket.resume();
  await once(socket, 'close');
  assert.ok(bytes > sizeBytes, String(bytes));
  await drained;
});

test('a client that does not leave when it is told to is cut at the deadline', async (t) => {
  const door = await openDoor(t);
  const client = new RawClient(door.port, { allowHalfOpen: true });
  t.after(() => client.socket.destroy());
  await waitFor(() => door.front.connections === 1, { what: 'the connection', ...soon });
  await door.front.drain({ deadlineMs: 50 });
  await waitFor(() => door.front.connections === 0, { what: 'the connection to be gone', ...soon });
});

describe('a flood ends with the connection of who sends it, and nobody else notices:', () => {
  const floods: Record<string, (client: RawClient) => void> = {
    'requests that are reset at once': (client) => {
      for (let i = 0; i < 2_000; i += 1) {
        client.say(
          frame('headers', endStream | endHeaders, 2 * i + 1, literals(plain)),
          frame('reset', 0, 2 * i + 1, Buffer.from([0, 0, 0, 8])),
        );
      }
    },
    'fields without end': (client) => {
      client.say(frame('headers', endStream, 1, literals(plain)));
      for (let i = 0; i < 5_000; i += 1) client.say(frame('continuation', 0, 1, literals(['x', 'y'.repeat(100)])));
    },
    'empty pieces of a body': (client) => {
      client.say(frame('headers', endHeaders, 1, literals(post)));
      for (let i = 0; i < 5_000; i += 1) client.say(frame('data', 0, 1));
    },
    'pieces for streams that are not there': (client) => {
      for (let i = 0; i < 5_000; i += 1) client.say(frame('data', 0, 2 * i + 1, Buffer.from('x')));
    },
    'a window that overflows': (client) =>
      client.say(frame('windowUpdate', 0, 0, Buffer.from([0x7f, 0xff, 0xff, 0xff]))),
    'settings of no length that is one': (client) => client.say(frame('settings', 0, 0, Buffer.alloc(5))),
  };
  for (const [what, flood] of Object.entries(floods)) {
    test(what, async (t) => {
      const { door, client } = await setUp(t);
      flood(client);
      await waitFor(() => client.isClosed || client.codes('goaway').length > 0, { what: 'the end of it', ...soon });
      await servesOthers(door);
      await waitFor(() => door.policy.inUse === 0, { what: 'backends to be let go of', ...soon });
    });
  }

  for (const type of ['ping', 'settings'] as const) {
    test(`${type} that is answered and never read`, async (t) => {
      const { door, client } = await setUp(t);
      client.socket.pause();
      const atFirst = process.memoryUsage().rss;
      const many = Buffer.concat(
        Array.from({ length: 1_000 }, () => frame(type, 0, 0, Buffer.alloc(type === 'ping' ? 8 : 0))),
      );
      for (let said = 0; said < 400 && !client.isClosed && !client.socket.destroyed; said += 1) {
        // Either is fine, as long as others are served.
        if (!client.say(many) && !(await takesMore(client.socket))) break;
      }
      await servesOthers(door);
      // Other tests have run in this process.
      const grown = process.memoryUsage().rss - atFirst;
      assert.ok(grown < 450_000_000, String(grown));
    });
  }
});

test('a client takes no more than 128 requests at once, and no more fields than are bounded', async (t) => {
  const { door, client } = await setUp(t);
  const tooMany = Array.from({ length: 300 }, (_, i) => [`x-${i}`, 'y']).flat();
  client.say(frame('headers', endStream | endHeaders, 1, literals([...plain, ...tooMany])));
  await waitFor(() => client.codes('reset').length > 0 || client.isClosed, { what: 'a refusal', ...soon });
  assert.equal(door.policy.heads.length, 0);
  const other = new RawClient(door.port);
  t.after(() => other.socket.destroy());
  for (let i = 0; i < 200; i += 1) other.say(frame('headers', endHeaders, 2 * i + 1, literals(post)));
  await waitFor(() => other.codes('reset').length + other.codes('goaway').length > 0, { what: 'a refusal', ...soon });
  assert.ok(door.policy.heads.length <= 128, String(door.policy.heads.length));
  await servesOthers(door);
});
