import assert from 'node:assert/strict';
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { freePorts } from '@flynn/kit/testing-ports';
import { EtcdGateway, type GatewayCall } from './etcd-gateway.ts';

type Answer = (response: ServerResponse, request: IncomingMessage) => void;

/** Answers as it is told to; `asked` counts. */
class Member implements AsyncDisposable {
  asked = 0;
  answer: Answer;
  readonly #server = createServer((request, response) => {
    this.asked += 1;
    this.answer(response, request);
  });

  constructor(answer: Answer) {
    this.answer = answer;
  }

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => void this.#server.listen(0, '127.0.0.1', resolve));
    const address = this.#server.address();
    assert.ok(typeof address === 'object' && address !== null);
    return `http://127.0.0.1:${address.port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise<void>((resolve) => void this.#server.close(() => resolve()));
    this.#server.closeAllConnections();
    await closed;
  }
}

const answers: (word: string) => Answer = (word) => (response) => response.end(word);
const silence: Answer = () => undefined;
const hangsUp: Answer = (_response, request) => request.socket.destroy();
const unavailable: Answer = (response) => response.writeHead(503).end('no leader');

const signal = new AbortController().signal;
const call = (more: Partial<GatewayCall>): GatewayCall => ({
  path: '/v3/kv/range',
  body: { key: 'YQ==' },
  isRepeatable: true,
  signal,
  ...more,
});

async function cluster(first: Answer, second: Answer, timeoutMs = 3_000) {
  const members = [new Member(first), new Member(second)] as const;
  const endpoints = [await members[0].listen(), await members[1].listen()];
  const gateway = new EtcdGateway({ endpoints: () => endpoints, timeoutMs });
  const ask = async (more: Partial<GatewayCall> = {}) => {
    const { status, body } = await gateway.ask(call(more));
    return [status, await text(body)] as const;
  };
  return {
    members,
    gateway,
    ask,
    async [Symbol.asyncDispose]() {
      gateway[Symbol.dispose]();
      for (const member of members) await member[Symbol.asyncDispose]();
    },
  };
}

test('a request goes as JSON, to a member that is to have a leader, and its answer comes as it is', async () => {
  await using it = await cluster((response, request) => {
    const { method, url, headers } = request;
    void text(request).then((body) => {
      const told = [method, url, headers['content-type'], headers['grpc-metadata-hasleader'], body];
      response.writeHead(404).end(JSON.stringify(told));
    });
  }, silence);
  const [status, said] = await it.ask();
  assert.equal(status, 404);
  assert.deepEqual(JSON.parse(said), ['POST', '/v3/kv/range', 'application/json', 'true', '{"key":"YQ=="}']);
});

for (const [what, fault] of Object.entries({
  'says nothing': silence,
  'hangs up': hangsUp,
  'has no leader': unavailable,
})) {
  test(`where a member ${what} the next is asked what may be asked twice, and asked first from then on`, async () => {
    await using it = await cluster(fault, answers('two'), 400);
    assert.deepEqual(await it.ask(), [200, 'two']);
    assert.deepEqual(await it.ask(), [200, 'two']);
    assert.equal(it.members[0].asked, 1);
  });

  test(`what may not be done twice is done by nobody else where a member ${what}, and the next request is another's`, async () => {
    await using it = await cluster(fault, answers('two'), 400);
    const write = it.ask({ isRepeatable: false });
    if (fault === unavailable) assert.deepEqual(await write, [503, 'no leader']);
    else await assert.rejects(write, (error) => hasCode(error, 'unavailable'));
    assert.equal(it.members[1].asked, 0);
    assert.deepEqual(await it.ask({ isRepeatable: false }), [200, 'two']);
  });
}

test('what was certainly never sent is sent to the next member, whatever it is', async () => {
  await using two = new Member(answers('two'));
  const [closed] = await freePorts(1);
  const endpoints = [`http://127.0.0.1:${closed}`, await two.listen()];
  using gateway = new EtcdGateway({ endpoints: () => endpoints });
  const { body } = await gateway.ask(call({ isRepeatable: false }));
  assert.equal(await text(body), 'two');
});

test('where no member has a leader that is the answer; where none answers it is told', async () => {
  await using leaderless = await cluster(unavailable, unavailable);
  assert.deepEqual(await leaderless.ask(), [503, 'no leader']);
  await using gone = await cluster(hangsUp, hangsUp);
  await assert.rejects(gone.ask(), (error) => hasCode(error, 'unavailable'));
});

test('a watch breaks once its member is silent while another answers, and not before', async () => {
  const begins: Answer = (response) => void response.writeHead(200).write('begun');
  await using it = await cluster(begins, answers('two'), 400);
  const { body } = await it.gateway.ask(call({ path: '/v3/watch', isLasting: true }));
  const broken = assert.rejects(text(body));
  it.members[0].answer = silence;
  await assert.rejects(it.ask({ isRepeatable: false }), (error) => hasCode(error, 'unavailable'));
  assert.equal(body.destroyed, false, 'nobody is better yet');
  assert.deepEqual(await it.ask(), [200, 'two']);
  await broken;
});

test('whoever asked leaves, and so does the request, answered or not', async () => {
  await using it = await cluster(silence, silence);
  const leaving = new AbortController();
  const asked = it.ask({ signal: leaving.signal });
  leaving.abort(new FlynnError('cancelled', 'the client has gone'));
  await assert.rejects(asked, (error) => hasCode(error, 'cancelled'));
  assert.equal(it.members[1].asked, 0);

  it.members[0].answer = (response) => void response.writeHead(200).write('begun');
  const again = new AbortController();
  const { body } = await it.gateway.ask(call({ signal: again.signal, isLasting: true }));
  again.abort(new FlynnError('cancelled', 'the client has gone'));
  await assert.rejects(text(body));
});
