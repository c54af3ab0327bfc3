import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { ensureEngine } from '@flynn/bootstrap/machine/engine';
import { ensureImages } from '@flynn/bootstrap/images/build';
import { tokens, users, grants } from '@flynn/controller/access/api';
import { apps, releases } from '@flynn/controller/api';
import { audit } from '@flynn/controller/audit/api';
import { createControllerClient } from '@flynn/controller/client';
import { FlynnError } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { silentLogger } from '@flynn/kit/log';
import { systemClock } from '@flynn/kit/clock';
import { waitFor } from '@flynn/kit/retry';
import { connectEtcd } from '@flynn/store/etcd';
import { startEtcdMember } from '@flynn/store/etcd-member';
import type { Store } from '@flynn/store/store';
import type { Bench } from './bench.ts';
import { controllerHeap } from './controller-heap.ts';
import { figure, median, type Figure } from './figure.ts';

const keys = { FLYNN_KEY: 'cluster', FLYNN_CONTROLLER_KEY: 'people' };
const rounds = 1_000;
const listRounds = 200;
const warmUp = 200;
const releasesEach = 10;
const lanes = 16;

/**
 * What the API adds to the store it stands on: each call next to the same operation through the bare client, one after the
 * other in the same run, on loopback without syncing to disk. Then how it does with many apps and releases.
 */
async function benchApi(args: readonly string[]): Promise<Figure[]> {
  const appCount = Number(args[0] ?? 1_000);
  await ensureEngine();
  const image = (await ensureImages({ names: ['etcd'] })).get('etcd') ?? '';
  await using etcd = await startEtcdMember({ image });
  await using store = connectEtcd({ endpoints: [etcd.endpoint], log: silentLogger() });
  const port = 20_000 + (process.pid % 20_000);
  const env = {
    ...keys,
    FLYNN_ETCD_ENDPOINTS: etcd.endpoint,
    FLYNN_REQUESTS_PER_SECOND: '1000000',
    PORT: String(port),
  };
  const main = fileURLToPath(import.meta.resolve('@flynn/controller/main'));
  const web = spawn(process.execPath, [...controllerHeap, main, 'web'], { env, stdio: 'ignore' });
  const baseUrl = `http://127.0.0.1:${port}`;
  const root = createControllerClient({ baseUrl, key: keys.FLYNN_CONTROLLER_KEY });
  try {
    await waitFor(() => root.call(apps.list, {}), { what: 'the controller', deadlineMs: 30_000 });
    return [...(await latencies(root, store, baseUrl)), ...(await many(root, web, appCount))];
  } finally {
    await root.close();
    const ended = once(web, 'exit');
    web.kill('SIGTERM');
    await ended;
  }
}

async function latencies(root: HttpClient, store: Store, baseUrl: string): Promise<Figure[]> {
  const app = await root.call(apps.create, { body: { name: 'bench' } });
  const key = `/flynn/resource/app/${app.id}`;
  const value = (await store.get(key))?.value ?? '';
  await root.call(users.create, { body: { name: 'ann' } });
  await root.call(grants.put, { params: { app: app.id, kind: 'user', name: 'ann' }, body: { role: 'developer' } });
  const { token } = await root.call(tokens.create, { body: { name: 'bench', user: 'ann' } });
  await using ann = createControllerClient({ baseUrl, key: token });
  const body = { type: 'image' as const, image: { name: 'bench/image' } };
  let written = 0;
  const pairs = await side(
    [
      () => store.get(key),
      () => root.call(apps.get, { params: { app: app.id } }),
      () => ann.call(apps.get, { params: { app: app.id } }),
      async () => {
        written += 1;
        const own = `/bench/${written}`;
        await store.transact({ compare: [{ key: own, modRevision: 0 }], then: [{ put: own, value }] });
      },
      () => root.call(releases.createArtifact, { body }),
    ],
    rounds,
  );
  const [get = 0, rootGet = 0, annGet = 0, put = 0, create = 0] = pairs.map(median);
  return [
    figure({ name: 'read an app, p50', value: rootGet, unit: 'ms', floor: get, must: '<= 3 x (aim 1.5)' }),
    figure({
      name: 'read an app with a role on it, p50',
      value: annGet,
      unit: 'ms',
      floor: get,
      must: '<= 3 x (aim 1.5)',
    }),
    figure({ name: 'create an artifact, p50', value: create, unit: 'ms', floor: put, must: '<= 3 x (aim 1.5)' }),
  ];
}

/** Milliseconds of each call, all of them in turn, so that what disturbs one disturbs the others. */
async function side(calls: readonly (() => Promise<unknown>)[], count: number): Promise<number[][]> {
  const taken: number[][] = calls.map(() => []);
  for (let round = -warmUp; round < count; round += 1) {
    for (const [index, call] of calls.entries()) {
      const startedAt = performance.now();
      await call();
      if (round >= 0) taken[index]?.push(performance.now() - startedAt);
    }
  }
  return taken;
}

async function many(root: HttpClient, web: ChildProcess, appCount: number): Promise<Figure[]> {
  process.stderr.write(`${appCount} apps with ${releasesEach} releases each …\n`);
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < appCount) {
      const name = `app-${(next += 1)}`;
      await root.call(apps.create, { body: { name } });
      for (let index = 0; index < releasesEach; index += 1) {
        const env = { DATABASE_URL: `postgres://x/${name}`, INDEX: String(index) };
        await root.call(releases.create, { params: { app: name }, body: { env, processes: { web: {} } } });
      }
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  const lists: Readonly<Record<string, () => Promise<readonly unknown[]>>> = {
    'a page of 100 apps': () => root.call(apps.list, { query: { limit: 100 } }),
    'all apps': () => root.call(apps.list, {}),
    'releases of an app': () => root.call(releases.list, { params: { app: 'app-7' } }),
    'a page of 100 of the audit trail': () => root.call(audit.list, { query: { limit: 100 } }),
  };
  const taken = await side(Object.values(lists), listRounds);
  const figures = Object.keys(lists).flatMap((name, index) => [
    figure({ name: `${name}, p50`, value: median(taken[index] ?? []), unit: 'ms' }),
    figure({ name: `${name}, p99`, value: p99(taken[index] ?? []), unit: 'ms', must: '<= 100' }),
  ]);
  // What was asked for is answered; what the collector does then it does by itself.
  await systemClock.sleep(15_000);
  return [
    ...figures,
    figure({ name: 'idle memory of the web process', value: residentMegabytes(web), unit: 'MB', must: '<= 200' }),
  ];
}

function p99(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * 0.99)] ?? Number.NaN;
}

function residentMegabytes({ pid }: ChildProcess): number {
  const rollup = readFileSync(`/proc/${pid ?? 0}/smaps_rollup`, 'utf8');
  const kilobytes = /^Pss:\s+(\d+) kB/m.exec(rollup)?.[1];
  if (kilobytes === undefined) throw new FlynnError('internal', 'the controller has gone');
  return Number(kilobytes) / 1024;
}

export const bench: Bench = { needs: 'nothing', run: benchApi };
