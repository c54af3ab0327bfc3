import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Line } from '@flynn/log-aggregator/api';
import { Failure } from '../api/failure.ts';
import type { Link } from '../api/following.ts';
import { followLog, gapCommand, type LogItem, type LogQuery, logUrl } from './log-following.ts';

const line = (second: number, message = `line ${second}`): Line => ({
  jobId: 'j1',
  hostId: 'h1',
  processType: 'web',
  stream: 'stdout',
  timestamp: `2030-01-31T12:00:${String(second).padStart(2, '0')}.000Z`,
  message,
});

type Answer = readonly (Line | string)[] | Failure;

async function followed(answers: readonly Answer[], query: LogQuery = { app: 'shop' }) {
  const ended = new AbortController();
  const asked: URL[] = [];
  const items: LogItem[] = [];
  const links: Link['is'][] = [];
  await followLog(query, {
    open: async (url) => {
      const answer = answers[asked.length];
      asked.push(new URL(url, 'http://flynn'));
      if (answer instanceof Failure) throw answer;
      return (async function* () {
        for (const one of answer ?? []) yield typeof one === 'string' ? one : JSON.stringify(one);
        if (asked.length >= answers.length) ended.abort();
      })();
    },
    onItem: (item) => items.push(item),
    onLink: ({ is }) => links.push(is),
    signal: ended.signal,
    wait: async () => {},
    now: () => Date.parse('2030-01-31T12:00:50Z'),
  });
  const told = items.map((item) =>
    item.is === 'line'
      ? item.line.message
      : item.is === 'gap'
        ? `gap ${item.from.slice(17, 19)}-${item.to.slice(17, 19)}`
        : item.is,
  );
  return { asked, told, links };
}

describe('following a log', () => {
  it('tells each line once where the connection broke', async () => {
    const { asked, told } = await followed([
      [line(1), line(2)],
      [line(1), line(2), line(3)],
    ]);
    assert.deepEqual(told, ['line 1', 'line 2', 'line 3']);
    assert.equal(asked[0]?.searchParams.get('lines'), '500');
    assert.equal(asked[1]?.searchParams.get('since'), '2030-01-31T11:59:02.000Z');
  });

  it('asks for what comes now after a line of a clock that was ahead', async () => {
    const ahead = { ...line(3, 'ahead'), timestamp: '2030-01-31T14:00:00.000Z' };
    const { asked, told } = await followed([
      [line(1), ahead, line(2)],
      [line(2), line(4)],
    ]);
    assert.equal(asked[1]?.searchParams.get('since'), '2030-01-31T11:59:50.000Z');
    assert.deepEqual(told, ['line 1', 'ahead', 'line 2', 'line 4']);
  });

  it('tells none of the older lines that were left out at first', async () => {
    const first = Array.from({ length: 500 }, (_, at) => line(Math.floor(at / 25) + 30, `line ${at}`));
    const { asked } = await followed([first, [line(49)]]);
    assert.equal(asked[1]?.searchParams.get('since'), '2030-01-31T12:00:30.000Z');
  });

  it('tells a gap where what is kept does not reach back', async () => {
    const { told } = await followed([[line(1)], [line(40), line(41)]]);
    assert.deepEqual(told, ['line 1', 'gap 01-40', 'line 40', 'line 41']);
  });

  it('gets past a line that a disk damaged', async () => {
    const torn = 'longer than the one before"}';
    const { told, links } = await followed([
      [line(1), torn, 'null', line(2)],
      [line(1), torn, 'null', line(2), line(3)],
    ]);
    assert.deepEqual(told, ['line 1', 'unreadable', 'unreadable', 'line 2', 'line 3']);
    assert.ok(!links.includes('refused'));
  });

  it('comes back from a cluster that was away, and ends where it is refused', async () => {
    const away = new Failure('unavailable', 'no log aggregator is running');
    assert.deepEqual((await followed([[line(1)], away, [line(1), line(2)]])).told, ['line 1', 'line 2']);
    const { links, asked } = await followed([new Failure('not_found', 'it is gone'), [line(1)]]);
    assert.deepEqual([links, asked.length], [['connecting', 'refused'], 1]);
  });

  it('is narrowed by the cluster', () => {
    const url = new URL(logUrl({ app: 'shop', type: 'web', job: 'j1', search: 'a&b' }, { lines: 5 }), 'http://flynn');
    assert.equal(url.pathname, '/api/apps/shop/log');
    assert.deepEqual(Object.fromEntries(url.searchParams), {
      follow: 'true',
      processType: 'web',
      jobId: 'j1',
      search: 'a&b',
      lines: '5',
    });
  });

  it('says which command reads what is missing', () => {
    const gap = { from: '2030-01-31T12:00:00Z', to: '2030-01-31T12:01:00Z' };
    assert.equal(
      gapCommand(gap, { app: 'shop', search: "it's" }),
      String.raw`flynn log -a shop --search 'it'\''s' --since 2030-01-31T12:00:00Z --until 2030-01-31T12:01:00Z`,
    );
  });
});
