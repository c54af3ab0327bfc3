import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { formations, jobs } from '@flynn/controller/api';
import { evaluations } from '@flynn/controller/hosts/api';
import type { TestController } from '@flynn/controller/testing';
import { waitFor } from '@flynn/kit/retry';
import { loadClusters, saveClusters } from '../clusters/clusters.ts';
import { runCli } from '../program.ts';
import { openDeskWithController } from '../testing.ts';

/** The types of what runs, once that is so many: what is told of them may be heard of before they are listed. */
async function running(controller: TestController, app: string, count: number): Promise<string[]> {
  return (await controller.jobsOf(app, count)).map(({ type }) => type).sort();
}

/** The controller, but for its events: of those nothing comes. */
async function startSilentEvents(controllerUrl: string): Promise<AsyncDisposable & { url: string }> {
  const server = createServer(async (incoming, outgoing) => {
    if (incoming.url?.startsWith('/events') === true) return;
    const { authorization = '' } = incoming.headers;
    const answer = await fetch(`${controllerUrl}${incoming.url ?? ''}`, { headers: { authorization } });
    outgoing.writeHead(answer.status, { 'content-type': 'application/json' }).end(await answer.text());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

test('`scale` tells the change and each job, and ends when it is so', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('hello', { web: {}, worker: {} });
  const up = await env.desk.run(['-a', 'hello', 'scale', 'web=3', 'worker=1']);
  assert.equal(up.code, 0, up.stderr);
  assert.match(up.stdout, /^scaling hello: web 1=>3, worker 0=>1\n/);
  assert.equal(up.stdout.match(/^ {2}web \S+ up$/gm)?.length, 2);
  assert.equal(up.stdout.match(/^ {2}worker \S+ up$/gm)?.length, 1);
  assert.match(up.stdout, /\nscale completed in \d+\.\ds\n$/);
  assert.deepEqual(await running(env.controller, 'hello', 4), ['web', 'web', 'web', 'worker']);
  const down = await env.desk.run(['-a', 'hello', 'scale', 'web=0']);
  assert.equal(down.stdout.match(/^ {2}web \S+ down$/gm)?.length, 3);
  assert.deepEqual(await running(env.controller, 'hello', 1), ['worker']);
});

test('the process of `scale` ends with its work, nothing of the events keeps it', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('hello', { web: {} });
  const bin = join(import.meta.dirname, '../../bin/flynn');
  const { stdout } = await promisify(execFile)(bin, ['-a', 'hello', 'scale', 'web=2'], {
    env: { ...process.env, HOME: env.desk.home, FLYNN_CONFIG_DIR: env.desk.configDirectory },
    timeout: 100_000,
  });
  assert.match(stdout, /scale completed/);
});

test('`scale` to what is already so is done at once', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('hello', { web: {} });
  const { code, stdout } = await env.desk.run(['-a', 'hello', 'scale', 'web=1']);
  assert.equal(code, 0);
  assert.match(stdout, /^scaling hello: web 1=>1\nscale completed in \d+\.\ds\n$/);
});

test('`scale` without arguments tells the counts', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('hello', { web: {}, worker: {} });
  assert.equal((await env.desk.run(['-a', 'hello', 'scale'])).stdout, 'TYPE    COUNT\nweb     1\nworker  0\n');
  assert.deepEqual(JSON.parse((await env.desk.run(['-a', 'hello', 'scale', '--json'])).stdout), { web: 1, worker: 0 });
});

test('with --json `scale` prints one value, the formation', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('hello', { web: {} });
  const { stdout } = await env.desk.run(['-a', 'hello', 'scale', 'web=2', '--json']);
  assert.deepEqual((JSON.parse(stdout) as { processes: unknown }).processes, { web: 2 });
});

test('a type the release does not have is refused with those it has', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('hello', { web: {}, worker: {} });
  const { code, stdout, stderr } = await env.desk.run(['-a', 'hello', 'scale', 'wbe=2']);
  assert.equal(code, 1);
  assert.match(stderr, /no process type "wbe": it has web, worker; did you mean web\?/);
  assert.equal(stdout, '');
});

test('before the first push there is nothing to scale, even with env set', async () => {
  await using env = await openDeskWithController();
  await env.desk.run(['create', 'hello']);
  await env.desk.run(['-a', 'hello', 'env', 'set', 'A=1']);
  const { code, stderr } = await env.desk.run(['-a', 'hello', 'scale', 'web=1']);
  assert.equal(code, 1);
  assert.match(stderr, /hello has nothing to scale yet\n {2}git push flynn main/);
});

test('`scale -n` asks and does not wait', async () => {
  await using env = await openDeskWithController({ behave: () => ({ is: 'hang' }) });
  await env.desk.run(['create', 'hello']);
  env.controller.setBehaviour(() => ({ is: 'run' }));
  await env.controller.deploy('hello', (await env.controller.makeRelease('hello', { web: {} })).id);
  env.controller.setBehaviour(() => ({ is: 'hang' }));
  const { code, stdout } = await env.desk.run(['-a', 'hello', 'scale', '-n', 'web=2']);
  assert.equal(code, 0);
  assert.equal(stdout, 'scaling hello: web 1=>2\nscale requested\n');
});

test('`scale -r` of a release that is not live is kept for its deployment', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('hello', { web: {} });
  const { id, version } = await env.controller.makeRelease('hello', { web: {} });
  const { code, stdout } = await env.desk.run(['-a', 'hello', 'scale', '-r', `v${version}`, 'web=4']);
  assert.equal(code, 0);
  assert.equal(stdout, 'scaling hello: web 0=>4\nv2 starts so when it is deployed\n');
  await env.controller.deploy('hello', id);
  // A deployment is complete once the old release's jobs have ended.
  assert.deepEqual(await running(env.controller, 'hello', 4), ['web', 'web', 'web', 'web']);
});

test('jobs that do not come up in time are told with why, and what goes on', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('hello', { web: {}, worker: {} });
  env.controller.setBehaviour((job) =>
    job.template.meta['flynn.type'] === 'worker' ? { is: 'hang' } : { is: 'crash', code: 3 },
  );
  const { code, stdout, stderr } = await env.desk.run(['-a', 'hello', 'scale', '--timeout', '5', 'web=2', 'worker=1']);
  assert.equal(code, 1);
  assert.match(stdout, /^ {2}web \S+ crashed \(exit code 3\)$/m);
  assert.match(stderr, /^flynn: not there after 5 s\n/);
  assert.match(stderr, /\n {2}web: 1 of 2 running\n {4}\S+ crashed: not up yet\n/);
  assert.match(stderr, /\n {2}worker: 0 of 1 running\n {4}\S+ starting: not up yet\n/);
  assert.match(stderr, /it goes on by itself: "flynn ps"/);
});

test('a change that comes from elsewhere while waiting is seen by the events', async () => {
  await using env = await openDeskWithController({ hosts: 1 });
  await env.controller.deployApp('hello', { web: {} });
  env.controller.setBehaviour(() => ({ is: 'hang' }));
  const io = env.desk.io();
  io.stdin.end();
  const scaling = runCli(['-a', 'hello', 'scale', 'web=2'], io);
  const [host] = env.controller.hosts;
  assert.ok(host);
  const hanging = await waitFor(() => host.statuses().find((status) => status.state === 'starting'), {
    what: 'the job that hangs',
    deadlineMs: 30_000,
    intervalMs: 5,
  });
  env.controller.setBehaviour(() => ({ is: 'run' }));
  await host.end(hanging.id, 1);
  assert.equal(await scaling, 0, io.stderr.text);
  assert.match(io.stdout.text, new RegExp(`^ {2}web ${hanging.id} failed \\(exit code 1\\)$`, 'm'));
  assert.match(io.stdout.text, /^ {2}web \S+ up$/m);
  const { releaseId } = (await env.controller.client.call(jobs.list, { params: { app: 'hello' } }))[0] ?? {};
  const formation = await env.controller.client.call(formations.get, {
    params: { app: 'hello', release: releaseId ?? '' },
  });
  assert.deepEqual(formation.processes, { web: 2 });
});

/** What is set aside for a job that says nothing of memory. */
const jobBytes = 256 * 1024 ** 2;

test('`scale` on a full cluster tells what waits and why, and is done once there is room', async () => {
  await using env = await openDeskWithController({ hosts: 1, memoryBytes: 4 * jobBytes });
  await env.controller.deployApp('hello', { web: {} });
  const other = await env.controller.deployApp('other', { web: {} });
  const params = { app: 'other', release: other.release.id };
  await env.controller.client.call(formations.put, { params, body: { processes: { web: 2 } } });
  await env.controller.jobsOf('other', 2);
  const io = env.desk.io();
  io.stdin.end();
  const scaling = runCli(['-a', 'hello', 'scale', 'web=4'], io);
  await waitFor(() => /there is room/.test(io.stderr.text), {
    what: 'what waits to be told',
    deadlineMs: 60_000,
    intervalMs: 5,
  });
  assert.match(io.stderr.text, /^ {2}web: 2 placed, 2 waiting: memory \(1 host full\)$/m);
  assert.match(io.stderr.text, /^ {2}waiting on, for 120 s in all: .*add a host by .*flynn limit set/m);
  await env.controller.client.call(formations.put, { params, body: { processes: { web: 0 } } });
  assert.equal(await scaling, 0, io.stderr.text);
  assert.equal(io.stderr.text.match(/for 120 s in all/g)?.length, 1);
  await env.controller.jobsOf('hello', 4);
});

test('where there is no room until the end `scale` says it once for all jobs, and what to do', async () => {
  await using env = await openDeskWithController({ hosts: 1, memoryBytes: 2 * jobBytes });
  await env.controller.deployApp('hello', { web: {} });
  await env.desk.run(['-a', 'hello', 'scale', '-n', 'web=40']);
  await env.controller.jobsOf('hello', 38, ({ error = '' }) => error.startsWith('2 placed, 38 waiting'));
  await env.controller.jobsOf('hello', 2);
  const { code, stderr } = await env.desk.run(['-a', 'hello', 'scale', '--timeout', '2', 'web=40']);
  assert.equal(code, 1);
  assert.match(
    stderr,
    /flynn: not there after 2 s\n {2}web: 2 of 40 running\n {4}38 jobs pending: 2 placed, 38 waiting: memory \(1 host full\)\n {2}it goes on by itself as soon as there is room; make room: add a host/,
  );
  assert.match(stderr, /\n {2}"flynn ps" shows how far it is\n$/);
});

test('of a type that is to be on every host `scale` says, too, why it is on none', async () => {
  await using env = await openDeskWithController({ hosts: 1, memoryBytes: 2 * jobBytes });
  await env.controller.deployApp('other', { web: { memoryBytes: 8 * jobBytes } });
  await env.controller.deployApp('hello', { agent: { omni: true } });
  await env.desk.run(['-a', 'hello', 'scale', '-n', 'agent=1']);
  await waitFor(
    async () => (await env.controller.client.call(evaluations.list, { query: { state: 'blocked' } })).length === 1,
    { what: 'the evaluation that is blocked', deadlineMs: 30_000, intervalMs: 5 },
  );
  const { code, stderr } = await env.desk.run(['-a', 'hello', 'scale', '--timeout', '2', 'agent=1']);
  assert.equal(code, 1);
  assert.match(
    stderr,
    /\n {2}agent: 0 of 1 running\n {4}pending: 0 placed, 1 waiting: memory \(1 host full\)\n {2}it goes on/,
  );
});

test('a controller that tells of no jobs in time is named, and nothing is scaled', async () => {
  await using env = await openDeskWithController();
  const { release } = await env.controller.deployApp('hello', { web: {} });
  await using silent = await startSilentEvents(env.controller.url);
  const io = env.desk.io();
  const [cluster] = (await loadClusters(env.desk.configDirectory)).clusters;
  assert.ok(cluster);
  await saveClusters(env.desk.configDirectory, {
    default: 'test',
    clusters: [{ ...cluster, controllerUrl: silent.url }],
  });
  assert.equal(await runCli(['-a', 'hello', 'scale', '--timeout', '1', 'web=3'], io), 1);
  assert.match(io.stderr.text, /nothing was scaled: the controller did not tell of the jobs there are within 1 s/);
  assert.match(io.stderr.text, /"flynn status" tells how the cluster is; try again, with more time: --timeout/);
  const params = { app: 'hello', release: release.id };
  assert.deepEqual((await env.controller.client.call(formations.get, { params })).processes, { web: 1 });
});
