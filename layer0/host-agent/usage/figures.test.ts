import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { raceAbort } from '@flynn/kit/retry';
import type { Container, Engine } from '../engine/engine.ts';
import { Figures } from './figures.ts';

const container = (id: string): Container => ({
  id,
  name: id,
  labels: {},
  state: 'running',
  imageId: 'i',
  tty: false,
  volumes: [],
  createdAtMs: 0,
  isOutOfMemory: false,
});

function figuresOf(lost: (signal: AbortSignal) => Promise<never>): Figures {
  const usage: Engine['usage'] = async (id, { signal = new AbortController().signal } = {}) =>
    id === 'lost' ? lost(signal) : { memoryBytes: 7, cpuNanoseconds: 0, pids: 1 };
  const all = [container('lost'), container('known')];
  const containers = { all: () => all, ofJob: (id: string) => all.find((one) => one.id === id) };
  return new Figures({ engine: { usage }, containers, meter: { useOf: () => undefined }, diskPath: '/' });
}

const ways: Record<string, (signal: AbortSignal) => Promise<never>> = {
  'is away': () => Promise.reject(new FlynnError('unavailable', 'the engine does not answer')),
  hangs: (signal) => raceAbort(new Promise<never>(() => undefined), signal),
};

for (const [what, lost] of Object.entries(ways)) {
  test(`while the engine ${what}, what is known without it is told of all jobs`, async () => {
    const { signal } = new AbortController();
    const uses = await figuresOf(lost).ofJobs(signal);
    assert.deepEqual(
      uses.map(({ jobId, memoryBytes }) => [jobId, memoryBytes]),
      [['known', 7]],
    );
  });
}

test('of one job it is told that the engine does not answer', async () => {
  const figures = figuresOf(ways['is away'] ?? assert.fail());
  await assert.rejects(figures.ofJob('lost', new AbortController().signal), (error) => hasCode(error, 'unavailable'));
});
