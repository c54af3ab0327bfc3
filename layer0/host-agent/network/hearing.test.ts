import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Hearing, hear } from './hearing.ts';
import { Reach } from './reach.ts';
import type { WireguardPeer } from './wireguard.ts';

/** What was heard of one peer at each second. */
function after(words: readonly [second: number, received: number][], before: Hearing = new Map()): Hearing {
  return words.reduce((known, [second, received]) => hear(known, new Map([['k', received]]), second * 1_000), before);
}
const isLost = (hearing: Hearing): boolean | undefined => hearing.get('k')?.isLost;

test('who was just met is not lost, nor who says a word every 20 s, nor who missed two of them', () => {
  assert.equal(isLost(after([[0, 0]])), false);
  const words = [0, 20, 40, 100, 120].map((second): [number, number] => [second, second]);
  assert.equal(isLost(after(words)), false);
  assert.equal(isLost(after([...words, [180, 120]])), false);
});

test('who is silent for longer is lost, until it has been heard for a minute without a gap', () => {
  const lost = after([
    [0, 7],
    [66, 7],
  ]);
  assert.equal(isLost(lost), true);
  const again: [number, number][] = [100, 120, 140].map((second) => [second, second]);
  assert.equal(isLost(after(again, lost)), true);
  assert.equal(isLost(after([...again, [161, 161]], lost)), false);
  // It came, went, and came: the minute begins anew.
  assert.equal(isLost(after([...again, [230, 230], [250, 250]], lost)), true);
});

test('a device that was made anew counts from nothing, which is no word; while there is none, nothing is forgotten', () => {
  const known = after([
    [0, 500],
    [66, 500],
  ]);
  assert.equal(isLost(after([[70, 0]], known)), true);
  assert.equal(hear(known, new Map(), 80_000), known);
  assert.equal(isLost(after([[70, 0]])), false);
});

const peer = (hostId: string, more: Partial<WireguardPeer> = {}): WireguardPeer => ({
  hostId,
  key: hostId,
  keepaliveSeconds: 20,
  subnets: [],
  ...more,
});

test('a host is told as out of reach with what to do, once that has lasted', () => {
  const reach = new Reach();
  const wireguard = {
    device: 'flwg7117-1',
    port: 1117,
    key: 'own',
    keyFile: '',
    mtu: 1420,
    peers: [peer('h2', { endpoint: '192.0.2.3:1117' }), peer('h3'), peer('idle', { keepaliveSeconds: 0 })],
  };
  const unreachable = [{ hostId: 'h4', why: 'it has no key' }];
  const at = (minutes: number, received: number) => {
    const counts = [
      ['h2', 1],
      ['h3', received],
      ['idle', 0],
    ] as const;
    const lost = reach.hear(new Map(counts), minutes * 60_000);
    reach.follow({ wireguard, unreachable }, minutes * 60_000);
    return lost;
  };
  at(0, 1);
  assert.deepEqual(reach.problems(59_000), []);
  assert.deepEqual(reach.problems(61_000), ['the containers of host h4 are not reached: it has no key']);
  assert.deepEqual(at(2, 2), ['h2']);
  assert.deepEqual(at(3, 3), []);
  assert.deepEqual(
    reach.lost.map(({ hostId }) => hostId),
    ['h2'],
  );
  at(5.5, 4);
  const [, silent, ...more] = reach.problems(5.5 * 60_000);
  assert.match(silent ?? '', /nothing has come from host h2 .*let UDP in at 192\.0\.2\.3:1117/);
  assert.deepEqual(more, []);
  reach.follow({ unreachable: [] }, 6 * 60_000);
  assert.deepEqual(reach.problems(9 * 60_000), []);
});
