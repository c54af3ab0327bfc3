import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { ReadOptions } from '@flynn/log-aggregator/api';
import { logRecords } from './stream.ts';

const timeOf = (at: number): string => new Date(Date.UTC(2030, 0, 1, 0, 0, at)).toISOString();
const text = (at: number): string =>
  `${JSON.stringify({ jobId: 'j', hostId: 'h', processType: 'web', stream: 'stdout', timestamp: timeOf(at), message: `m${at}` })}\n`;

/** A connection: the lines, and then how it ends. */
function bodyOf(lines: readonly (number | string)[], end?: Error): Readable {
  async function* body() {
    for (const at of lines) yield Buffer.from(typeof at === 'string' ? `${at}\n` : text(at));
    if (end !== undefined) throw end;
  }
  return Readable.from(body());
}

const broken = new FlynnError('unavailable', 'it broke');

/** What is told over these connections, one after the other; the queries they were opened with. */
async function told(query: ReadOptions, connections: readonly (() => Readable)[], now = Date.parse(timeOf(86_400))) {
  const queries: ReadOptions[] = [];
  const messages: string[] = [];
  const gaps: [string, string][] = [];
  let losses = 0;
  let unreadable = 0;
  const open = async (wanted: ReadOptions) => {
    const connection = connections[queries.length];
    queries.push(wanted);
    if (connection === undefined) throw new FlynnError('not_found', 'there is no such app');
    return connection();
  };
  const { signal } = new AbortController();
  const onLost = () => (losses += 1);
  const onGap = (from: string, to: string) => gaps.push([from, to]);
  const onUnreadable = () => (unreadable += 1);
  // What waits to try again waits no time.
  const clock = { now: () => now, sleep: () => Promise.resolve() };
  const records = logRecords(open, query, { signal, onLost, onGap, onUnreadable, clock });
  for await (const { line } of records) messages.push(line.message);
  return { queries, messages, losses, gaps, unreadable };
}

test('following goes on over a connection that breaks or ends, and tells each line once, until the app is gone', async () => {
  const refuse = () => {
    throw broken;
  };
  const { queries, messages, losses, gaps } = await told({ follow: true, lines: 5 }, [
    () => bodyOf([1, 100], broken),
    refuse,
    () => bodyOf([90, 100, 101]),
  ]);
  assert.deepEqual(messages, ['m1', 'm100', 'm90', 'm101']);
  assert.equal(losses, 2);
  assert.deepEqual(gaps, []);
  assert.deepEqual(queries.slice(0, 3), [
    { follow: true, lines: 5 },
    { follow: true, lines: 10_000, since: timeOf(40) },
    { follow: true, lines: 10_000, since: timeOf(40) },
  ]);
});

test('what was logged meanwhile and is not told, for it is more than is kept or given at once, is a gap', async () => {
  const { messages, gaps } = await told({ follow: true }, [
    () => bodyOf([1, 100], broken),
    () => bodyOf([95, 300, 301], broken),
    () => bodyOf([301, 302]),
  ]);
  assert.deepEqual(messages, ['m1', 'm100', 'm95', 'm300', 'm301', 'm302']);
  assert.deepEqual(gaps, [[timeOf(100), timeOf(300)]]);
  assert.deepEqual((await told({ follow: true }, [() => bodyOf([], broken), () => bodyOf([7])])).gaps, []);
});

test('following again tells nothing from before what was asked for: not before the time, nor older than the newest so many', async () => {
  const since = timeOf(90);
  const ofTime = await told({ follow: true, since }, [() => bodyOf([100], broken), () => bodyOf([100, 101])]);
  assert.deepEqual(ofTime.queries[1], { follow: true, since, lines: 10_000 });
  const ofCount = await told({ follow: true, lines: 2 }, [
    () => bodyOf([98, 99, 100], broken),
    () => bodyOf([99, 100, 101]),
  ]);
  assert.deepEqual(ofCount.queries[1], { follow: true, lines: 10_000, since: timeOf(98) });
  assert.deepEqual(ofCount.messages, ['m98', 'm99', 'm100', 'm101']);
  const unsaid = Array.from({ length: 100 }, (_, at) => 900 + at);
  const { queries } = await told({ follow: true }, [() => bodyOf([...unsaid, 1_000], broken)]);
  assert.deepEqual(queries[1], { follow: true, lines: 10_000, since: timeOf(940) });
});

test('what came while nobody listened is told, also to who had no line yet, and asked for none of those kept', async () => {
  const nothing = () => bodyOf([], broken);
  const ofAll = await told({ follow: true, lines: 5 }, [nothing, () => bodyOf([1, 2])]);
  assert.deepEqual(ofAll.queries[1], { follow: true, lines: 10_000 });
  const begun = Date.parse(timeOf(500));
  const ofNone = await told({ follow: true, lines: 0 }, [nothing, () => bodyOf([501], broken)], begun);
  assert.deepEqual(ofNone.queries.slice(1, 3), [
    { follow: true, lines: 10_000, since: timeOf(500) },
    { follow: true, lines: 10_000, since: timeOf(500) },
  ]);
  assert.deepEqual(ofNone.messages, ['m501']);
});

test('a line of a clock that was ahead keeps nobody from hearing what comes after it', async () => {
  const now = Date.parse(timeOf(200));
  const { queries, messages, gaps } = await told(
    { follow: true },
    [() => bodyOf([199, 3_600, 200], broken), () => bodyOf([200, 201])],
    now,
  );
  assert.equal(queries[1]?.since, timeOf(140));
  assert.deepEqual(messages, ['m199', 'm3600', 'm200', 'm201']);
  assert.deepEqual(gaps, []);
});

test('a connection that says nothing, not even that it is alive, is opened again', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const mute = () => new Readable({ read() {} });
  const opened: string[] = [];
  const again = () => {
    opened.push('again');
    return bodyOf([1]);
  };
  const following = told({ follow: true }, [mute, again]);
  while (opened.length === 0) {
    t.mock.timers.tick(1_000);
    await new Promise(setImmediate);
  }
  t.mock.timers.reset();
  assert.deepEqual((await following).messages, ['m1']);
});

test('without following, too, a connection that says nothing more ends, and that is told', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const ends: unknown[] = [];
  const ended = told({}, [() => new Readable({ read() {} })]).catch((error: unknown) => void ends.push(error));
  for (let seconds = 0; seconds < 120 && ends.length === 0; seconds += 1) {
    t.mock.timers.tick(1_000);
    await new Promise(setImmediate);
  }
  assert.ok(hasCode(ends[0], 'unavailable'));
  await ended;
});

test('without following one connection is all, and how it breaks is told', async () => {
  const { messages, queries } = await told({}, [() => bodyOf([1, 2])]);
  assert.deepEqual([messages, queries.length], [['m1', 'm2'], 1]);
  await assert.rejects(told({}, [() => bodyOf([1], broken)]), (error) => hasCode(error, 'unavailable'));
});

test('what does not pass is told also while following', async () => {
  const refused = new FlynnError('denied', 'no');
  await assert.rejects(told({ follow: true }, [() => bodyOf([1], refused)]), (error) => hasCode(error, 'denied'));
  await assert.rejects(told({ follow: true }, []), (error) => hasCode(error, 'not_found'));
});

test('a line that a disk damaged is left out and told once, and those behind it are there', async () => {
  const torn = 'longer than the one before"}';
  for (const follow of [false, true]) {
    const { messages, unreadable } = await told({ follow }, [
      () => bodyOf([1, torn, '{"jobId":"j"}', 2]),
      () => bodyOf([1, torn, '{"jobId":"j"}', 2, 3]),
    ]);
    assert.deepEqual(messages, follow ? ['m1', 'm2', 'm3'] : ['m1', 'm2']);
    assert.equal(unreadable, 2);
  }
});
