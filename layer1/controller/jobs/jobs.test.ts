import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import type { ErrorCode } from '@flynn/kit/errors';
import { encodeFrame, readFrames } from '@flynn/kit/frames';
import { waitFor } from '@flynn/kit/retry';
import { formations, jobs } from '../api.ts';
import { operations } from '../operations/api.ts';
import { awaitPlacement } from './attach.ts';
import { reasonsOf } from '../mirrors/cell-view.ts';
import type { Job } from '../model.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';

let world: TestController;
before(async () => {
  world = await startTestController();
  await world.deployApp('shop', web);
  await world.deployApp('other', web);
  await world.client.call(formations.put, { params: { app: 'shop', release: 'v1' }, body: { processes: { web: 2 } } });
  await jobsOf('shop', 2);
});
after(async () => {
  await world[Symbol.asyncDispose]();
});

const isCode = (code: ErrorCode, pattern: RegExp) => (error: unknown) =>
  hasCode(error, code) && pattern.test(error.message);
const web = { web: { ports: [{ port: 8080 }] } };
const jobsOf = (app: string, count: number, isWanted?: (job: Job) => boolean) => world.jobsOf(app, count, isWanted);

test('a one-off job runs, is attached to by its first id, and is gone from the list when it ended', async () => {
  const job = await world.client.call(jobs.run, { params: { app: 'shop' }, body: { command: ['cat'], stdin: true } });
  assert.equal(job.type, 'run');
  assert.equal(job.state, 'pending');
  const socket = await world.client.upgrade(jobs.attach, {
    params: { app: 'shop', job: job.id },
    query: { stdin: true },
  });
  socket.write(encodeFrame({ kind: 'stdin', data: Buffer.from('hello') }));
  socket.write(encodeFrame({ kind: 'stdin-end' }));
  const frames: string[] = [];
  for await (const frame of readFrames(socket)) {
    frames.push(
      frame.kind === 'stdout'
        ? `stdout ${frame.data.toString()}`
        : frame.kind === 'exit'
          ? `exit ${frame.code}`
          : frame.kind,
    );
  }
  assert.deepEqual(frames, ['stdout hello', 'exit 0']);
  await jobsOf('shop', 0, ({ type }) => type === 'run');
  const all = await world.client.call(jobs.list, { params: { app: 'shop' }, query: { all: true } });
  assert.equal(all.find(({ type }) => type === 'run')?.state, 'done');
  assert.equal((await world.client.call(jobs.get, { params: { app: 'shop', job: job.id } })).exitCode, 0);
});

test('attaching to what is not there, or to another app’s job, is not found', async () => {
  const upgrade = (app: string, job: string) => world.client.upgrade(jobs.attach, { params: { app, job } });
  await assert.rejects(upgrade('shop', 'nothing'), isCode('not_found', /no job nothing/));
  const [foreign] = await jobsOf('other', 1);
  await assert.rejects(upgrade('shop', foreign?.id ?? ''), isCode('not_found', /no job/));
});

test('stopping a one-off job ends it; a job of a formation is started again', async () => {
  const run = await world.client.call(jobs.run, { params: { app: 'shop' }, body: { command: ['sleep', '1000'] } });
  await jobsOf('shop', 1, ({ type, state }) => type === 'run' && state === 'running');
  await world.client.call(jobs.stop, { params: { app: 'shop', job: run.id } });
  await jobsOf('shop', 0, ({ type }) => type === 'run');
  const [one, two] = await jobsOf('shop', 2, ({ type, state }) => type === 'web' && state === 'running');
  await world.client.call(jobs.stop, { params: { app: 'shop', job: one?.id ?? '' } });
  await jobsOf('shop', 1, ({ id, state, restarts }) => id === one?.id && state === 'running' && restarts === 1);
  await jobsOf('shop', 1, ({ id, restarts }) => id === two?.id && restarts === 0);
  await assert.rejects(
    world.client.call(jobs.stop, { params: { app: 'shop', job: 'nothing' } }),
    isCode('not_found', /no job nothing/),
  );
});

test('what fits nowhere waits, and is listed as pending', async () => {
  await world.deployApp('huge', { web: {}, giant: { memoryBytes: 1024 ** 4 } });
  await world.client.call(formations.put, {
    params: { app: 'huge', release: 'v1' },
    body: { processes: { giant: 2 } },
  });
  const waiting = await jobsOf('huge', 2, ({ type, state }) => type === 'giant' && state === 'pending');
  const [job] = waiting;
  assert.equal(job?.hostId, undefined);
  const isLookedAt = () => reasonsOf(world.deps.cell).has(job?.workloadId ?? '');
  await waitFor(isLookedAt, { what: 'a scheduler to have looked at it', deadlineMs: 30_000, intervalMs: 5 });
  const { signal } = new AbortController();
  const placing = awaitPlacement(world.deps.cell, {
    appId: job?.appId ?? '',
    id: job?.id ?? '',
    signal,
    deadlineMs: 20,
  });
  await assert.rejects(placing, isCode('timeout', /has no place after 0\.02 s: .*memory/));
});

test('attaching for a client that has left already waits for nothing', async () => {
  const [job] = await jobsOf('huge', 2, ({ type, state }) => type === 'giant' && state === 'pending');
  const placing = awaitPlacement(world.deps.cell, {
    appId: job?.appId ?? '',
    id: job?.id ?? '',
    signal: AbortSignal.abort(),
    deadlineMs: 5_000,
  });
  await assert.rejects(placing, isCode('cancelled', /client went away/));
});

test('a build runs once for its operation, with the builder’s image and the app’s variables', async () => {
  await assert.rejects(
    world.client.call(jobs.build, { params: { app: 'shop' }, body: { operationId: 'build-x', sourceDigest: 'd' } }),
    isCode('not_found', /slug-builder/),
  );
  await world.deployApp('slug-builder', { build: { command: ['/build'] } }, { isSystem: true });
  const ask = () =>
    world.client.call(jobs.build, { params: { app: 'shop' }, body: { operationId: 'build-x', sourceDigest: 'd' } });
  const job = await ask();
  assert.equal(job.type, 'build');
  const [running] = await jobsOf('shop', 1, ({ type, state }) => type === 'build' && state === 'running');
  assert.equal((await ask()).id, running?.id);
  for (const host of world.hosts) await host.end(running?.id ?? '', 0);
  await jobsOf('shop', 0, ({ type }) => type === 'build');
  assert.equal((await ask()).state, 'done', 'asked again, a build that ended is not run again');
  await world.client.call(jobs.stop, { params: { app: 'shop', job: job.id } });

  const body = { operations: [{ id: 'of-other', kind: 'build' as const, input: { sourceDigest: 'd' } }] };
  await world.client.call(operations.create, { params: { app: 'other' }, body });
  await assert.rejects(
    world.client.call(jobs.build, { params: { app: 'shop' }, body: { operationId: 'of-other', sourceDigest: 'd' } }),
    isCode('not_found', /no operation of-other of shop/),
  );
});
