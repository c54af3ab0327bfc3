/** Backends that misbehave: the client gets the documented answer or a connection cut off, and nothing stays behind. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { freePort } from '@flynn/kit/testing-ports';
import { drivers } from './drivers.ts';
import { Pusher } from './pusher.ts';
import { leavesNothing, setUpWith } from './raw-backend.ts';
import type { Behaviour } from './raw-backend.ts';
import { talk } from './talk.ts';
import { settled, setUp, standstillMs } from '../testing.ts';

const request = (method: string, lines = '') =>
  `${method} / HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\n${lines}\r\n`;
const timeouts = { firstByteMs: standstillMs, idleMs: standstillMs };
const quietMs = 15_000;

function outcomeOf(answer: string): string {
  const [, status] = /^HTTP\/1\.1 (\d+)/.exec(answer) ?? [];
  const [, code] = /\r\nx-flynn-error: (\S+)/i.exec(answer) ?? [];
  return status === undefined ? 'nothing' : code === undefined ? status : `${status} ${code}`;
}

const say =
  (...bytes: string[]): Behaviour =>
  (socket) =>
    bytes.forEach((each) => socket.write(each, 'latin1'));
const sayAndEnd =
  (bytes: string): Behaviour =>
  (socket) =>
    socket.end(bytes, 'latin1');

type Wrong = { name: string; behave: Behaviour; outcome: string | RegExp };

/** What cannot be passed on as an answer. */
const wrongHeads: readonly Wrong[] = [
  { name: 'resets', behave: (socket) => socket.resetAndDestroy(), outcome: '502 backend-broke' },
  { name: 'ends without a word', behave: (socket) => socket.end(), outcome: '502 backend-broke' },
  { name: 'says nothing', behave: () => undefined, outcome: '504 backend-late' },
  { name: 'stops within the head', behave: say('HTTP/1.1 200 OK\r\nX: y'), outcome: '504 backend-late' },
  { name: 'ends within the head', behave: sayAndEnd('HTTP/1.1 200 OK\r\nX: y'), outcome: '502 backend-broke' },
  {
    name: 'resets within the head',
    behave: (socket) => socket.write('HTTP/1.1 200 OK\r\nX', () => socket.resetAndDestroy()),
    outcome: '502 backend-broke',
  },
  ...[
    'hello\r\n\r\n',
    '\x00\x01\x02\x03\r\n\r\n',
    'SSH-2.0-x\r\n\r\n',
    '<html></html>',
    'HTTP/1.1 2000 OK\r\n\r\n',
    'HTTP/1.1 20 OK\r\n\r\n',
    'HTTP/1.1 abc OK\r\n\r\n',
    'HTTP/2.0 200 OK\r\n\r\n',
    'HTTP/1.1 200 OK\r\nX : y\r\n\r\n',
    'HTTP/1.1 200 OK\r\nX\x00: y\r\n\r\n',
    'HTTP/1.1 200 OK\r\nX: y\x00\r\n\r\n',
    'HTTP/1.1 200 OK\r\nX: y\r\n z\r\n\r\n',
    'HTTP/1.1 200 OK\r\nX: y\rz\r\n\r\n',
    'HTTP/1.1 200 OK\nContent-Length: 2\n\nok',
    'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok',
    'HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok',
    'HTTP/1.1 200 OK\r\nContent-Length: 2x\r\n\r\nok',
    'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
  ].map((bytes) => ({ name: `says ${JSON.stringify(bytes)}`, behave: sayAndEnd(bytes), outcome: '502 backend-broke' })),
];

/** What begins well: the client has a head, and learns by the connection's end that the body is not all there. */
const wrongBodies: readonly Wrong[] = [
  { name: 'stops within the body', behave: say('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf'), outcome: '200' },
  {
    name: 'ends within the body',
    behave: sayAndEnd('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf'),
    outcome: '200',
  },
  {
    name: 'stops within a chunk',
    behave: say('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nha'),
    outcome: '200',
  },
  {
    name: 'ends within a chunk',
    behave: sayAndEnd('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nha'),
    outcome: '200',
  },
  {
    name: 'ends before the last chunk',
    behave: sayAndEnd('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n'),
    outcome: '200',
  },
  {
    name: 'says a chunk size that is none',
    behave: say('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n'),
    outcome: '200',
  },
];

for (const { name: driver, takesLeniently } of drivers) {
  for (const { name, behave, outcome } of wrongHeads) {
    if (takesLeniently.includes(name)) continue;
    test(`${driver}: a backend that ${name} is answered for with ${String(outcome)}`, async (t) => {
      const world = await setUpWith(t, behave, { driver, timeouts });
      for (const asked of [request('GET'), request('POST', 'Content-Length: 2\r\n') + 'ok']) {
        const { answer, isClosed } = await talk(world.port, [asked], { quietMs });
        assert.ok(isClosed);
        assert.equal(outcomeOf(answer), outcome, asked);
      }
      await leavesNothing(world);
    });
  }

  for (const { name, behave } of wrongBodies) {
    test(`${driver}: the answer of a backend that ${name} ends with the connection, and not as if it were whole`, async (t) => {
      const world = await setUpWith(t, behave, { driver, timeouts });
      const { answer, isClosed } = await talk(world.port, [request('GET')], { quietMs });
      assert.ok(isClosed);
      // As long as nothing of it has gone out, there is still a better answer.
      if (outcomeOf(answer) !== '502 backend-broke') assert.equal(outcomeOf(answer), '200');
      assert.doesNotMatch(answer, /\r\ncontent-length: 10\r\n[^]*\r\n\r\n[^]{10}|\r\n0\r\n\r\n$/i);
      await leavesNothing(world);
    });
  }

  test(`${driver}: a backend that refuses is unreachable, a service that nobody offers has no backends`, async (t) => {
    const { plane, router, port } = await setUp(t, {}, driver);
    const { answer: nobody } = await talk(port, [request('GET')], { quietMs });
    assert.equal(outcomeOf(nobody), '503 no-backends');
    plane.setRoute({ id: 'r2', domain: 'unknown.test', service: 'nobody-ever-heard-of-it' });
    const address = `127.0.0.1:${await freePort()}`;
    plane.up('web', address);
    await settled(router, [address]);
    const { answer: refused } = await talk(port, [request('POST', 'Content-Length: 2\r\n') + 'ok'], { quietMs });
    assert.equal(outcomeOf(refused), '503 unreachable');
    const { answer: unknown } = await talk(port, [request('GET').replace('app.test', 'unknown.test')], { quietMs });
    assert.equal(outcomeOf(unknown), '503 no-backends');
  });

  test(`${driver}: a head of 200 MB is given up long before its end`, async (t) => {
    let written = 0;
    const world = await setUpWith(
      t,
      (socket) => {
        const field = Buffer.from(`X: ${'y'.repeat(16_000)}\r\n`);
        socket.write('HTTP/1.1 200 OK\r\n');
        const more = () => {
          while (written < 200e6 && !socket.destroyed) {
            written += field.length;
            if (!socket.write(field)) return;
          }
        };
        socket.on('drain', more);
        more();
      },
      { driver },
    );
    const { answer } = await talk(world.port, [request('POST', 'Content-Length: 2\r\n') + 'ok'], { quietMs });
    assert.equal(outcomeOf(answer), '502 backend-broke');
    assert.ok(written < 20e6, `${written} bytes were taken from it`);
    await leavesNothing(world);
  });

  for (const [name, extra] of [
    [
      'more body than it said',
      'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison',
    ],
    [
      'two answers',
      'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison',
    ],
    ['a body with a 204', 'HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison'],
    [
      'a body with a 304',
      'HTTP/1.1 304 Not Modified\r\nContent-Length: 45\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison',
    ],
    [
      'something behind the last chunk',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison',
    ],
  ] as const) {
    test(`${driver}: a backend that says ${name} poisons nobody's answer`, async (t) => {
      const world = await setUpWith(t, say(extra), { driver, timeouts });
      for (let n = 0; n < 3; n += 1) {
        const { answer } = await talk(world.port, [request('GET')], { quietMs });
        assert.match(answer, /^HTTP\/1\.1 (?:200|204|304|502) /);
        assert.doesNotMatch(answer, /poison/);
      }
      await leavesNothing(world);
    });
  }

  test(`${driver}: an answer that nobody asked for, on an idle connection, is nobody's answer`, async (t) => {
    const world = await setUpWith(
      t,
      (socket, { head }) => {
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok`);
        if (head.startsWith('GET /first'))
          setImmediate(() => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison'));
      },
      { driver },
    );
    for (const path of ['/first', '/second', '/first', '/second']) {
      const { answer } = await talk(world.port, [request('GET').replace('GET /', `GET ${path}`)], { quietMs });
      assert.match(answer, /^HTTP\/1\.1 (?:200 [^]*\r\n\r\nok|502 [^]*)$/);
      assert.doesNotMatch(answer, /poison/);
    }
    await leavesNothing(world);
  });

  test(`${driver}: HEAD is answered without a body, whatever the backend sends behind the head`, async (t) => {
    const world = await setUpWith(t, say('HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison'), { driver, timeouts });
    const { answer } = await talk(world.port, [request('HEAD')], { quietMs });
    assert.match(answer, /^HTTP\/1\.1 200 /);
    assert.doesNotMatch(answer, /poison/);
    await leavesNothing(world);
  });

  test(`${driver}: a backend that never reads holds its client back, and is given up when nothing has moved for long`, async (t) => {
    const world = await setUpWith(t, (socket) => void socket.pause(), { driver, timeouts: { idleMs: 3_000 } });
    const mebibyte = 'x'.repeat(1_048_576);
    const client = new Pusher(world.port, request('POST', `Content-Length: ${500 * mebibyte.length}\r\n`), mebibyte);
    await client.stalled();
    assert.ok(client.writtenBytes < 100e6, `the router took ${client.writtenBytes} bytes that nobody wanted`);
    client.leave();
    await waitFor(() => world.router.status().backends.every(({ inFlight }) => inFlight === 0), {
      what: 'the backend to be given up',
      deadlineMs: 60_000,
    });
    // Who does not read does not see that the other has gone.
    for (const socket of world.backend.sockets) socket.resume();
    await leavesNothing(world);
  });

  test(`${driver}: a switch of protocols that nobody asked for is not passed on`, async (t) => {
    const world = await setUpWith(
      t,
      sayAndEnd('HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\npoison'),
      { driver, timeouts },
    );
    const { answer } = await talk(world.port, [request('POST', 'Content-Length: 2\r\n') + 'ok'], { quietMs });
    assert.equal(outcomeOf(answer), '502 backend-broke');
    await leavesNothing(world);
  });
}
