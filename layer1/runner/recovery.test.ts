/** What the runner does when the controller goes away, answers get lost and connections break. */
import assert from 'node:assert/strict';
import type { Duplex } from 'node:stream';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { apps, deployments, jobs, releases } from '@flynn/controller/api';
import { routing } from '@flynn/controller/routes/api';
import { platform } from '@flynn/controller/platform/api';
import { operations } from '@flynn/controller/operations/api';
import type { Deployment, Job, Operation, Release } from '@flynn/controller/model';
import { loadConfig } from '@flynn/kit/config';
import { FlynnError } from '@flynn/kit/errors';
import { type Frame, encodeFrame } from '@flynn/kit/frames';
import { HttpClient } from '@flynn/kit/http-client';
import { type Handler, type RunningServer, handle, startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { configSchema, runnerIdOf } from './config.ts';
import { EnvWatch } from './env-watch.ts';
import { Reports } from './reports.ts';
import { runOperation } from './runner.ts';

const at = '2026-01-01T00:00:00.000Z';
const build: Operation = {
  id: 'build-1',
  appId: 'app1',
  kind: 'build',
  pushId: 'p',
  input: { sourceDigest: 'sha256:source', commit: 'c0ffee', branch: 'main' },
  state: 'running',
  output: {},
  createdAt: at,
};
const releasing: Operation = {
  ...build,
  id: 'release-1',
  kind: 'release',
  state: 'complete',
  output: { releaseId: 'release3' },
};
const deploy: Operation = { ...build, id: 'deploy-1', kind: 'deploy', dependsOn: ['release-1'] };
const job: Job = {
  id: 'host1-job',
  workloadId: 'app1-build-1',
  appId: 'app1',
  releaseId: 'r',
  type: 'build',
  state: 'running',
  restarts: 0,
  createdAt: at,
};
const release: Release = { id: 'release3', appId: 'app1', version: 3, env: {}, processes: {}, meta: {}, createdAt: at };
const complete: Deployment = {
  id: 'd1',
  appId: 'app1',
  newReleaseId: release.id,
  state: 'complete',
  progress: { web: { wanted: 1, up: 1, old: 0 } },
  createdAt: at,
};
const result = `sha256:${'a'.repeat(64)}`;

type Ended = { state: string; error?: string | undefined; output: Record<string, string> };

/** A controller that knows one app, keeps a log by offsets like the real one, and can be away for a while. */
class FlakyController implements AsyncDisposable {
  readonly lines: string[] = [];
  readonly client = new HttpClient({ baseUrl: async () => this.#url, name: 'the controller' });
  ended: Ended | undefined;
  isCancelled = false;
  asked: unknown;
  stops = 0;
  attaches = 0;
  attach: (socket: Duplex, attempt: number) => void = (socket) => send(socket, { kind: 'exit', code: 0 });
  jobState: Job = job;
  createDeployment: () => Promise<Deployment> = async () => complete;
  deployments: Deployment[] = [complete];
  #url = 'http://127.0.0.1:1';
  #server: RunningServer | undefined;

  async start(): Promise<void> {
    this.#server = await startServer({
      name: 'controller',
      handlers: this.#handlers(),
      host: '127.0.0.1',
      port: 0,
      log: silentLogger(),
    });
    this.#url = this.#server.url;
  }

  async stop(): Promise<void> {
    this.#url = 'http://127.0.0.1:1';
    await this.#server?.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    await this.client.close();
  }

  #handlers(): Handler[] {
    return [
      handle(apps.get, async () => ({
        id: 'app1',
        name: 'shop',
        meta: {},
        isSystem: false,
        deployTimeoutMs: 1_000,
        createdAt: at,
        updatedAt: at,
      })),
      handle(jobs.build, async ({ body }) => {
        this.asked = body;
        return job;
      }),
      handle(jobs.get, async () => this.jobState),
      handle(jobs.stop, async () => {
        this.stops += 1;
      }),
      handle(jobs.attach, async () => (socket) => {
        socket.on('error', () => undefined).resume();
        this.attaches += 1;
        this.attach(socket, this.attaches);
      }),
      handle(operations.get, async () => releasing),
      handle(operations.heartbeat, async () => ({ cancelled: this.isCancelled })),
      handle(operations.append, async ({ body }) => {
        assert.ok(body.offset <= this.lines.length, 'lines are missing');
        this.lines.push(...body.lines.slice(this.lines.length - body.offset));
      }),
      handle(operations.report, async ({ body }) => {
        [this.ended] = body.ended;
        return {
          refused: body.declined.map(({ id }) => ({ id, code: 'conflict' as const, message: 'begin it first' })),
        };
      }),
      handle(releases.get, async () => release),
      handle(releases.list, async () => [release]),
      handle(deployments.create, () => this.createDeployment()),
      handle(deployments.list, async () => this.deployments),
      handle(
        deployments.get,
        async ({ params }) => this.deployments.find(({ id }) => id === params.deployment) ?? complete,
      ),
      handle(deployments.events, async () =>
        Readable.from([{ event: 'deployment', data: this.deployments[0] ?? complete }]),
      ),
      handle(routing.list, async () => []),
      handle(platform.cluster, async () => ({
        name: 'c',
        domain: 'flynn.localhost',
        formerDomains: [],
        gitUrl: '',
        httpPort: 80,
        version: '0',
      })),
    ];
  }
}

function send(socket: Duplex, ...frames: Frame[]): void {
  for (const frame of frames) socket.write(encodeFrame(frame));
}

function text(...lines: string[]): Frame {
  return { kind: 'stdout', data: Buffer.from(lines.map((line) => `${line}\n`).join('')) };
}

async function startController(): Promise<FlakyController> {
  const controller = new FlakyController();
  await controller.start();
  return controller;
}

async function run(
  controller: FlakyController,
  operation: Operation,
  stopping = new AbortController().signal,
): Promise<void> {
  const identity = { id: 'runner', token: 'token', labels: {}, isByIdOnly: false, version: '0', slots: 1 };
  const deps = {
    identity,
    controller: controller.client,
    reports: new Reports(controller.client, identity),
    blobs: {
      getName: async () => ({ digest: result, sizeBytes: 1 }),
      get: async () => Readable.from([]),
      put: async () => ({ digest: result, sizeBytes: 1 }),
      stat: async () => Promise.reject(new FlynnError('not_found', 'there is nothing')),
    },
    env: new EnvWatch({ original: {}, source: async () => ({ version: 'one', env: {} }), log: silentLogger() }),
    ownRegistries: { plain: [], only: undefined },
    slugRunnerImage: 'slug-runner',
    log: silentLogger(),
    heartbeatMs: 20,
  };
  await runOperation(operation, deps, { stopping });
}

test('output lost with its connection is told once, whichever line the connection broke in', async () => {
  await using controller = await startController();
  controller.attach = (socket, attempt) => {
    if (attempt === 1) {
      send(socket, text('one', 'two'), { kind: 'stdout', data: Buffer.from('thr') });
      setTimeout(() => socket.destroy(), 20);
    } else send(socket, text('one', 'two', 'three', 'four'), { kind: 'exit', code: 0 });
  };
  await run(controller, build);
  assert.deepEqual(controller.lines.slice(1), ['one', 'two', 'three', 'four']);
  assert.deepEqual([controller.attaches, controller.ended?.state], [2, 'complete']);
  assert.deepEqual(controller.ended?.output, { resultDigest: result });
});

test('a build tells the Dockerfile it is of, and nothing that a controller of a version before would refuse without one', async () => {
  for (const dockerfile of [undefined, 'web.Dockerfile']) {
    await using controller = await startController();
    const more = dockerfile === undefined ? {} : { dockerfile };
    await run(controller, { ...build, input: { ...build.input, ...more } });
    const kind = dockerfile === undefined ? 'slug' : 'dockerfile';
    const { sourceDigest, commit = '' } = build.input;
    assert.deepEqual(controller.asked, { operationId: build.id, sourceDigest, commit, kind, ...more });
  }
});

test('a build goes on over a controller that is away for a moment', async () => {
  await using controller = await startController();
  controller.attach = (socket, attempt) => {
    send(socket, text('one'));
    if (attempt > 1) send(socket, text('two'), { kind: 'exit', code: 0 });
  };
  const running = run(controller, build);
  await waitFor(() => controller.attaches === 1, { what: 'the attach', deadlineMs: 30_000 });
  void controller.stop();
  await waitFor(
    async () =>
      controller.client.call(apps.list, {}).then(
        () => false,
        () => true,
      ),
    { what: 'it to be away', deadlineMs: 30_000 },
  );
  await controller.start();
  await running;
  assert.deepEqual(controller.lines.slice(1), ['one', 'two']);
  assert.equal(controller.ended?.state, 'complete');
});

test('the end of a build whose output cannot be had any more is taken from its job, with the reason', async () => {
  await using controller = await startController();
  controller.jobState = { ...job, state: 'failed', exitCode: 137, error: 'killed: out of memory (limit 512 MiB)' };
  controller.attach = (socket) => void socket.destroy();
  await run(controller, build);
  assert.equal(controller.ended?.state, 'failed');
  assert.match(controller.ended?.error ?? '', /^the build failed.*out of memory \(limit 512 MiB\)/);
});

test('a build that was killed for memory says which limit, as its job tells it', async () => {
  await using controller = await startController();
  controller.jobState = { ...job, state: 'failed', exitCode: 137, error: 'killed: out of memory (limit 512 MiB)' };
  controller.attach = (socket) => send(socket, { kind: 'exit', code: 137, error: 'killed: out of memory' });
  await run(controller, build);
  assert.match(controller.ended?.error ?? '', /limit 512 MiB/);
});

test('a build that cannot be followed is stopped rather than left behind', async () => {
  await using controller = await startController();
  controller.attach = (socket) => send(socket, { kind: 'error', code: 'denied', message: 'no' });
  await run(controller, build);
  assert.equal(controller.ended?.state, 'failed');
  assert.equal(controller.stops, 1);
});

test('a cancelled build stops its job and ends as cancelled', async () => {
  await using controller = await startController();
  controller.attach = (socket) => {
    send(socket, text('one'));
    controller.isCancelled = true;
  };
  await run(controller, build);
  assert.deepEqual([controller.ended?.state, controller.stops], ['cancelled', 1]);
});

test('another deployment of the app is waited for', async () => {
  await using controller = await startController();
  const other: Deployment = { ...complete, id: 'd0', newReleaseId: 'release2', state: 'running' };
  controller.deployments = [other, complete];
  let asked = 0;
  controller.createDeployment = async () => {
    asked += 1;
    if (asked < 3)
      throw new FlynnError('conflict', 'a deployment of shop is under way', { detail: { deploymentId: other.id } });
    return complete;
  };
  await run(controller, deploy);
  assert.equal(controller.ended?.state, 'complete', controller.ended?.error);
  assert.equal(
    controller.lines.filter((line) => /another deployment/i.test(line)).length,
    1,
    controller.lines.join('\n'),
  );
});

test('a deployment whose answer was lost is followed, not begun a second time', async () => {
  await using controller = await startController();
  controller.deployments = [];
  let created = 0;
  controller.createDeployment = async () => {
    if (controller.deployments.length > 0) {
      throw new FlynnError('conflict', 'a deployment of shop is under way', { detail: { deploymentId: complete.id } });
    }
    created += 1;
    controller.deployments = [complete];
    throw new FlynnError('unavailable', 'the answer was lost');
  };
  await run(controller, deploy);
  assert.deepEqual(
    [created, controller.ended?.state, controller.ended?.output],
    [1, 'complete', { deploymentId: 'd1' }],
  );
});

test('a runner told to stop ends in time though the controller is away', async () => {
  await using controller = await startController();
  const stopping = new AbortController();
  controller.attach = (socket) => send(socket, text('one'));
  const running = run(controller, build, stopping.signal);
  await waitFor(() => controller.attaches === 1, { what: 'the attach', deadlineMs: 30_000 });
  void controller.stop();
  const beganMs = performance.now();
  stopping.abort(new FlynnError('unavailable', 'the runner was stopped: push again'));
  await running;
  // It takes four seconds; one that is not told to stop has patience for a minute.
  const tookMs = performance.now() - beganMs;
  assert.ok(tookMs < 30_000, `took ${tookMs} ms`);
});

test('what a controller does not take back fails with the runner that is stopped', async () => {
  await using controller = await startController();
  const stopping = new AbortController();
  controller.attach = (socket) => send(socket, text('one'));
  const running = run(controller, build, stopping.signal);
  await waitFor(() => controller.attaches === 1, { what: 'the attach', deadlineMs: 30_000 });
  stopping.abort(new FlynnError('unavailable', 'the runner was stopped: push again'));
  await running;
  assert.deepEqual(
    [controller.ended?.state, controller.ended?.error],
    ['failed', 'the runner was stopped: push again'],
  );
});

test('a deployment that was begun before the operation was given back is followed, though it has failed', async () => {
  await using controller = await startController();
  controller.deployments = [{ ...complete, state: 'failed', error: 'web crashed' }];
  controller.createDeployment = () => Promise.reject(new FlynnError('invalid', 'one was begun already'));
  await run(controller, { ...deploy, handover: { at, runnerId: 'before', attempt: 1 } });
  assert.deepEqual([controller.ended?.state, controller.ended?.error], ['failed', 'web crashed']);
});

test('an operation that has its deployment already follows it', async () => {
  await using controller = await startController();
  controller.createDeployment = () => Promise.reject(new FlynnError('invalid', 'one was begun already'));
  await run(controller, { ...deploy, output: { deploymentId: complete.id } });
  assert.deepEqual([controller.ended?.state, controller.ended?.output], ['complete', { deploymentId: 'd1' }]);
});

test('a runner is known by the id it is given, else by its job, else by its machine', () => {
  const base = { FLYNN_KEY: 'k' };
  const idOf = (env: Record<string, string>): string => runnerIdOf(loadConfig(configSchema, { ...base, ...env }));
  assert.equal(idOf({ FLYNN_RUNNER_ID: 'a', FLYNN_JOB_ID: 'host1-b', HOSTNAME: 'c' }), 'a');
  assert.equal(idOf({ FLYNN_JOB_ID: 'host1-b', HOSTNAME: 'c' }), 'host1-b');
  assert.equal(idOf({ HOSTNAME: 'c' }), 'c');
  assert.notEqual(idOf({}), idOf({}));
});
