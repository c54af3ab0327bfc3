import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Container } from '../engine/engine.ts';
import { jobOf } from '../host-fixture.ts';
import { outcomeOfEnd, outcomeOfFailedStart } from './outcome.ts';
import { newRecord } from './record.ts';

const now = 1_000_000;
const service = jobOf('a', {}, { createdAt: now });
const once = jobOf('a', { restart: 'never' }, { createdAt: now });

function ended(rest: Partial<Container> = {}): Container {
  return {
    id: 'c',
    name: 'c',
    labels: {},
    state: 'exited',
    imageId: 'i',
    tty: false,
    volumes: [],
    createdAtMs: now - 5_000,
    startedAtMs: now - 4_000,
    endedAtMs: now,
    exitCode: 0,
    isOutOfMemory: false,
    ...rest,
  };
}

const record = newRecord(service, 'h1');

for (const { title, job, container, stopCause, state, isFinal, error } of [
  {
    title: 'a service that ends by itself crashed',
    job: service,
    container: ended(),
    state: 'crashed',
    isFinal: false,
    error: /by itself/,
  },
  { title: 'a one-off that ends with 0 is done', job: once, container: ended(), state: 'done', isFinal: true },
  {
    title: 'a one-off that ends otherwise crashed',
    job: once,
    container: ended({ exitCode: 3 }),
    state: 'crashed',
    isFinal: true,
    error: /exit code 3$/,
  },
  {
    title: 'a signal has its name',
    job: once,
    container: ended({ exitCode: 139 }),
    state: 'crashed',
    isFinal: true,
    error: /139 \(SIGSEGV\)/,
  },
  {
    title: 'what was killed for its memory is told so',
    job: once,
    container: ended({ exitCode: 137, isOutOfMemory: true }),
    state: 'crashed',
    isFinal: true,
    error: /^killed: out of memory \(limit 64 MiB\)$/,
  },
  {
    title: 'an end with another code keeps its own reason, whatever process was killed for its memory before',
    job: service,
    container: ended({ exitCode: 127, isOutOfMemory: true }),
    state: 'crashed',
    isFinal: false,
    error: /^ended with exit code 127.*; a process of it had been killed: out of memory \(limit 64 MiB\)$/,
  },
  {
    title: 'a one-off that ends with 0 is done, also where a process of it was killed for its memory and tried again',
    job: once,
    container: ended({ isOutOfMemory: true }),
    state: 'done',
    isFinal: true,
  },
  {
    title: 'one that ran too long failed',
    job: { ...once, template: { ...once.template, maxRuntimeMs: 4_000 } },
    container: ended({ exitCode: 143 }),
    stopCause: { type: 'expired' as const },
    state: 'failed',
    isFinal: true,
    error: /limit of 4 s/,
  },
  {
    title: 'an unhealthy one crashed for that reason',
    job: service,
    container: ended({ exitCode: 143 }),
    stopCause: { type: 'unhealthy' as const, message: 'not healthy', wellMs: 0 },
    state: 'crashed',
    isFinal: false,
    error: /^not healthy$/,
  },
  {
    title: 'one that wrote too much crashed for that reason',
    job: service,
    container: ended({ exitCode: 143 }),
    stopCause: { type: 'disk_full' as const, message: 'wrote too much' },
    state: 'crashed',
    isFinal: false,
    error: /^wrote too much$/,
  },
  {
    title: 'a service stopped for want of a lease may start again',
    job: service,
    container: ended({ exitCode: 137 }),
    stopCause: { type: 'fenced' as const },
    state: 'crashed',
    isFinal: false,
    error: /could not renew its lease/,
  },
  {
    title: 'a one-off stopped for want of a lease is over',
    job: once,
    container: ended({ exitCode: 137 }),
    stopCause: { type: 'fenced' as const },
    state: 'crashed',
    isFinal: true,
    error: /could not renew its lease/,
  },
  {
    title: 'nobody wants it: done whatever its exit code',
    job: undefined,
    container: ended({ exitCode: 143 }),
    state: 'done',
    isFinal: true,
  },
] as const) {
  test(title, () => {
    const cause = stopCause === undefined ? {} : { stopCause };
    const { status } = outcomeOfEnd(job, container, { ...record, ...cause }, now);
    assert.equal(status.state, state);
    assert.equal(status.isFinal, isFinal);
    if (error === undefined) assert.equal(status.error, undefined);
    else assert.match(status.error ?? '', error);
  });
}

test('after a first crash a service starts again at once, after it was never healthy not before that could be told', () => {
  const startOf = (rest: Partial<typeof record>) =>
    outcomeOfEnd(service, ended({ exitCode: 143 }), { ...record, ...rest }, now).status.nextStartAt;
  assert.equal(startOf({}), now);
  assert.equal(startOf({ stopCause: { type: 'unhealthy', message: 'not healthy', wellMs: 0 } }), now + 1000);
});

test('one that hung waits longer each time, unless it was well for a minute before', () => {
  const day = ended({ exitCode: 143, startedAtMs: now - 86_400_000 });
  const failuresOf = (wellMs: number) =>
    outcomeOfEnd(
      service,
      day,
      { ...record, failures: 4, stopCause: { type: 'unhealthy', message: 'hung', wellMs } },
      now,
    ).failures;
  assert.deepEqual([0, 59_999, 60_000].map(failuresOf), [5, 5, 1]);
});

test('a service that an engine which hangs does not start is given back; what there may never be two of waits', () => {
  const hung = { message: 'no answer', isTransient: true, isEngineHung: true };
  const { status } = outcomeOfFailedStart(service, record, hung, now);
  assert.deepEqual([status.state, status.isFinal, status.endedAt], ['done', true, now]);
  assert.match(status.error ?? '', /no answer.*engine hangs/);
  const single = { ...service, singleton: true };
  assert.equal(outcomeOfFailedStart(single, record, hung, now).status.state, 'pending');
  const own = { ...hung, isTransient: false };
  assert.equal(outcomeOfFailedStart(service, record, own, now).status.state, 'failed');
});

test('a host that lacks something waits with a one-off for two minutes, with a service for ever', () => {
  const away = { message: 'no blob store', isTransient: true };
  assert.equal(outcomeOfFailedStart(once, record, away, now + 119_999).status.state, 'pending');
  assert.equal(outcomeOfFailedStart(once, record, away, now + 120_000).status.isFinal, true);
  const waiting = outcomeOfFailedStart(service, record, away, now + 10_000_000).status;
  assert.equal(waiting.state, 'pending');
  assert.equal(waiting.error, 'no blob store');
});
