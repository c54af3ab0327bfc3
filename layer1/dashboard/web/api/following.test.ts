import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Failure } from './failure.ts';
import { follow, type Link, pause } from './following.ts';
import type { StreamEvent } from './streams.ts';

type Answer = readonly StreamEvent[] | Failure;

const event = (id: string, data: unknown = id): StreamEvent => ({ id, event: 'app', data });

/** Gives those answers one after the other; at the last one's end nobody looks any more. */
async function followed(answers: readonly Answer[], after?: string) {
  const ended = new AbortController();
  const asked: (string | undefined)[] = [];
  const told: unknown[] = [];
  const links: Link['is'][] = [];
  const waits: number[] = [];
  await follow({
    open: async (lastEventId) => {
      const answer = answers[asked.length];
      asked.push(lastEventId);
      if (answer instanceof Failure) throw answer;
      return (async function* () {
        yield* answer ?? [];
        if (asked.length >= answers.length) ended.abort();
      })();
    },
    after,
    onBegin: () => told.push('begin'),
    onEvent: ({ data }) => told.push(data),
    onLink: ({ is }) => links.push(is),
    signal: ended.signal,
    wait: async (ms) => void waits.push(ms),
  });
  return { asked, told, links, waits };
}

describe('following a stream', () => {
  it('goes on after the last event it has seen', async () => {
    const { asked, told, links } = await followed([[event('1'), event('2')], [event('3')]]);
    assert.deepEqual(asked, [undefined, '2']);
    assert.deepEqual(told, ['begin', '1', '2', '3']);
    assert.deepEqual(links, ['connecting', 'live', 'lost', 'live']);
  });

  it('goes on from where somebody followed it before', async () => {
    const { asked, told } = await followed([[event('8')]], '7');
    assert.deepEqual([asked, told], [['7'], ['8']]);
    const expired = new Failure('conflict', 'kept for half an hour', { expired: true });
    const anew = await followed([expired, [event('9')]], '7');
    assert.deepEqual(
      [anew.asked, anew.told],
      [
        ['7', undefined],
        ['begin', '9'],
      ],
    );
  });

  it('begins anew where what changed is not known any more, without a wait', async () => {
    const expired = new Failure('conflict', 'kept for half an hour', { expired: true });
    const { asked, told, waits } = await followed([[event('1')], expired, [event('9')]]);
    assert.deepEqual(asked, [undefined, '1', undefined]);
    assert.deepEqual(told, ['begin', '1', 'begin', '9']);
    assert.deepEqual(waits, [500]);
  });

  it('waits longer each time nothing comes about, and little again once something came', async () => {
    const away = new Failure('unavailable', 'nobody is there');
    const { waits, links } = await followed([away, away, away, [event('1')], []]);
    assert.deepEqual(waits, [500, 1_000, 2_000, 500]);
    assert.equal(links.filter((link) => link === 'lost').length, 4);
  });

  it('ends where it is refused', async () => {
    const { asked, links } = await followed([new Failure('not_found', 'it is gone'), [event('1')]]);
    assert.equal(asked.length, 1);
    assert.deepEqual(links, ['connecting', 'refused']);
  });

  it('ends after the last event there is', async () => {
    const told: unknown[] = [];
    await follow({
      open: async () =>
        (async function* () {
          yield event('1');
          yield { event: 'end', data: 'end' };
          assert.fail('it was read on');
        })(),
      onBegin: () => {},
      onEvent: ({ data }) => told.push(data),
      onLink: () => {},
      isLast: ({ event: name }) => name === 'end',
      signal: new AbortController().signal,
      wait: async () => assert.fail('it waited'),
    });
    assert.deepEqual(told, ['1', 'end']);
  });

  it('does not outlast whoever looks', async () => {
    const ended = new AbortController();
    const paused = pause(3_600_000, ended.signal);
    ended.abort();
    await paused;
    await pause(3_600_000, ended.signal);
  });
});
