import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import type { Engine } from '../engine/engine.ts';
import { jobOf } from '../host-fixture.ts';
import { openPump, runPumpTest } from './pump-fixture.ts';
import { createMemoryEngine } from '../engine/memory.ts';
import { containerSpecOf } from '../containers/spec.ts';

const host = { cluster: 'test', hostId: 'h1', externalAddress: '127.0.0.1', gateway: '127.0.0.1', networkName: 'n' };

/** The id of a container that says one, two and three. */
async function start(engine: Engine): Promise<string> {
  const job = jobOf('a', { command: ['sh', '-c', 'echo one; echo two; echo three'] });
  const id = await engine.create(containerSpecOf(job, 'base', host));
  await engine.start(id);
  return id;
}

async function runToEnd(engine: Engine): Promise<string> {
  const id = await start(engine);
  await waitFor(async () => (await engine.inspect(id)).state === 'exited', { what: 'its end', deadlineMs: 30_000 });
  return id;
}

async function untilShipped({ pump, containers }: Awaited<ReturnType<typeof openPump>>): Promise<void> {
  const isOver = () => containers.all().some((container) => pump.isShipped(container));
  await waitFor(isOver, { what: 'the log to be over', deadlineMs: 30_000 });
}

test('over restarts of the agent no line is lost or repeated', async () => {
  const engine = createMemoryEngine({ cluster: 'test' });
  await runPumpTest(engine, host, 'base', Array.from({ length: 200 }, (_, i) => `echo ${i}; sleep 0.002`).join('; '));
});

test('nothing is read ahead of a sink that takes nothing, and everything once it does', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-logs-'));
  const engine = createMemoryEngine({ cluster: 'test' });
  await start(engine);
  const opening = Promise.withResolvers<void>();
  const taken: string[] = [];
  const pump = await openPump(engine, dir, async (line) => {
    await opening.promise;
    taken.push(line.message);
  });
  const [container] = await waitFor(() => pump.containers.all().length > 0 && pump.containers.all(), {
    what: 'the container',
    deadlineMs: 30_000,
  });
  assert.ok(container !== undefined && !pump.pump.isShipped(container));
  opening.resolve();
  await waitFor(() => taken.length === 3 && pump.containers.all().every((c) => pump.pump.isShipped(c)), {
    what: 'the lines',
    deadlineMs: 30_000,
  });
  assert.deepEqual(taken, ['one', 'two', 'three']);
  await pump.stop();
  await rm(dir, { recursive: true });
});

test('a damaged log is told as far as it can be read, and does not keep its container', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-logs-'));
  const engine = createMemoryEngine({ cluster: 'test' });
  const damaged: Engine = {
    ...engine,
    async *logs(id, options) {
      for await (const record of engine.logs(id, options)) {
        if (record.message === 'two') throw new FlynnError('invalid', 'not a time with nanoseconds: error from daemon');
        yield record;
      }
    },
  };
  await runToEnd(engine);
  const taken: string[] = [];
  const pump = await openPump(damaged, dir, (line) => void taken.push(line.message));
  await untilShipped(pump);
  assert.deepEqual(taken, ['one']);
  await pump.stop();
  await rm(dir, { recursive: true });
});

test('an agent that stops in the middle of an ended log has not read it to its end: the next one goes on there', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-logs-'));
  const engine = createMemoryEngine({ cluster: 'test' });
  // A real one that is hung up on ends without an error.
  const leaving: Engine = {
    ...engine,
    async *logs(id, options) {
      for await (const record of engine.logs(id, options)) {
        if (options.signal?.aborted === true) return;
        yield record;
      }
    },
  };
  await runToEnd(engine);
  const taken: string[] = [];
  const stopped = Promise.withResolvers<void>();
  const first = await openPump(leaving, dir, (line) => {
    taken.push(line.message);
    if (taken.length === 1) void first.stop().then(stopped.resolve);
  });
  await stopped.promise;
  assert.deepEqual(taken, ['one']);
  const next = await openPump(leaving, dir, (line) => void taken.push(line.message));
  await untilShipped(next);
  assert.deepEqual(taken, ['one', 'two', 'three']);
  await next.stop();
  await rm(dir, { recursive: true });
});

test('what was taken and not confirmed is told again after a kill, and keeps its container until it is', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-logs-'));
  const engine = createMemoryEngine({ cluster: 'test' });
  const id = await runToEnd(engine);
  const isShipped = ({ pump, containers }: Awaited<ReturnType<typeof openPump>>) =>
    containers.all().some((container) => container.id === id && pump.isShipped(container));
  const first: string[] = [];
  const confirms = new Map<string, () => void>();
  const take = (into: string[]) => (line: { message: string }, confirm: () => void) => {
    into.push(line.message);
    confirms.set(line.message, confirm);
  };
  const killed = await openPump(engine, dir, take(first), { isConfirmedByHand: true });
  await waitFor(() => first.length === 3, { what: 'the lines', deadlineMs: 30_000 });
  // Out of order: what comes after a hole does not count.
  confirms.get('one')?.();
  confirms.get('three')?.();
  assert.equal(isShipped(killed), false);
  await killed.stop();

  const again: string[] = [];
  const next = await openPump(engine, dir, take(again), { isConfirmedByHand: true });
  await waitFor(() => again.length === 2, { what: 'the rest', deadlineMs: 30_000 });
  assert.deepEqual(again, ['two', 'three']);
  assert.equal(isShipped(next), false);
  confirms.get('three')?.();
  confirms.get('two')?.();
  await waitFor(() => isShipped(next), { what: 'all to be confirmed', deadlineMs: 30_000 });
  await next.stop();
  await rm(dir, { recursive: true });
});
