import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Message } from './message.ts';
import {
  anew,
  answered,
  emptyQueue,
  enqueue,
  enqueueBeat,
  isLost,
  maxWaiting,
  nextOf,
  roomIn,
  withoutExpired,
  withTest,
} from './queue.ts';
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
  assert.deepEqual([well.failing, well.lost?.count], [undefined, 1], 'it takes messages again, and never got that one');
});

test('what was lost stays told though the next is accepted; a test that is accepted ends it, or another address', () => {
  const refused = answered(put(emptyQueue, message('a')), message('a'), { status: 400, text: 'no' }, start, 0);
  const next = answered(put(refused, message('b')), message('b'), { status: 200, text: '' }, start, 0);
  assert.ok(isLost(next, start));
  const gone = withoutExpired(
    answered(put(emptyQueue, message('a')), message('a'), { status: 500, text: 'no' }, start, 0),
    start + 24 * hourMs,
  );
  assert.deepEqual([gone.failing?.answer, gone.lost?.count], ['500 no', 1]);
  assert.deepEqual(withTest(gone, message('t'), { status: 500, text: '' }, start).failing, gone.failing);
  for (const well of [withTest(gone, message('t'), { status: 200, text: '' }, start), anew(gone)]) {
    assert.deepEqual([well.failing, well.lost], [undefined, undefined]);
  }
});

test('a message that is refused again and again lets the others go first', () => {
  let queue = put(emptyQueue, message('bad'), message('b'), message('c'));
  const sent: string[] = [];
  for (let now = start; queue.waiting.length > 1; now += hourMs / 2) {
    const next = nextOf(queue, now);
    assert.ok(next !== undefined && next.inMs === 0 && sent.length < 10, 'the others wait for it');
    sent.push(next.message.id);
    queue = answered(queue, next.message, { status: next.message.id === 'bad' ? 500 : 200, text: '' }, now, 0);
  }
  assert.deepEqual([sent, waitingIn(queue)], [['bad', 'bad', 'bad', 'bad', 'b', 'c'], ['bad']]);
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

test('of more than are of use the least grave go, of those the oldest, and one message in their place tells how many', () => {
  const many = (mark: string) =>
    Array.from({ length: maxWaiting + 3 }, (_, at): Message => {
      return { ...message(`${mark}${at}`), severity: at < 10 ? 'critical' : at === 20 ? 'info' : 'warning' };
    });
  const queue = put(emptyQueue, ...many('m'));
  const kept = waitingIn(queue);
  assert.deepEqual([kept.length, kept[0], kept.includes('m9')], [maxWaiting, 'm0', true]);
  assert.deepEqual(
    [queue.lost?.count, outcomesIn(queue).filter((line) => line.endsWith('dropped'))],
    [4, ['m12 dropped', 'm11 dropped', 'm10 dropped', 'm20 dropped']],
  );
  const last = queue.waiting.at(-1);
  assert.deepEqual([last?.type, last?.title], ['notification.dropped', '4 more than are sent one by one']);
  const told = queue.waiting.reduce((left, one) => answered(left, one, { status: 200, text: '' }, start, 0), queue);
  assert.deepEqual(told.waiting, []);
  const again = put(told, ...many('n'));
  assert.equal(again.waiting.at(-1)?.stands, 4, 'what was told of is not told again');
  assert.notEqual(again.waiting.at(-1)?.id, last?.id);
});

test('a receiver that keeps up is waited for, one that does not is not', () => {
  const queue = put(emptyQueue, message('a'), message('b'));
  assert.equal(roomIn(queue, start), maxWaiting - 2);
  assert.equal(roomIn(queue, start + hourMs), undefined);
  assert.equal(roomIn(answered(queue, message('a'), { status: 500, text: '' }, start, 0), start), undefined);
});

const beat = (id: string) => message(id, 'heartbeat', 'heartbeat');

test('a heartbeat that is late is of no use, and no loss; the log has the last one alone', () => {
  let queue = enqueueBeat(put(emptyQueue, message('a')), beat('h1'), start, 60_000);
  queue = withoutExpired(queue, start + 60_000);
  assert.deepEqual([queue.beat, waitingIn(queue), queue.lost], [undefined, ['a'], undefined]);
  for (const id of ['h2', 'h3'])
    queue = answered(enqueueBeat(queue, beat(id), start, 60_000), beat(id), { status: 200, text: '' }, start, 0);
  assert.deepEqual([queue.beat, outcomesIn(queue)], [undefined, ['h3 delivered']]);
});

test('a heartbeat is tried when it is due, however long the receiver was away and whatever waits before it', () => {
  let queue = put(emptyQueue, message('a'));
  for (let tries = 0; tries < 8; tries += 1) {
    queue = answered(queue, message('a'), { status: 503, text: 'busy' }, start, 0);
  }
  assert.equal(nextOf(queue, start)?.inMs, hourMs / 2);
  queue = enqueueBeat(queue, beat('h1'), start, 5 * 60_000);
  assert.deepEqual([nextOf(queue, start)?.message.id, nextOf(queue, start)?.inMs], ['h1', 0]);
  const { failing } = queue;
  const pauses: number[] = [];
  for (let tries = 0; tries < 5; tries += 1) {
    queue = answered(queue, beat('h1'), { status: 404, text: 'none' }, start, 0);
    pauses.push((nextOf(queue, start)?.inMs ?? 0) / 1_000);
  }
  assert.deepEqual([pauses, queue.failing], [[5, 15, 45, 60, 60], { ...failing, answer: '404 none' }]);
  queue = enqueueBeat(queue, beat('h2'), start, 5 * 60_000);
  assert.equal(nextOf(queue, start)?.inMs, 0, 'the next is tried when it is due');
  const crossed = answered(queue, beat('h1'), { status: 200, text: '' }, start, 0);
  assert.equal(crossed.beat?.id, 'h2', 'one that was on its way ends no other');
  queue = answered(queue, beat('h2'), { status: 200, text: '' }, start, 0);
  assert.deepEqual([nextOf(queue, start)?.message.id, nextOf(queue, start)?.inMs], ['a', 0], 'it is there again');
});

test('what was put off by a clock that was ahead is tried at once by the right one; a heartbeat waits an hour at most', () => {
  const busy = { status: 503, text: 'busy' };
  const ahead = start + 6 * hourMs;
  const queue = answered(put(emptyQueue, message('a')), message('a'), busy, ahead, 0);
  assert.equal(nextOf(queue, start)?.inMs, 0);
  assert.equal(nextOf(queue, ahead)?.inMs, 5_000);
  const beaten = answered(enqueueBeat(emptyQueue, beat('h1'), ahead, hourMs), beat('h1'), busy, ahead, 0);
  assert.equal(nextOf(beaten, start)?.inMs, 0);
  const asking = { ...busy, retryAfterMs: 9 * hourMs };
  const asked = answered(enqueueBeat(emptyQueue, beat('h1'), start, hourMs), beat('h1'), asking, start, 0);
  assert.equal(nextOf(asked, start)?.inMs, hourMs);
});

test('a receiver that never takes a heartbeat is known to take none', () => {
  const queue = answered(
    enqueueBeat(emptyQueue, beat('h1'), start, 60_000),
    beat('h1'),
    { status: 400, text: 'no' },
    start,
    0,
  );
  const late = withoutExpired(queue, start + 60_000);
  assert.deepEqual([late.failing?.answer, late.failing?.since], ['400 no', new Date(start).toISOString()]);
  const well = answered(enqueueBeat(late, beat('h2'), start, 60_000), beat('h2'), { status: 200, text: '' }, start, 0);
  assert.equal(well.failing, undefined);
});
