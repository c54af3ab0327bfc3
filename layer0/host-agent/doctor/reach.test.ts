import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Neighbour } from '../network/neighbours.ts';
import { ReachCheck } from './reach.ts';

const { signal } = new AbortController();

test('a host none of whose containers answers for a minute is named, until one does, or none is announced there', async () => {
  let now = 0;
  let neighbours: Neighbour[] = [
    { hostId: 'k2', addresses: ['100.100.2.2', '100.100.2.3'] },
    { hostId: 'k3', addresses: ['100.100.3.2', '100.100.3.3'] },
    { hostId: 'k4', addresses: [] },
  ];
  const answering = new Set(['100.100.3.3']);
  const asked: string[] = [];
  const check = new ReachCheck({
    neighbours: () => neighbours,
    reach: async ({ address }) => {
      asked.push(address);
      return answering.has(address);
    },
    nowMs: () => now,
  });
  const found = async (): Promise<string[]> => (await check.find('host k1', signal)).map(({ what }) => what);
  assert.deepEqual(await found(), []);
  assert.deepEqual(asked.toSorted(), ['100.100.2.2', '100.100.2.3', '100.100.3.2', '100.100.3.3']);
  now = 20_000;
  assert.deepEqual(await found(), []);
  assert.equal(asked.length, 4, 'whoever asks often has it looked at no more often');
  now = 60_000;
  const [told, ...more] = await found();
  assert.match(told ?? '', /does not reach the containers of the host k2, such as 100\.100\.2\.2/);
  assert.deepEqual(more, []);
  answering.add('100.100.2.3');
  now = 90_000;
  assert.deepEqual(await found(), []);
  answering.clear();
  for (now of [120_000, 180_000]) await found();
  assert.equal((await found()).length, 2);
  neighbours = [];
  now = 210_000;
  assert.deepEqual(await found(), []);
});

test('of many hosts each has its turn', async () => {
  let now = 0;
  const asked = new Set<string>();
  const neighbours = Array.from({ length: 40 }, (_, at) => ({ hostId: `k${at}`, addresses: [`100.100.${at}.2`] }));
  const reach = async ({ address }: { address: string }): Promise<boolean> => {
    asked.add(address);
    return true;
  };
  const check = new ReachCheck({ neighbours: () => neighbours, reach, nowMs: () => now });
  const counts: number[] = [];
  for (; now < 90_000; now += 30_000) {
    await check.find('host k', signal);
    counts.push(asked.size);
  }
  assert.deepEqual(counts, [16, 32, 40]);
});
