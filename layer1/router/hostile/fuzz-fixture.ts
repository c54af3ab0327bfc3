/** A fuzzer's run as a test: the same messages every time. */
import assert from 'node:assert/strict';
import { waitFor } from '@flynn/kit/retry';
import type { Driver } from '../config.ts';
import { settled, setUp, track } from '../testing.ts';
import type { Owner } from '../testing.ts';
import { fuzz } from './fuzzer.ts';
import type { Subject } from './fuzzer.ts';
import type { Judge } from './judge.ts';
import { Recorder } from './recorder.ts';

/** For which hosts the router has a route: for one, or for whatever host a message asks for, and for none. */
export type Hosts = 'one host' | 'all hosts';

/** A router in front of a backend that writes down what it gets. */
export async function openSubject(t: Owner, options: { hosts: Hosts; driver?: Driver }): Promise<Subject> {
  const { plane, router, port } = await setUp(t, {}, options.driver);
  if (options.hosts === 'all hosts') {
    plane.setRoute({ id: 'all', domain: '*' });
    await waitFor(() => router.status().routes.http === 2, { what: 'the second route', deadlineMs: 30_000 });
  }
  const recorder = new Recorder();
  const backend = await track(t, recorder.server);
  plane.up('web', backend.address);
  await settled(router, [backend.address]);
  return { port, recorder };
}

export async function fuzzed(
  t: Owner,
  options: { driver: Driver; hosts: Hosts; judges: readonly Judge[]; seed: number; count: number },
): Promise<void> {
  const { judges, seed, count } = options;
  const subject = await openSubject(t, options);
  const report = await fuzz({ subject, judges, seed, isOver: (messages) => messages >= count });
  assert.deepEqual(report.findings, []);
  // A run in which nothing gets through has tried nothing.
  assert.ok(report.passedOn > count / 20, `${report.passedOn} of ${count} passed on`);
}
