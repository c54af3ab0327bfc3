import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Message } from './message.ts';
import { answered, emptyQueue, enqueue, isLost, maxWaiting, nextOf, withoutExpired } from './queue.ts';
import type { Queue } from './queue.ts';

const start = Date.parse('2026-06-01T12:00:00Z');
const hourMs = 3_600_000;

function message(id: string, about = id, type: Message['type'] = 'finding.began'): Message {
  return {
    id,
    type,
    about,
    at: new Date(start).toISOString(),
    severity: 'critical',
    subject: { kind: 'host', name: 'h1' },
    title: `title of ${id}`,
    text: 't',
  };
}
const waitingIn = ({ waiting }: Queue) => waiting.map(({ id }) => id);
const outcomesIn = ({ log }: Queue) => log.map(({ id, outcome }) => `${id} ${outcome}`);
const put = (queue: Queue, ...all: Message[]) => all.reduce((into, one) => enqueue(into, one, start), queue);

test('messages wait in their order, each once, and the log tells what the receiver said', () => {
  const queue = put(emptyQueue, message('a'), message('b'));
  assert.equal(enqueue(queue, message('a'), start), queue);
  const after = answered(queue, message('a'), { status: 204, text: '' }, start, 0);
  assert.deepEqual([waitingIn(after), outcomesIn(after)], [['b'], ['a delivered']]);
  assert.equal(enqueue(after, message('a'), start), after, 'what was delivered is not sent again');
});

test('a receiver that takes nothing is tried at growing distances, as it asks for, and for a day', () => {
  let queue = put(emptyQueue, message('a'));
  const pauses: number[] = [];
  for (let count = 0; count < 7; count += 1) {
    queue = answered(queue, message('a'), { status: 503, text: 'busy' }, start, 0);
    pauses.push((nextOf(queue, start)?.inMs ?? 0) / 1_000);
  }
  assert.deepEqual(pauses, [5, 15, 45, 135, 405, 1215, 1800]);
  assert.equal(queue.failing?.answer, '503 busy');
  const asked = answered(
    put(emptyQueue, message('a')),
    message('a'),
    { status: 429, text: '', retryAfterMs: 60_000 },
    start,
    0,
  );
  assert.equal(nextOf(asked, start)?.inMs, 60_000);
  assert.equal(withoutExpired(queue, start + 23 * hourMs), queue);
  const late = withoutExpired(queue, start + 24 * hourMs);
  assert.deepEqual([waitingIn(late), outcomesIn(late), late.lost?.count], [[], ['a expired'], 1]);
  assert.deepEqual([late.log[0]?.attempts, late.log[0]?.answer], [7, '503 busy']);
  assert.ok(isLost(late, start + 30 * hourMs) && !isLost(late, start + 49 * hourMs));
  const well = answered(put(late, message('b')), message('b'), { status: 200, text: 'ok' }, start, 0);
  assert.deepEqual([well.failing, well.lost], [undefined, undefined], 'it is well again');
});

test('an answer that will be the same later gives up that message alone', () => {
  const queue = answered(
    put(emptyQueue, message('a'), message('b')),
    message('a'),
    { status: 400, text: 'no' },
    start,
    0,
  );
  assert.deepEqual([waitingIn(queue), outcomesIn(queue), queue.failing], [['b'], ['a refused'], undefined]);
});

test('the newest state wins: a message takes the place of one about the same that nobody has yet', () => {
  const began = message('a1', 'disk');
  const queue = put(emptyQueue, began, message('b'), message('a2', 'disk', 'finding.ended'));
  assert.deepEqual([waitingIn(queue), outcomesIn(queue), queue.lost], [['b', 'a2'], ['a1 overtaken'], undefined]);
  const crossed = answered(queue, began, { status: 200, text: '' }, start, 0);
  assert.deepEqual(waitingIn(crossed), ['b', 'a2'], 'what was on its way when it was overtaken ends nothing else');
});

test('of more than are of use the oldest are dropped, and that is told', () => {
  const many = Array.from({ length: maxWaiting + 3 }, (_, at) => message(`m${at}`));
  const queue = put(emptyQueue, ...many);
  assert.deepEqual([queue.waiting.length, waitingIn(queue)[0]], [maxWaiting, 'm3']);
  assert.deepEqual([queue.lost?.count, outcomesIn(queue)], [3, ['m2 dropped', 'm1 dropped', 'm0 dropped']]);
});

test('a heartbeat that is late is of no use, and no loss; the log has the last one alone', () => {
  const beat = (id: string) => message(id, 'heartbeat', 'heartbeat');
  let queue = enqueue(put(emptyQueue, message('a')), beat('h1'), start, 60_000);
  queue = withoutExpired(queue, start + 60_000);
  assert.deepEqual([waitingIn(queue), queue.lost], [['a'], undefined]);
  for (const id of ['h2', 'h3'])
    queue = answered(enqueue(queue, beat(id), start), beat(id), { status: 200, text: '' }, start, 0);
  assert.deepEqual(outcomesIn(queue), ['h3 delivered']);
});
