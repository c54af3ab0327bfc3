import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ensureEngine } from '@flynn/bootstrap/machine/engine';
import { ensureImages } from '@flynn/bootstrap/images/build';
import { apps } from '@flynn/controller/api';
import { operations } from '@flynn/controller/operations/api';
import { createControllerClient } from '@flynn/controller/client';
import { historyPut } from '@flynn/controller/operations/records';
import { TestRunner } from '@flynn/controller/operations/test-runner';
import type { HttpClient } from '@flynn/kit/http-client';
import { silentLogger } from '@flynn/kit/log';
import { waitFor, withDeadline } from '@flynn/kit/retry';
import { connectEtcd } from '@flynn/store/etcd';
import { freePort } from '@flynn/kit/testing-ports';
import { startEtcdMember } from '@flynn/store/etcd-member';
import type { Store } from '@flynn/store/store';
import type { Bench } from './bench.ts';
import { controllerHeap } from './controller-heap.ts';
import { figure, median } from './figure.ts';
import type { Figure } from './figure.ts';
import { cpuSecondsWithChildren } from './probe.ts';

const clusterKey = 'cluster';
const peopleKey = 'people';
const runnerCount = 8;
const slots = 16;
const perRequest = 30;
const appCount = 240;

type Web = AsyncDisposable & { client: HttpClient; startedInMs: number; pid: number };

/** The controller as it is deployed, a process of its own, with one etcd that does not sync to disk. */
async function benchOps(args: readonly string[]): Promise<Figure[]> {
  const total = Number(args[0] ?? 6_000);
  const history = Number(args[1] ?? 100_000);
  await ensureEngine();
  const image = (await ensureImages({ names: ['etcd'] })).get('etcd') ?? '';
  await using etcd = await startEtcdMember({ image });
  await using store = connectEtcd({ endpoints: [etcd.endpoint], log: silentLogger() });
  const figures: Figure[] = [];
  let emptyStartMs: number;
  let emptyMegabytes: number;
  {
    await using web = await startWeb(etcd.endpoint);
    emptyStartMs = web.startedInMs;
    emptyMegabytes = residentMegabytes(web.pid);
    process.stderr.write('latency …\n');
    const waited = await latencies(web, 200);
    process.stderr.write('throughput …\n');
    const { perSecond, twice, cpuMicros } = await throughput(web, total);
    figures.push(
      figure({ name: 'operations through the queue', value: perSecond, unit: '/s', must: '>= 500, aim 3000' }),
      figure({ name: "the controller's processor time for one", value: cpuMicros, unit: 'us' }),
      figure({ name: 'operations given to two runners', value: twice, unit: '', must: '0' }),
      figure({ name: 'queued to running p50', value: median(waited), unit: 'ms' }),
      figure({ name: 'queued to running p99', value: p99(waited), unit: 'ms', must: '<= 500, aim 50' }),
    );
  }
  process.stderr.write(`${history} ended operations …\n`);
  await writeHistory(store, history);
  await using web = await startWeb(etcd.endpoint);
  const listedMs = await timeMs(() => web.client.call(operations.listAll, { query: { limit: 100 } }));
  figures.push(
    figure({
      name: `start with ${history} ended operations`,
      value: web.startedInMs / 1_000,
      unit: 's',
      floor: emptyStartMs / 1_000,
      must: '<= 5, aim 1',
    }),
    figure({ name: 'the newest 100 of them, asked for at once', value: listedMs, unit: 'ms' }),
    figure({
      name: 'resident memory with them',
      value: residentMegabytes(web.pid),
      unit: 'MB',
      floor: emptyMegabytes,
      must: '<= 200',
    }),
  );
  return figures;
}

async function startWeb(endpoint: string): Promise<Web> {
  const port = await freePort();
  const main = join(import.meta.dirname, '../../layer1/controller/main.ts');
  const env = {
    PATH: process.env['PATH'],
    FLYNN_KEY: clusterKey,
    FLYNN_CONTROLLER_KEY: peopleKey,
    FLYNN_ETCD_ENDPOINTS: endpoint,
    PORT: String(port),
  };
  const startedAt = performance.now();
  const child = spawn(process.execPath, [...controllerHeap, main, 'web'], {
    env,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const client = createControllerClient({ baseUrl: `http://127.0.0.1:${port}`, key: peopleKey });
  await waitFor(() => client.call(apps.list, {}), { what: 'the controller', deadlineMs: 60_000, intervalMs: 10 });
  return {
    client,
    pid: child.pid ?? 0,
    startedInMs: performance.now() - startedAt,
    async [Symbol.asyncDispose]() {
      await client.close();
      await end(child);
    },
  };
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, 'exit');
  child.kill('SIGTERM');
  await exit;
}

/** From asking for an operation until its runner, which waits for one, has said that it begins. */
async function latencies({ client }: Web, count: number): Promise<number[]> {
  const runner = new TestRunner({ client, id: 'idle', clusterKey });
  await runner.register();
  await client.call(apps.create, { body: { name: 'latency' } });
  const found: number[] = [];
  for (let index = 0; index < count; index += 1) {
    const running = runner.claim();
    const startedAt = performance.now();
    await client.call(operations.create, {
      params: { app: 'latency' },
      body: { operations: [{ kind: 'build', input: {} }] },
    });
    const { id } = await running;
    found.push(performance.now() - startedAt);
    await runner.finish(id, 'complete');
  }
  return found;
}

/** Queued in the middle of the work, of many apps: of one they go one at a time. */
async function throughput(
  { client, pid }: Web,
  total: number,
): Promise<{ perSecond: number; twice: number; cpuMicros: number }> {
  const names = Array.from({ length: appCount }, (_, index) => `app${index}`);
  await inLanes(8, names, (name) => client.call(apps.create, { body: { name } }));
  const runners = Array.from(
    { length: runnerCount },
    (_, i) => new TestRunner({ client, id: `runner${i}`, clusterKey }),
  );
  await Promise.all(runners.map((runner) => runner.register()));
  const begun = new Map<string, number>();
  const stopping = new AbortController();
  let done = 0;
  const allDone = Promise.withResolvers<void>();
  const work = async (runner: TestRunner): Promise<void> => {
    while (!stopping.signal.aborted) {
      const given = await runner.assignments(slots, { signal: stopping.signal });
      const attempts = given.map(({ id, attempt = 0 }) => ({ id, attempt }));
      await runner.report({ begun: attempts });
      for (const { id } of given) begun.set(id, (begun.get(id) ?? 0) + 1);
      await runner.report({ ended: given.map(({ id }) => ({ id, state: 'complete' as const })) });
      done += given.length;
      if (done >= total) allDone.resolve();
    }
  };
  const ended = runners.map((runner) =>
    work(runner).catch((error: unknown) => {
      if (!stopping.signal.aborted) allDone.reject(error);
    }),
  );
  const requests = Array.from({ length: Math.ceil(total / perRequest) }, (_, index) => index);
  const cpuBefore = cpuSecondsWithChildren(pid);
  const startedAt = performance.now();
  await inLanes(4, requests, (index) => {
    const many = Math.min(perRequest, total - index * perRequest);
    const body = { operations: Array.from({ length: many }, () => ({ kind: 'build' as const, input: {} })) };
    return client.call(operations.create, { params: { app: `app${index % appCount}` }, body });
  });
  const deadline = withDeadline(300_000);
  deadline.addEventListener('abort', () => allDone.reject(deadline.reason), { once: true });
  await allDone.promise;
  const seconds = (performance.now() - startedAt) / 1_000;
  const cpuMicros = ((cpuSecondsWithChildren(pid) - cpuBefore) / total) * 1e6;
  stopping.abort();
  await Promise.all(ended);
  const twice = [...begun.values()].filter((times) => times > 1).length;
  return { perSecond: total / seconds, twice, cpuMicros };
}

async function inLanes<T>(lanes: number, items: readonly T[], work: (item: T) => Promise<unknown>): Promise<void> {
  const left = items[Symbol.iterator]();
  const lane = async (): Promise<void> => {
    for (const item of left) await work(item);
  };
  await Promise.all(Array.from({ length: lanes }, lane));
}

async function writeHistory(store: Store, count: number): Promise<void> {
  const batches = Array.from({ length: Math.ceil(count / 500) }, (_, index) => index * 500);
  await inLanes(4, batches, async (from) => {
    const then = Array.from({ length: Math.min(500, count - from) }, (_, i) => historyPut(endedOperation(from + i)));
    await store.transact({ then });
  });
}

function endedOperation(index: number): Parameters<typeof historyPut>[0] {
  const at = new Date(Date.UTC(2026, 0, 1) + index * 1_000).toISOString();
  return {
    type: 'operation',
    id: `build-${String(index).padStart(16, '0')}`,
    uid: `history-${index}`,
    revision: 0,
    generation: 1,
    createdAt: at,
    updatedAt: at,
    owner: { type: 'app', id: `history${index % 1_000}` },
    labels: {},
    finalizers: [],
    waitingFor: {},
    conditions: [],
    spec: {
      appId: `history${index % 1_000}`,
      kind: 'build',
      pushId: `push-${index}`,
      input: { sourceDigest: `sha256:${'a'.repeat(64)}`, commit: 'c'.repeat(40), branch: 'main' },
    },
    status: {
      state: 'complete',
      output: { resultDigest: `sha256:${'b'.repeat(64)}` },
      runnerId: 'host1-runner',
      attempt: 1,
      assignedAt: at,
      startedAt: at,
      endedAt: at,
    },
  };
}

function residentMegabytes(pid: number): number {
  const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(kilobytes) / 1024;
}

async function timeMs(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}

function p99(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * 0.99)] ?? Number.NaN;
}

export const bench: Bench = { needs: 'nothing', run: benchOps };
