import { hasCode } from '@flynn/kit/errors';
import { freePorts } from '@flynn/kit/testing-ports';
import { decode, encode } from 'dns-packet';
import type { Packet } from 'dns-packet';
import assert from 'node:assert/strict';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { test } from 'node:test';
import { Forwarder } from './forward.ts';
import type { Upstream } from './forward.ts';

const loopback = '127.0.0.1';
/** Of an upstream that is waited for in vain; the others are not to be taken for one where the machine stands still. */
const shortMs = 4_000;
/** Nobody waits for so long: what comes comes for another reason. */
const longMs = 60_000;

const questionOf = (name: string, id = 7) => encode({ type: 'query', id, questions: [{ type: 'A', name }] });

function forwarderOf(upstreams: readonly Upstream[], timeoutMs = longMs): Forwarder {
  return new Forwarder({ resolvers: async () => upstreams, timeoutMs, signal: new AbortController().signal });
}

/** The address in the answer, or its code when there is none. */
async function ask(forwarder: Forwarder, asker = '10.0.0.2', name = 'example.com'): Promise<unknown> {
  const { answers = [], flags = 0 } = decode(await forwarder.ask(questionOf(name), { via: 'udp', asker }));
  return answers.map((one) => (one.type === 'A' ? one.data : one.type))[0] ?? flags & 15;
}

const isUnavailable = (error: unknown): boolean => hasCode(error, 'unavailable');

type Heard = Readonly<{ query: Buffer; reply: (answer: string | number) => void }>;

/** An upstream that counts who asks it: each question has a socket of its own, from which it may come several times. */
async function startUpstream(onQuestion: (heard: Heard) => void, port = 0) {
  const socket = createSocket('udp4').bind(port, loopback);
  await once(socket, 'listening');
  const askers = new Set<number>();
  socket.on('message', (query, from) => {
    askers.add(from.port);
    const reply = (answer: string | number): void => {
      const { id = 0, questions = [] } = decode(query);
      const name = questions[0]?.name ?? '';
      const said: Packet =
        typeof answer === 'number' ? { flags: answer } : { answers: [{ type: 'A', name, data: answer }] };
      socket.send(encode({ type: 'response', id, questions, ...said }), from.port, from.address);
    };
    onQuestion({ query, reply });
  });
  return {
    address: loopback,
    port: socket.address().port,
    get asked(): number {
      return askers.size;
    },
    [Symbol.asyncDispose]: async () => void socket.close(),
  };
}

const silence = (): void => {};
const saying =
  (answer: string | number) =>
  ({ reply }: Heard): void =>
    reply(answer);

test('an upstream that did not answer is asked last for a while, and not waited for when another answers', async () => {
  await using silent = await startUpstream(silence);
  await using working = await startUpstream(saying('192.0.2.7'));
  const forwarder = forwarderOf([silent, working], shortMs);
  for (let n = 0; n < 3; n += 1) assert.equal(await ask(forwarder), '192.0.2.7');
  assert.deepEqual([silent.asked, working.asked], [1, 3]);
});

test('upstreams that were all away are asked at once the next time, and the first to answer is heard', async () => {
  const ports = await freePorts(3);
  const forwarder = forwarderOf(ports.map((port) => ({ address: loopback, port })));
  // Nobody listens there, and the kernel says so.
  await assert.rejects(() => ask(forwarder), isUnavailable);
  const first = Promise.withResolvers<Heard>();
  const [port = 0, ...others] = ports;
  await using one = await startUpstream(first.resolve, port);
  await using two = await startUpstream(silence, others[0]);
  // The first answers once the last was asked, which is not before the first has answered unless all are at once.
  await using three = await startUpstream(async () => (await first.promise).reply('192.0.2.1'), others[1]);
  assert.equal(await ask(forwarder), '192.0.2.1');
  assert.deepEqual([one.asked, two.asked, three.asked], [1, 1, 1]);
});

test('a question whose first datagram is lost is answered all the same', async () => {
  let heard = 0;
  await using upstream = await startUpstream(({ reply }) => {
    heard += 1;
    if (heard > 1) reply('192.0.2.7');
  });
  // The next one comes after a fifth of the time there is.
  assert.equal(await ask(forwarderOf([upstream], longMs / 12)), '192.0.2.7');
  assert.equal(upstream.asked, 1, 'it was asked anew, not again');
});

test('an upstream that refuses is passed over, unless no other says more', async () => {
  await using refusing = await startUpstream(saying(5));
  await using working = await startUpstream(saying('192.0.2.7'));
  assert.equal(await ask(forwarderOf([refusing, working])), '192.0.2.7');
  assert.equal(await ask(forwarderOf([refusing])), 5);
  await using missing = await startUpstream(saying(3));
  assert.equal(await ask(forwarderOf([missing, working])), 3, 'that a name does not exist is an answer');
});

test('when a thousand questions wait for upstreams the next one fails at once, and not for ever', async () => {
  const waiting = Promise.withResolvers<readonly Upstream[]>();
  const forwarder = new Forwarder({
    resolvers: () => waiting.promise,
    timeoutMs: longMs,
    signal: new AbortController().signal,
  });
  const many = Array.from({ length: 1_000 }, (_, n) => ask(forwarder, `10.0.0.${n % 10}`, `n${n}.example.com`));
  await assert.rejects(() => ask(forwarder, '10.0.0.10'), isUnavailable);
  await using working = await startUpstream(saying('192.0.2.7'));
  waiting.resolve([]);
  const ended = await Promise.allSettled(many);
  assert.ok(ended.every(({ status }) => status === 'rejected'));
  await assert.rejects(() => ask(forwarder), /the host has no other resolver/);
  assert.equal(await ask(forwarderOf([working])), '192.0.2.7');
});

test('a job whose questions nobody answers leaves the others room', async () => {
  await using upstream = await startUpstream(({ query, reply }) => {
    if (!query.includes('slow')) reply('192.0.2.7');
  });
  const stop = new AbortController();
  const forwarder = new Forwarder({ resolvers: async () => [upstream], timeoutMs: longMs, signal: stop.signal });
  const slow = Array.from({ length: 1_000 }, (_, n) => ask(forwarder, '10.0.0.2', `slow${n}.example.com`));
  const ended = Promise.allSettled(slow);
  await assert.rejects(() => ask(forwarder, '10.0.0.2'), /100 questions of 10\.0\.0\.2 wait/);
  assert.equal(await ask(forwarder, '10.0.0.3'), '192.0.2.7');
  stop.abort();
  assert.ok((await ended).every(({ status }) => status === 'rejected'));
  assert.equal(upstream.asked, 101);
});

test('the same question is asked once, whoever waits, and answered to each with their own id', async () => {
  const heard = Promise.withResolvers<Heard>();
  await using upstream = await startUpstream(heard.resolve);
  const forwarder = forwarderOf([upstream]);
  const askers = ['10.0.0.2', '10.0.0.3', '10.0.0.3'];
  const asked = askers.map((asker, id) => forwarder.ask(questionOf('example.com', id), { via: 'udp', asker }));
  (await heard.promise).reply('192.0.2.7');
  const answers = (await Promise.all(asked)).map((answer) => decode(answer));
  assert.deepEqual(
    answers.map(({ id }) => id),
    [0, 1, 2],
  );
  for (const { answers: [first] = [] } of answers) assert.equal(first?.type === 'A' && first.data, '192.0.2.7');
  assert.equal(upstream.asked, 1);
});
