import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { test } from 'node:test';
import { deployments, jobs } from '@flynn/controller/api';
import type { Job } from '@flynn/controller/model';
import { FlynnError } from '@flynn/kit/errors';
import { encodeFrame, type Frame, readFrames } from '@flynn/kit/frames';
import { handle } from '@flynn/kit/http-server';
import { startLoopback } from '@flynn/kit/loopback';
import { waitFor } from '@flynn/kit/retry';
import { saveClusters } from '../clusters/clusters.ts';
import { runCli } from '../program.ts';
import { Desk, openDeskWithController, quickClock } from '../testing.ts';

const bin = join(import.meta.dirname, '../../bin/flynn');

type Run = {
  command: readonly string[];
  env: Record<string, string>;
  tty: boolean;
  stdin: boolean;
  memoryBytes?: number | undefined;
  cpuMillis?: number | undefined;
};

/** A controller that only runs: it notes what it is asked for, and answers the frames of a job with those given. */
async function startRunServer(options: {
  answer: (frame: Frame) => Frame[];
  refusal?: FlynnError;
  /** Joining waits until the job is stopped. */
  isUnplaced?: boolean;
  /** What its beginning is answered waits for this. */
  beginning?: Promise<void>;
  stopRefusal?: FlynnError;
}) {
  const stopped = Promise.withResolvers<void>();
  const asked: { run?: Run | undefined; attach?: unknown; frames: Frame[]; stopped: string[] } = {
    frames: [],
    stopped: [],
  };
  const job: Job = {
    id: 'app-run-1',
    workloadId: 'app-run-1',
    appId: 'app',
    releaseId: 'release',
    type: 'run',
    state: 'pending',
    restarts: 0,
    createdAt: '2026-01-01T00:00:00Z',
  };
  const loopback = await startLoopback([
    handle(jobs.run, async ({ body }) => {
      asked.run = body;
      await options.beginning;
      return job;
    }),
    handle(jobs.stop, async ({ params }) => {
      asked.stopped.push(params.job);
      stopped.resolve();
      if (options.stopRefusal !== undefined) throw options.stopRefusal;
    }),
    handle(jobs.attach, async ({ query }) => {
      asked.attach = query;
      if (options.isUnplaced) await stopped.promise;
      if (options.refusal !== undefined) throw options.refusal;
      return (socket) => {
        void (async () => {
          for await (const frame of readFrames(socket)) {
            asked.frames.push(frame);
            for (const said of options.answer(frame)) socket.write(encodeFrame(said));
          }
        })().finally(() => socket.destroy());
      };
    }),
  ]);
  const desk = await Desk.open();
  const cluster = { name: 'x', controllerUrl: loopback.server.url, key: 'k', gitUrl: 'g', domain: 'd', httpPort: 80 };
  await saveClusters(desk.configDirectory, { clusters: [cluster] });
  return {
    desk,
    asked,
    async [Symbol.asyncDispose]() {
      await desk[Symbol.asyncDispose]();
      await loopback[Symbol.asyncDispose]();
    },
  };
}

test('what goes into `run` comes out of the job, and its exit code is the command’s', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('hello', { web: {} });
  const echoed = await env.desk.run(['-a', 'hello', 'run', 'cat'], { input: 'one\ntwo é\n' });
  assert.deepEqual(echoed, { code: 0, stdout: 'one\ntwo é\n', stderr: '' });
  env.controller.setBehaviour(() => ({ is: 'exit', code: 42, lines: ['out'] }));
  const failed = await env.desk.run(['-a', 'hello', 'run', 'false']);
  assert.deepEqual(failed, { code: 42, stdout: 'out\n', stderr: '' });
});

test('everything after the first word of the command belongs to the command', async () => {
  await using env = await startRunServer({ answer: () => [{ kind: 'exit', code: 0 }] });
  const cases: [string[], string[]][] = [
    [
      ['run', 'ls', '-a', '-l', '--json'],
      ['ls', '-a', '-l', '--json'],
    ],
    [
      ['run', '-e', 'A=1', '-e', 'B=x=y', 'sh', '-c', 'echo -e x', '--', '-d'],
      ['sh', '-c', 'echo -e x', '--', '-d'],
    ],
    [
      ['run', '--', '-odd', '-r', 'v1'],
      ['-odd', '-r', 'v1'],
    ],
    [['run', 'help'], ['help']],
    [
      ['run', 'tail', '-1'],
      ['tail', '-1'],
    ],
  ];
  for (const [argv, command] of cases) {
    const { code, stderr } = await env.desk.run(['-a', 'app', ...argv]);
    assert.equal(code, 0, stderr);
    assert.deepEqual(env.asked.run?.command, command);
  }
  await env.desk.run(['-a', 'app', 'run', '-e', 'A=1', '-e', 'B=x=y', 'ls']);
  assert.deepEqual(env.asked.run?.env, { A: '1', B: 'x=y' });
});

test('a command may take what is said, and what the app has else', async () => {
  await using env = await startRunServer({ answer: () => [{ kind: 'exit', code: 0 }] });
  const run = (...words: string[]) => env.desk.run(['-a', 'app', 'run', ...words, 'ls', '--memory', '1']);
  await run('--memory', '4GB', '--cpu', '2500');
  assert.deepEqual([env.asked.run?.memoryBytes, env.asked.run?.cpuMillis], [4 * 1024 ** 3, 2_500]);
  await run();
  assert.deepEqual(env.asked.run, { command: ['ls', '--memory', '1'], env: {}, tty: false, stdin: true });
  for (const words of [
    ['--memory', 'lots'],
    ['--cpu', 'all'],
  ])
    assert.equal((await run(...words)).code, 2);
});

test('without a terminal the job gets pipes, and Ctrl-C as a signal', async () => {
  await using env = await startRunServer({
    answer: (frame) => (frame.kind === 'signal' ? [{ kind: 'exit', code: 5 }] : []),
  });
  const io = env.desk.io({ env: { TERM: 'xterm' } });
  const ran = runCli(['-a', 'app', 'run', 'sh'], io);
  await waitFor(() => io.stdin.listenerCount('data') > 0, { what: 'the job to be joined', deadlineMs: 30_000 });
  assert.equal(io.signal('SIGINT'), 1);
  assert.equal(await ran, 5);
  assert.deepEqual(env.asked.run, { command: ['sh'], env: {}, tty: false, stdin: true });
  assert.deepEqual(env.asked.attach, { stdin: true, logs: true });
  assert.deepEqual(env.asked.frames, [{ kind: 'signal', signal: 'SIGINT' }]);
});

test('in a terminal the job gets a terminal of its kind and size, and raw input', async () => {
  await using env = await startRunServer({
    answer: (frame) => (frame.kind === 'stdin' ? [{ kind: 'exit', code: 0 }] : []),
  });
  const io = env.desk.io({ env: { TERM: 'xterm' } });
  io.stdin.isTTY = true;
  io.stdout.isTTY = true;
  const ran = runCli(['-a', 'app', 'run', 'sh'], io);
  await waitFor(() => io.stdin.isRaw, { what: 'raw input', deadlineMs: 30_000 });
  io.stdin.write('\u0003');
  assert.equal(await ran, 0);
  assert.deepEqual(env.asked.run, { command: ['sh'], env: { TERM: 'xterm' }, tty: true, stdin: true });
  assert.deepEqual(env.asked.attach, { stdin: true, logs: true, columns: 100, rows: 40 });
  assert.deepEqual(env.asked.frames, [
    { kind: 'resize', columns: 100, rows: 40 },
    { kind: 'stdin', data: Buffer.from([3]) },
  ]);
  assert.equal(io.stdin.isRaw, false);
});

test('the real command in a real terminal passes size, keys and exit code', async () => {
  await using env = await startRunServer({
    answer(frame) {
      if (frame.kind === 'resize') return [{ kind: 'stdout', data: Buffer.from('ready\r\n') }];
      if (frame.kind === 'stdin' && frame.data.includes(3)) return [{ kind: 'exit', code: 7 }];
      return [];
    },
  });
  const line = `stty rows 33 columns 99; ${bin} -a app run sh`;
  const child = spawn('script', ['-qec', line, '/dev/null'], {
    env: { ...process.env, HOME: env.desk.home, FLYNN_CONFIG_DIR: env.desk.configDirectory, TERM: 'vt100' },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
  await waitFor(() => output.includes('ready'), { what: 'the job to be ready', deadlineMs: 60_000 });
  child.stdin.write('\u0003');
  assert.deepEqual(await ended, [7, null], output);
  assert.deepEqual(env.asked.run, { command: ['sh'], env: { TERM: 'vt100' }, tty: true, stdin: true });
  assert.deepEqual(env.asked.attach, { stdin: true, logs: true, columns: 99, rows: 33 });
  assert.deepEqual(env.asked.frames.slice(0, 2), [
    { kind: 'resize', columns: 99, rows: 33 },
    { kind: 'stdin', data: Buffer.from([3]) },
  ]);
});

test('`run -d` answers the job’s id and joins nothing', async () => {
  await using env = await startRunServer({ answer: () => [] });
  const { code, stdout } = await env.desk.run(['-a', 'app', 'run', '-d', 'ls']);
  assert.equal(code, 0);
  assert.equal(stdout, 'app-run-1\n');
  assert.deepEqual(env.asked.run, { command: ['ls'], env: {}, tty: false, stdin: false });
  assert.equal(env.asked.attach, undefined);
});

test('a job that cannot be joined is stopped rather than left behind, and the reason is told', async () => {
  const refusal = new FlynnError('exhausted', 'no host has room for it');
  await using env = await startRunServer({ answer: () => [], refusal });
  const { code, stderr } = await env.desk.run(['-a', 'app', 'run', 'ls']);
  assert.equal(code, 1);
  assert.equal(stderr, 'flynn: no host has room for it\n');
  assert.deepEqual(env.asked.stopped, ['app-run-1']);
});

test('Ctrl-C while the job has not started yet stops it', async () => {
  await using env = await startRunServer({ answer: () => [], isUnplaced: true });
  const io = env.desk.io();
  const ran = runCli(['-a', 'app', 'run', 'ls'], io);
  await waitFor(() => env.asked.attach !== undefined, { what: 'the wait for the job', deadlineMs: 30_000 });
  assert.equal(io.signal('SIGINT'), 1);
  assert.equal(await ran, 1);
  assert.equal(io.stderr.text, 'flynn: stopped: it does not run\n');
  assert.deepEqual(env.asked.stopped, ['app-run-1']);
});

test('what could not be stopped is not said to be', async () => {
  const stopRefusal = new FlynnError('unavailable', 'the store elects');
  await using env = await startRunServer({ answer: () => [], isUnplaced: true, stopRefusal });
  const io = env.desk.io({ clock: quickClock() });
  const ran = runCli(['-a', 'app', 'run', 'ls'], io);
  await waitFor(() => env.asked.attach !== undefined, { what: 'the wait for the job', deadlineMs: 30_000 });
  assert.equal(io.signal('SIGINT'), 1);
  assert.equal(await ran, 1);
  assert.match(io.stderr.text, /has not said that app-run-1 was stopped\n {2}"flynn kill -a app app-run-1" does/);
});

test('Ctrl-C before the cluster has said that it began stops it once it has; another leaves that to whoever pressed it', async () => {
  const beginning = Promise.withResolvers<void>();
  await using env = await startRunServer({ answer: () => [], beginning: beginning.promise });
  const start = async (signal: 'SIGINT' | 'SIGTERM') => {
    env.asked.run = undefined;
    const io = env.desk.io();
    const ran = runCli(['-a', 'app', 'run', 'sh'], io);
    await waitFor(() => env.asked.run !== undefined, { what: 'the question', deadlineMs: 30_000 });
    assert.equal(io.signal(signal), 1);
    return { io, ran };
  };
  const left = await start('SIGINT');
  assert.match(left.io.stderr.text, /^flynn: stopping it once the cluster has said that it began; /);
  left.io.signal('SIGINT');
  assert.equal(await left.ran, 1);
  assert.match(left.io.stderr.text, /nobody knows whether it began\n {2}"flynn ps -a app" lists it if it did/);
  assert.deepEqual(env.asked.stopped, []);
  const stopped = await start('SIGTERM');
  beginning.resolve();
  assert.equal(await stopped.ran, 1);
  assert.match(stopped.io.stderr.text, /flynn: stopped: it does not run\n$/);
  assert.deepEqual(env.asked.stopped, ['app-run-1']);
  assert.equal(env.asked.attach, undefined);
});

test('before the first push there is nothing to run in', async () => {
  await using env = await openDeskWithController();
  await env.desk.run(['create', 'hello']);
  const { code, stderr } = await env.desk.run(['-a', 'hello', 'run', 'ls']);
  assert.equal(code, 1);
  assert.match(stderr, /^flynn: hello has no release yet: push code first/);
});

test('after a first release that did not come up it is named, with how to look into it', async () => {
  await using env = await openDeskWithController();
  env.controller.setBehaviour(() => ({ is: 'crash', code: 3 }));
  await env.desk.run(['create', 'hello']);
  const release = await env.controller.makeRelease('hello', { web: {} });
  assert.equal((await env.controller.deploy('hello', release.id)).state, 'failed');
  const { code, stderr } = await env.desk.run(['-a', 'hello', 'run', 'ls']);
  assert.equal(code, 1);
  assert.match(
    stderr,
    /^flynn: nothing of hello is live: v1 did not come up\. "flynn deployment -a hello" says why; "flynn run -r v1 -a hello COMMAND" runs/,
  );
  env.controller.setBehaviour(() => ({ is: 'exit', code: 0 }));
  assert.equal((await env.desk.run(['-a', 'hello', 'run', '-r', 'v1', 'ls'])).code, 0);
});

test('while the first release is being deployed it is named', async () => {
  await using env = await openDeskWithController();
  env.controller.setBehaviour(() => ({ is: 'hang' }));
  await env.desk.run(['create', 'hello']);
  const { id: releaseId } = await env.controller.makeRelease('hello', { web: {} });
  await env.controller.client.call(deployments.create, { params: { app: 'hello' }, body: { releaseId } });
  const { code, stderr } = await env.desk.run(['-a', 'hello', 'run', 'ls']);
  assert.equal(code, 1);
  assert.match(stderr, /^flynn: nothing of hello is live yet: v1 is being deployed\. Wait for it; "flynn run -r v1/);
});

test('`ps` lists jobs by type, by state and for scripts', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('hello', { web: {}, worker: {} });
  await env.desk.run(['-a', 'hello', 'scale', 'worker=1']);
  env.controller.setBehaviour(() => ({ is: 'exit', code: 3 }));
  assert.equal((await env.desk.run(['-a', 'hello', 'run', 'false'])).code, 3);
  const types = async (argv: string[]) =>
    (JSON.parse((await env.desk.run([...argv, '--json'])).stdout) as { type: string }[]).map(({ type }) => type).sort();
  assert.deepEqual(await types(['-a', 'hello', 'ps']), ['web', 'worker']);
  assert.deepEqual(await types(['ps', '-a', 'hello']), ['web', 'worker']);
  assert.deepEqual(await types(['-a', 'hello', 'ps', '-t', 'worker']), ['worker']);
  for (const argv of [
    ['-a', 'hello', 'ps', '-a'],
    ['-a', 'hello', 'ps', '--all'],
    ['ps', '--all', '-a', 'hello'],
  ]) {
    assert.deepEqual(await types(argv), ['run', 'web', 'worker'], argv.join(' '));
  }
  const quiet = await env.desk.run(['-a', 'hello', 'ps', '-aq', '-t', 'run']);
  assert.match(quiet.stdout, /^\S+\n$/);
  const table = (await env.desk.run(['-a', 'hello', 'ps', '--all'])).stdout;
  assert.match(table, new RegExp(`^${quiet.stdout.trim()} +run +failed +host\\d +\\d+s +0 +v1 +exit code 3$`, 'm'));
});

test('`ps` tells when a job that crashed is started again', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('hello', { web: {}, worker: {} });
  env.controller.setBehaviour(() => ({ is: 'crash', code: 3 }));
  await env.desk.run(['-a', 'hello', 'scale', '--timeout', '1', 'worker=1']);
  const isTold = async () =>
    / worker +crashed .*exit code 3; starts again in \d+ s\n/.test((await env.desk.run(['-a', 'hello', 'ps'])).stdout);
  await waitFor(isTold, { what: 'the next start to be told', deadlineMs: 30_000 });
});

test('`kill` stops a job, and one of a formation comes back', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('hello', { web: {} });
  const list = async () =>
    JSON.parse((await env.desk.run(['-a', 'hello', 'ps', '--json'])).stdout) as { id: string; restarts: number }[];
  const [before] = await list();
  assert.ok(before !== undefined);
  const killed = await env.desk.run(['-a', 'hello', 'kill', before.id]);
  assert.deepEqual(killed, { code: 0, stdout: `${before.id} stopped\n`, stderr: '' });
  await waitFor(async () => (await list()).some((job) => job.id !== before.id || job.restarts > before.restarts), {
    what: 'the job to come back',
    deadlineMs: 30_000,
  });
  const unknown = await env.desk.run(['-a', 'hello', 'kill', 'nosuch']);
  assert.equal(unknown.code, 1);
  assert.match(unknown.stderr, /hello has no job nosuch/);
});

test('`kill` of a job that has ended says how and when, and of one that waits to be started again that', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('hello', { web: {}, worker: {} });
  env.controller.setBehaviour(({ template }) =>
    template.meta['flynn.type'] === 'worker' ? { is: 'crash', code: 3 } : { is: 'exit', code: 7 },
  );
  const params = { app: 'hello' };
  const single = await env.controller.client.call(jobs.run, { params, body: { command: ['false'] } });
  const isOver = async () => (await env.desk.run(['-a', 'hello', 'ps', '--all'])).stdout.includes('exit code 7');
  await waitFor(isOver, { what: 'the job to end', deadlineMs: 30_000 });
  const ended = await env.desk.run(['-a', 'hello', 'kill', single.id]);
  assert.equal(ended.code, 0, ended.stderr);
  assert.match(ended.stdout, /had ended before \d+s ago: it is failed \(exit code 7\); "flynn ps" lists what runs\n$/);
  const asJson = await env.desk.run(['-a', 'hello', 'kill', '--json', single.id]);
  assert.deepEqual(JSON.parse(asJson.stdout), { stopped: [], hadEnded: [single.id] });

  await env.desk.run(['-a', 'hello', 'scale', '-n', 'worker=1']);
  const [crashed] = await env.controller.jobsOf('hello', 1, ({ state }) => state === 'crashed');
  const waiting = await env.desk.run(['-a', 'hello', 'kill', crashed?.id ?? '', single.id]);
  assert.equal(waiting.code, 1);
  assert.match(waiting.stdout, /had ended before/, 'the others are seen to as well');
  assert.match(waiting.stderr, /does not run now \(exit code 3\) and starts again in \d+ s: scale worker down instead/);
});
