/** Attaching to real jobs through the API. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeFrame, readFrames } from '@flynn/kit/frames';
import type { Frame } from '@flynn/kit/frames';
import { HttpClient } from '@flynn/kit/http-client';
import { startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { createMemoryStore } from '@flynn/store/memory';
import type { HostJob } from '@flynn/scheduler/cell';
import { routes } from '../api.ts';
import { openDocker, testImage } from '../docker/fixture.ts';
import { jobOf, openHost } from '../host-fixture.ts';
import type { HostFixture } from '../host-fixture.ts';
import { agentHandlers } from '../server.ts';
import { Sessions } from './session.ts';

const image = { name: testImage };
const script = (text: string) => ['sh', '-c', text];
const once = { image, restart: 'never' as const };

function scenario(title: string, run: (world: { agent: HostFixture; client: HttpClient }) => Promise<void>): void {
  test(title, { timeout: 120_000 }, async () => {
    const fixture = await openDocker();
    const store = createMemoryStore();
    const sessions = new Sessions(fixture.engine);
    const agent = await openHost({
      engine: fixture.engine,
      store,
      settings: { cluster: fixture.cluster, networkName: fixture.network.name, gateway: fixture.network.gateway },
      async beforeStart(job, containerId) {
        if (job.template.stdin) await sessions.open(job.id, containerId, { logs: false });
      },
    });
    const log = silentLogger();
    const handlers = agentHandlers({
      engine: fixture.engine,
      containers: agent.containers,
      sessions,
      record: {
        id: 'h1',
        address: '127.0.0.1',
        apiPort: 0,
        capacity: { memoryBytes: 1, cpuMillis: 1 },
        attributes: {},
        cordoned: false,
        startedAt: 0,
      },
      version: 'test',
      statuses: () => [...agent.host.jobs.records.values()].map((record) => record.status),
      statusOf: (jobId) => agent.host.jobs.get(jobId)?.status,
      requestStop: agent.host.requestStop,
      notesOf: () => [],
      log,
    });
    const server = await startServer({ name: 'host-agent', handlers, log, port: 0, host: '127.0.0.1', key: 'k' });
    const client = new HttpClient({ baseUrl: server.url, key: 'k', name: 'the host agent' });
    try {
      await run({ agent, client });
    } finally {
      await client.close();
      await server.close();
      await agent.stop();
      sessions.close();
      await store.close();
      await fixture.close();
    }
  });
}

type Attached = { send(frame: Frame): void; frames: AsyncGenerator<Frame>; destroy(): void };

async function attach(client: HttpClient, job: HostJob, query: Record<string, unknown> = {}): Promise<Attached> {
  const socket = await client.upgrade(routes.attach, { params: { job: job.id }, query });
  return {
    send: (frame) => void socket.write(encodeFrame(frame)),
    frames: readFrames(socket),
    destroy: () => void socket.destroy(),
  };
}

async function all(frames: AsyncIterable<Frame>): Promise<{ output: string; last: Frame | undefined }> {
  let output = '';
  let last: Frame | undefined;
  for await (const frame of frames) {
    if (frame.kind === 'stdout' || frame.kind === 'stderr') output += frame.data.toString();
    last = frame;
  }
  return { output, last };
}

scenario(
  'a client may attach before its job is there, and gets all output and then the exit code',
  async ({ agent, client }) => {
    const job = jobOf('run', { ...once, stdin: true, command: script('printf start; cat; printf end; exit 42') });
    const attached = await attach(client, job, { stdin: true });
    await agent.assign([job]);
    attached.send({ kind: 'stdin', data: Buffer.from('typed\n') });
    attached.send({ kind: 'stdin-end' });
    const { output, last } = await all(attached.frames);
    assert.equal(output, 'starttyped\nend');
    assert.deepEqual(last, { kind: 'exit', code: 42 });
  },
);

scenario('much output arrives complete before the exit', async ({ agent, client }) => {
  const job = jobOf('much', { ...once, stdin: true, command: script('seq 1 200000; exit 7') });
  await agent.assign([job]);
  const attached = await attach(client, job);
  const { output, last } = await all(attached.frames);
  assert.equal(output.length, 1_288_895);
  assert.ok(output.endsWith('199999\n200000\n'));
  assert.deepEqual(last, { kind: 'exit', code: 7 });
});

scenario('a terminal has a prompt, a size that follows the client, and signals', async ({ agent, client }) => {
  const job = jobOf('tty', {
    ...once,
    stdin: true,
    tty: true,
    command: script('printf "$ "; read line; stty size; sleep 1000'),
  });
  await agent.assign([job]);
  const attached = await attach(client, job, { stdin: true, columns: 80, rows: 24 });
  let output = '';
  let last: Frame | undefined;
  for await (const frame of attached.frames) {
    last = frame;
    if (frame.kind === 'stdout') output += frame.data.toString();
    if (output === '$ ') {
      attached.send({ kind: 'resize', columns: 132, rows: 43 });
      attached.send({ kind: 'stdin', data: Buffer.from('go\r') });
    }
    if (output.includes('43 132')) attached.send({ kind: 'signal', signal: 'SIGKILL' });
  }
  assert.match(output, /^\$ go\r\n43 132\r\n/);
  assert.deepEqual(last, { kind: 'exit', code: 137 });
});

scenario('a terminal job whose client goes away is stopped', async ({ agent, client }) => {
  const job = jobOf('left', { ...once, stdin: true, tty: true, command: script('echo here; sleep 1000') });
  await agent.assign([job]);
  const attached = await attach(client, job, { stdin: true });
  for await (const frame of attached.frames) if (frame.kind === 'stdout') break;
  attached.destroy();
  const ended = await agent.reach(job, 'over', (s) => s.isFinal);
  assert.equal(ended.state, 'done');
});

scenario('attached with logs to a job without stdin, output comes from the start', async ({ agent, client }) => {
  const job = jobOf('logs', { ...once, command: script('echo one; echo two; exit 5') });
  await agent.assign([job]);
  await agent.reach(job, 'over', (s) => s.isFinal);
  const { output, last } = await all((await attach(client, job, { logs: true })).frames);
  assert.equal(output, 'one\ntwo\n');
  assert.deepEqual(last, { kind: 'exit', code: 5 });
});

scenario('the log is read as ndjson, followed to the end of the job', async ({ agent, client }) => {
  const command = script('echo one; read line; echo two');
  const job = jobOf('log', { ...once, stdin: true, meta: { app: 'x' }, command });
  await agent.assign([job]);
  const attached = await attach(client, job, { stdin: true });
  const ended = all(attached.frames);
  await agent.reach(job, 'running', (s) => s.state === 'running');
  const stream = await client.stream(routes.log, { params: { job: job.id }, query: { follow: true } });
  let text = '';
  let isTold = false;
  for await (const chunk of stream) {
    text += String(chunk);
    if (isTold || !text.includes('"one"')) continue;
    isTold = true;
    attached.send({ kind: 'stdin', data: Buffer.from('go\n') });
  }
  assert.equal((await ended).output, 'one\ntwo\n');
  const lines = text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { message: string; meta: unknown });
  assert.deepEqual(
    lines.map((line) => line.message),
    ['one', 'two'],
  );
  assert.deepEqual(lines[0]?.meta, { app: 'x' });
  await assert.rejects(client.call(routes.job, { params: { job: 'h1-none' } }), /no job h1-none/);
  assert.deepEqual(
    (await client.call(routes.jobs, { query: {} })).map((status) => status.id),
    [job.id],
  );
});
