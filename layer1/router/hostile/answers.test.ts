/** Mutated answers of a backend: a client gets none, or one that can be read in one way, and the next one is its own. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { drivers } from './drivers.ts';
import { nextMessage, randomFrom } from './mutate.ts';
import type { Seeds } from './mutate.ts';
import { leavesNothing, setUpWith } from './raw-backend.ts';
import { talk } from './talk.ts';
import { readAnswers } from './wire.ts';

const seed = 20_260_103;
const count = 1_000;
const host = 'Host: app.test\r\n';
const poison = 'HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison';
const next = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext';

const ordinary = [
  'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\r\n\r\nhello',
  'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;a=b\r\nworld!\r\n0\r\nX-Sum: 1\r\n\r\n',
  'HTTP/1.1 200 OK\r\n\r\nuntil the end',
  'HTTP/1.1 204 No Content\r\nX: y\r\n\r\n',
  'HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n',
  'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello',
  'HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello',
];
const answerSeeds: Seeds = {
  ordinary,
  all: [
    ...ordinary.map((answer) => answer + poison),
    `HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${poison}`,
    `HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 0\r\n\r\n${poison}`,
    `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n${poison}`,
    `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;\nhello\r\n0\r\n\r\n${poison}`,
    `HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n${poison}`,
    `HTTP/1.1 100 Continue\r\n\r\n${poison}`,
  ],
};

/** Why it is not what a client may get; undefined when all is well. */
function faultOf(heard: string, isClosed: boolean): string | undefined {
  const { answers, rest, problem } = readAnswers(heard, { isEnded: isClosed });
  if (problem !== undefined) return `the client got ${problem}`;
  if (!isClosed) return `it never ended; the client got ${JSON.stringify(heard)}`;
  if (answers.length > 2) return `${answers.length} answers to two requests`;
  if (answers.some(({ fields }) => fields.filter(([name]) => name === 'x-request-id').length !== 1)) {
    return 'an answer that the router never saw';
  }
  const [, second] = answers;
  // The connection that the backend was about to close may have been used once more.
  const isOwn = second?.body === 'next' || second?.fields.some(([name]) => name === 'x-flynn-error');
  if (second !== undefined && (!isOwn || rest !== '')) return `the next answer was ${second.body}, then ${rest}`;
  return undefined;
}

for (const { name: driver } of drivers) {
  test(`${driver}: of ${count} mutated answers none is taken for two, or for another's (seed ${seed})`, async (t) => {
    let answer = '';
    const world = await setUpWith(
      t,
      (socket, { head }) => {
        if (head.startsWith('POST /next')) socket.write(next);
        else socket.end(answer, 'latin1');
      },
      { driver },
    );
    const random = randomFrom(seed);
    const faults: { fault: string; answer: string }[] = [];
    let passedOn = 0;
    for (let n = 0; n < count; n += 1) {
      answer = nextMessage(random, answerSeeds);
      const asked = [
        `POST /strange HTTP/1.1\r\n${host}Content-Length: 1\r\n\r\n1`,
        `POST /next HTTP/1.1\r\n${host}Connection: close\r\nContent-Length: 1\r\n\r\n1`,
      ];
      const heard = await talk(world.port, [asked.join('')], { quietMs: 10_000 });
      const fault = faultOf(heard.answer, heard.isClosed);
      if (fault !== undefined) faults.push({ fault, answer });
      if (!heard.answer.startsWith('HTTP/1.1 502 ')) passedOn += 1;
    }
    assert.deepEqual(faults, []);
    assert.ok(passedOn > count / 10, `${passedOn} passed on`);
    await leavesNothing(world);
  });
}
