import assert from 'node:assert/strict';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { HttpClient } from '@flynn/kit/http-client';
import { silentLogger } from '@flynn/kit/log';
import { raceAbort, waitFor } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import { freePort } from '@flynn/kit/testing-ports';
import { hostRecordSchema } from '@flynn/scheduler/cell';
import { connectEtcd } from '@flynn/store/etcd';
import { routes } from './api.ts';
import { Peers } from './cluster/start.ts';
import { configSchema } from './config.ts';
import type { Engine } from './engine/engine.ts';
import { createMemoryEngine } from './engine/memory.ts';
import { enterCluster } from './enter-cluster.ts';
import { prepareGround } from './ground.ts';

const log = silentLogger();

test('an agent that begins beside an engine which hangs tells what it waits for', { timeout: 120_000 }, async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-hung-'));
  await using tasks = new TaskGroup();
  const hangs = (_of: unknown, { signal }: { signal?: AbortSignal } = {}): Promise<void> =>
    raceAbort(new Promise(() => undefined), signal ?? tasks.signal);
  const engine: Engine = {
    ...createMemoryEngine(),
    ensureNetwork: hangs,
    checkLocks: (options) => hangs(undefined, options),
  };
  const config = configSchema.parse({
    FLYNN_HOST_ID: 'h1',
    FLYNN_KEY: 'the-cluster-key',
    FLYNN_ADDRESS: '127.0.0.1',
    FLYNN_STATE_DIR: folder.path,
  });
  const store = connectEtcd({ endpoints: ['http://127.0.0.1:9'], log });
  const apiPort = await freePort();
  const record = hostRecordSchema.parse({
    id: 'h1',
    address: '127.0.0.1',
    apiPort,
    capacity: { memoryBytes: 1, cpuMillis: 1 },
    startedAt: 1,
  });
  const deps = { config, trust: undefined, node: undefined, log, connectEngine: () => engine };
  const ground = await prepareGround(deps, tasks);
  const peers = new Peers(config);
  const entering = enterCluster(
    { ...deps, version: '1', connectStore: async () => ({ store }), peers, record },
    ground,
    tasks,
  );
  const ended = assert.rejects(entering, { code: 'cancelled' });
  await using client = new HttpClient({ baseUrl: `http://127.0.0.1:${apiPort}`, key: config.FLYNN_KEY, name: 'it' });
  const status = await waitFor(() => client.call(routes.status, {}), { what: 'its API', deadlineMs: 60_000 });
  assert.match(status.conditions.join(), /waits for the container engine/);
  await tasks.stop();
  await ended;
  await store.close();
});
