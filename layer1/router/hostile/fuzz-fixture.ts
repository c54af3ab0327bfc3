/** A fuzzer's run as a test: the same messages every time. */
import assert from 'node:assert/strict';
import type { Driver } from '../config.ts';
import { settled, setUp, track } from '../testing.ts';
import type { Owner } from '../testing.ts';
import { fuzz } from './fuzzer.ts';
import type { Judge } from './judge.ts';
import { Recorder } from './recorder.ts';

export async function fuzzed(
  t: Owner,
  options: { driver: Driver; judges: readonly Judge[]; seed: number; count: number },
): Promise<void> {
  const { driver, judges, seed, count } = options;
  const { plane, router, port } = await setUp(t, {}, driver);
  const recorder = new Recorder();
  const backend = await track(t, recorder.server);
  plane.up('web', backend.address);
  await settled(router, [backend.address]);
  const report = await fuzz({ subject: { port, recorder }, judges, seed, isOver: (messages) => messages >= count });
  assert.deepEqual(report.findings, []);
  // A run in which nothing gets through has tried nothing.
  assert.ok(report.passedOn > count / 20, `${report.passedOn} of ${count} passed on`);
}
