import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { ContainerTable } from '../containers/table.ts';
import { jobOf } from '../host-fixture.ts';
import { followLines } from './read.ts';
import { createMemoryEngine } from '../engine/memory.ts';
import { containerSpecOf } from '../containers/spec.ts';

const host = { cluster: 'test', hostId: 'h1', externalAddress: '127.0.0.1', gateway: '127.0.0.1', networkName: 'n' };

test('following a job that waits for its restart reads the log once, and goes on with the next run', async () => {
  const memory = createMemoryEngine({ cluster: 'test' });
  let reads = 0;
  const engine: typeof memory = {
    ...memory,
    logs(id, options) {
      reads += 1;
      return memory.logs(id, options);
    },
  };
  const containers = new ContainerTable({ engine, log: silentLogger() });
  const job = jobOf('a', { command: ['sh', '-c', 'echo line; exit 1'] });
  const id = await engine.create(containerSpecOf(job, 'base', host));
  const run = async () => {
    await engine.start(id);
    await waitFor(async () => (await engine.inspect(id)).state === 'exited', { what: 'its end', deadlineMs: 30_000 });
    await containers.refresh();
  };
  await run();
  const stop = new AbortController();
  const taken: string[] = [];
  const following = (async () => {
    for await (const line of followLines({ engine, containers, hostId: 'h1' }, job.id, {
      signal: stop.signal,
      isOver: () => false,
    })) {
      taken.push(line.message);
    }
  })();
  await waitFor(() => taken.length === 1, { what: 'the line', deadlineMs: 30_000 });
  for (let look = 0; look < 5; look += 1) await containers.refresh();
  assert.equal(reads, 1);
  await run();
  await waitFor(() => taken.length === 2, { what: 'the next run', deadlineMs: 30_000 });
  stop.abort();
  await following;
});
