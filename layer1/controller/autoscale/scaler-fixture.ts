/** A whole controller with simulated hosts, routers and time, in which something is to be done. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { handle, startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { apps, formations } from '../api.ts';
import { latencyBoundsMs } from '../routes/latency.ts';
import { routerStats } from '../routes/stats.ts';
import type { RouteStats } from '../routes/stats.ts';
import { startTestController } from '../testing.ts';
import type { TestController, TestControllerOptions } from '../testing.ts';
import { autoscales } from './api.ts';
import type { Autoscale, SettingsChange } from './model.ts';
import { autoscaleType } from './resource.ts';
import { Autoscaler } from './scaler.ts';

export const everyMs = 10_000;
export const params = { app: 'shop', type: 'web' };
export const waiting = { deadlineMs: 30_000, intervalMs: 5 };

/** What there is to do for the app, and how its jobs share it. */
export class World {
  readonly controller: TestController;
  nowMs = Date.parse('2030-01-01T00:00:00Z');
  /** Processors that all of its jobs together are busy with. */
  cores = 0;
  readonly #seconds = new Map<string, number>();
  #scaler: Autoscaler;

  constructor(controller: TestController) {
    this.controller = controller;
    this.#scaler = this.#newScaler();
    for (const host of controller.hosts) host.cpuSecondsOf = (jobId) => this.#seconds.get(jobId) ?? 0;
  }

  #newScaler(): Autoscaler {
    return new Autoscaler({ ...this.controller.deps, now: () => this.nowMs });
  }

  /** Another worker takes over: it knows nothing of what was seen. */
  replaceScaler(): void {
    this.#scaler = this.#newScaler();
  }

  async set(change: SettingsChange): Promise<Autoscale> {
    return this.controller.client.call(autoscales.set, { params, body: change });
  }

  async state(): Promise<Autoscale> {
    const [found] = await this.controller.client.call(autoscales.list, { params });
    assert.ok(found);
    return found;
  }

  async count(): Promise<number> {
    const { releaseId = '' } = await this.controller.client.call(apps.get, { params });
    const { processes } = await this.controller.client.call(formations.get, {
      params: { ...params, release: releaseId },
    });
    return processes['web'] ?? 0;
  }

  async scale(count: number): Promise<void> {
    const { releaseId = '' } = await this.controller.client.call(apps.get, { params });
    const body = { processes: { web: count } };
    await this.controller.client.call(formations.put, { params: { ...params, release: releaseId }, body });
  }

  running(): string[] {
    return this.controller.hosts.flatMap((host) =>
      host.statuses().flatMap(({ id, state }) => (state === 'running' ? [id] : [])),
    );
  }

  async look(): Promise<number> {
    const settings = await this.controller.deps.resources.list(autoscaleType);
    return this.#scaler.look(settings, new AbortController().signal);
  }

  /** Ten seconds pass, in which the jobs do what there is; then it is looked. Until all is as it was asked for. */
  async pass(looks: number, settle = (count: number) => this.#allRun(count)): Promise<number[]> {
    const counts: number[] = [];
    for (let look = 0; look < looks; look += 1) {
      this.nowMs += everyMs;
      const busy = this.running();
      for (const id of busy) {
        const more = ((everyMs / 1_000) * this.cores) / busy.length;
        this.#seconds.set(id, (this.#seconds.get(id) ?? 0) + more);
      }
      await this.look();
      const count = await this.count();
      counts.push(count);
      await settle(count);
    }
    return counts;
  }

  async #allRun(count: number): Promise<void> {
    await waitFor(() => this.running().length === count, { what: `${count} jobs to run`, ...waiting });
    // What hosts said has to be in the controller's mirrors too.
    await this.controller.jobsOf('shop', count);
  }
}

export async function startWorld(t: TestContext, options: TestControllerOptions = {}): Promise<World> {
  const controller = await startTestController(options);
  t.after(() => controller[Symbol.asyncDispose]());
  await controller.deployApp('shop', { web: { ports: [{ port: 8080 }], cpuMillis: 500 }, clock: {} });
  await controller.stopWorker();
  const world = new World(controller);
  await world.scale(1);
  await controller.jobsOf('shop', 1);
  return world;
}

/** A router that counts what the test says. */
export async function startRouter(t: TestContext) {
  const state = { isAway: false, counts: [] as Partial<RouteStats>[], asked: [] as string[] };
  const none = { '1xx': 0, '2xx': 0, '3xx': 0, '4xx': 0, '5xx': 0 };
  const counts = Array.from({ length: latencyBoundsMs.length + 1 }, () => 0);
  const zero: Omit<RouteStats, 'appId'> = {
    id: 'r',
    service: 'shop-web',
    sinceMs: 0,
    requests: 0,
    active: 0,
    answers: none,
    refusals: {},
    clientsGone: 0,
    brokenOff: 0,
    retries: 0,
    bytesIn: 0,
    bytesOut: 0,
    latency: { counts, sumMs: 0 },
    backends: [],
  };
  const stats = handle(routerStats.all, async ({ query }) => {
    state.asked.push(query.app ?? '');
    if (state.isAway) throw new Error('it is away');
    return state.counts.map((one) => ({ ...zero, appId: query.app ?? '', ...one }));
  });
  const options = { key: 'test-cluster-key', host: '127.0.0.1', port: 0, log: silentLogger() };
  const server = await startServer({ name: 'router', handlers: [stats], ...options });
  t.after(() => server.close());
  return { state, address: `127.0.0.1:${server.port}` };
}
