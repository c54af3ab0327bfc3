/** What every driver of the Engine port has to pass. Programs are `sh -c` scripts both engines understand. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { shortId } from '@flynn/kit/ids';
import { waitFor } from '@flynn/kit/retry';
import { testLabels } from '@flynn/kit/testing-label';
import type { Container, ContainerSpec, Engine, EngineEvent, LogRecord } from './engine.ts';

export type Subject = {
  engine: Engine;
  cluster: string;
  imageName: string;
  network: ContainerSpec['network'];
  close(): Promise<void>;
};

const deadlineMs = 30_000;

export function testEngine(name: string, open: () => Promise<Subject>): void {
  const scenario = (title: string, run: (subject: Subject) => Promise<void>) => {
    void test(`${name}: ${title}`, { timeout: 120_000 }, async () => {
      const subject = await open();
      try {
        await run(subject);
      } finally {
        for (const container of await subject.engine.list()) await subject.engine.remove(container.id);
        await subject.close();
      }
    });
  };

  scenario('a container runs, ends, and tells its exit code and output', async (subject) => {
    const { engine } = subject;
    const id = await engine.create(await specOf(subject, 'echo hello; echo trouble >&2; exit 42'));
    assert.equal((await engine.inspect(id)).state, 'created');
    await engine.start(id);
    const ended = await endOf(engine, id);
    assert.equal(ended.exitCode, 42);
    assert.equal(ended.isOutOfMemory, false);
    assert.ok((ended.endedAtMs ?? 0) >= (ended.startedAtMs ?? Infinity));
    const records = await collect(engine.logs(id, { follow: false }));
    assert.deepEqual(sortedMessages(records), ['stderr trouble', 'stdout hello']);
  });

  scenario('a started container is running with an address, and started again is no error', async (subject) => {
    const { engine } = subject;
    const id = await engine.create(await specOf(subject, 'exec sleep 1000'));
    const started = await engine.start(id);
    assert.equal(started.state, 'running');
    assert.match(started.address ?? '', /^\d+\.\d+\.\d+\.\d+$/);
    await engine.start(id);
    assert.deepEqual(
      (await engine.list()).map((c) => c.id),
      [id],
    );
    assert.equal((await engine.list())[0]?.labels['flynn.job'], started.labels['flynn.job']);
  });

  scenario('a name is taken once', async (subject) => {
    const { engine } = subject;
    const spec = await specOf(subject, 'exit 0');
    const id = await engine.create(spec);
    await assert.rejects(engine.create(spec), (error) => hasCode(error, 'conflict'));
    assert.equal((await engine.inspect(spec.name)).id, id);
  });

  scenario('what is not there is not_found, and removing it is fine', async ({ engine }) => {
    await assert.rejects(engine.inspect('no-such-container'), (error) => hasCode(error, 'not_found'));
    await engine.remove('no-such-container');
    await assert.rejects(engine.ensureImage({ name: 'flynn-test/absent:1' }), (error) => hasCode(error, 'not_found'));
    await assert.rejects(engine.exportImages(['flynn-test/absent:1']), (error) => hasCode(error, 'not_found'));
    await assert.rejects(engine.imageEnv('flynn-test/absent:1'), (error) => hasCode(error, 'not_found'));
  });

  scenario('stop is TERM, and KILL for who ignores it', async (subject) => {
    const { engine } = subject;
    const polite = await engine.create(await specOf(subject, 'echo ready; exec sleep 1000'));
    const stubborn = await engine.create(await specOf(subject, "trap '' TERM; echo ready; sleep 1000"));
    await engine.start(polite);
    await engine.start(stubborn);
    // A process hears no signal before its init does.
    await Promise.all([firstRecord(engine, polite), firstRecord(engine, stubborn)]);
    await Promise.all([engine.stop(polite, { timeoutMs: 20_000 }), engine.stop(stubborn, { timeoutMs: 1_000 })]);
    assert.equal((await engine.inspect(polite)).exitCode, 143);
    assert.equal((await engine.inspect(stubborn)).exitCode, 137);
    await engine.stop(polite, { timeoutMs: 1_000 });
    await assert.rejects(engine.signal(polite, 'SIGTERM'), (error) => hasCode(error, 'conflict'));
  });

  scenario('events tell of start, end and removal', async (subject) => {
    const { engine } = subject;
    const ending = new AbortController();
    const seen: EngineEvent[] = [];
    const listening = (async () => {
      for await (const event of engine.events({ signal: ending.signal })) seen.push(event);
    })();
    const id = await engine.create(await specOf(subject, 'exec sleep 1000'));
    await engine.start(id);
    await waitFor(() => seen.some((e) => e.type === 'started'), { what: 'the start event', deadlineMs });
    await engine.signal(id, 'SIGKILL');
    await waitFor(() => seen.some((e) => e.type === 'ended'), { what: 'the end event', deadlineMs });
    await engine.remove(id);
    await waitFor(() => seen.some((e) => e.type === 'removed'), { what: 'the removal event', deadlineMs });
    assert.ok(seen.every((event) => event.containerId === id));
    ending.abort();
    await listening;
  });

  scenario('a log is followed to its end, and read again from a point in time', async (subject) => {
    const { engine } = subject;
    const id = await engine.create(await specOf(subject, 'echo one; sleep 0.2; echo two; sleep 0.2; echo three'));
    await engine.start(id);
    const all = await collect(engine.logs(id, { follow: true }));
    assert.deepEqual(
      all.map((r) => r.message),
      ['one', 'two', 'three'],
    );
    const sinceNs = all[1]?.timestampNs ?? 0n;
    const later = await collect(engine.logs(id, { follow: false, sinceNs }));
    assert.deepEqual(
      later.map((r) => r.message),
      ['two', 'three'],
    );
    const newest = await collect(engine.logs(id, { follow: false, tail: 1 }));
    assert.deepEqual(
      newest.map((r) => r.message),
      ['three'],
    );
  });

  scenario('following a log ends with its signal', async (subject) => {
    const { engine } = subject;
    const id = await engine.create(await specOf(subject, 'echo one; sleep 1000'));
    await engine.start(id);
    const ending = new AbortController();
    const messages: string[] = [];
    for await (const record of engine.logs(id, { follow: true, signal: ending.signal })) {
      messages.push(record.message);
      ending.abort();
    }
    assert.deepEqual(messages, ['one']);
  });

  scenario('attached before the start, input goes in and all output comes out', async (subject) => {
    const { engine } = subject;
    const id = await engine.create({ ...(await specOf(subject, 'echo ready; cat; exit 3')), stdin: true });
    using attachment = await engine.attach(id, { stdin: true, logs: false });
    await engine.start(id);
    await attachment.write(Buffer.from('spoken\n'));
    attachment.endInput();
    const chunks = await collect(attachment.output);
    assert.equal(Buffer.concat(chunks.map((c) => c.data)).toString(), 'ready\nspoken\n');
    assert.equal((await endOf(engine, id)).exitCode, 3);
  });

  scenario('a process beside it has its own input, output, environment and exit code', async (subject) => {
    const { engine } = subject;
    const id = await engine.create(await specOf(subject, 'sleep 1000'));
    await engine.start(id);
    const script = 'echo out; echo err >&2; printenv GREETING; cat; exit 7';
    const env = { GREETING: 'hello there' };
    using beside = await engine.exec(id, { command: ['sh', '-c', script], env, tty: false, stdin: true });
    await beside.write(Buffer.from('spoken\n'));
    beside.endInput();
    const chunks = await collect(beside.output);
    const textOf = (stream: string) =>
      Buffer.concat(chunks.filter((c) => c.stream === stream).map((c) => c.data)).toString();
    assert.equal(textOf('stdout'), 'out\nhello there\nspoken\n');
    assert.equal(textOf('stderr'), 'err\n');
    assert.equal(await beside.exitCode(), 7);
    assert.equal((await engine.inspect(id)).state, 'running');
  });

  scenario(
    'a process beside it is signalled by itself, and none starts in a container that does not run',
    async (subject) => {
      const { engine } = subject;
      const id = await engine.create(await specOf(subject, 'sleep 1000'));
      const command = ['sh', '-c', 'echo ready; exec sleep 1000'];
      await assert.rejects(engine.exec(id, { command, tty: false, stdin: false }), (error) =>
        hasCode(error, 'conflict'),
      );
      await engine.start(id);
      using beside = await engine.exec(id, { command, tty: false, stdin: false });
      for await (const chunk of beside.output) {
        assert.equal(chunk.data.toString(), 'ready\n');
        break;
      }
      await beside.signal('SIGTERM');
      assert.equal(await beside.exitCode(), 143);
      await beside.signal('SIGTERM');
      assert.equal((await engine.inspect(id)).state, 'running');
    },
  );

  scenario('attached with logs, the output so far comes first', async (subject) => {
    const { engine } = subject;
    const id = await engine.create(await specOf(subject, 'echo before; sleep 1000'));
    await engine.start(id);
    await firstRecord(engine, id);
    using attachment = await engine.attach(id, { stdin: false, logs: true });
    for await (const chunk of attachment.output) {
      assert.equal(chunk.data.toString(), 'before\n');
      break;
    }
  });

  scenario('the environment and the terminal are as asked for', async (subject) => {
    const { engine } = subject;
    const spec = await specOf(subject, 'printenv GREETING; sleep 1000');
    const id = await engine.create({ ...spec, tty: true, env: { ...spec.env, GREETING: 'hello there' } });
    const started = await engine.start(id);
    assert.equal(started.tty, true);
    await engine.resize(id, { columns: 132, rows: 43 });
    assert.equal((await firstRecord(engine, id)).message, 'hello there');
    assert.ok((await engine.usage(id)).pids > 0);
  });

  scenario('volumes outlive containers and are not removed while in use', async (subject) => {
    const { engine, cluster } = subject;
    const name = `flynn-${cluster}.${shortId()}`;
    await engine.ensureVolume(name, { labels: { 'flynn.meta.of': 'one' } });
    await engine.ensureVolume(name, { labels: { 'flynn.meta.of': 'another' } });
    const id = await engine.create({ ...(await specOf(subject, 'exit 0')), volumes: [{ name, path: '/data' }] });
    await assert.rejects(engine.removeVolume(name), (error) => hasCode(error, 'conflict'));
    assert.deepEqual((await engine.inspect(id)).volumes, [name]);
    await engine.remove(id);
    const kept = (await engine.listVolumes()).find((volume) => volume.name === name);
    assert.equal(kept?.labels['flynn.meta.of'], 'one');
    const bytes = await engine.volumeBytes(name);
    assert.ok(bytes !== undefined && bytes >= 0 && bytes < 2 ** 20, String(bytes));
    await engine.removeVolume(name);
    await engine.removeVolume(name);
    await assert.rejects(engine.volumeBytes(name), (error) => hasCode(error, 'not_found'));
    // One that went before the container was made is made with it, and is nobody else's.
    const labelled = [{ name, path: '/data', labels: { 'flynn.meta.of': 'third' } }];
    const second = await engine.create({ ...(await specOf(subject, 'exit 0')), volumes: labelled });
    assert.equal(await engine.hasVolume(name), true);
    const made = (await engine.listVolumes()).find((volume) => volume.name === name);
    assert.equal(made?.labels['flynn.meta.of'], 'third');
    await engine.remove(second);
    await engine.removeVolume(name);
    assert.ok(!(await engine.listVolumes()).some((volume) => volume.name === name));
    assert.equal(await engine.hasVolume(name), false);
  });
}

/** Of a container with that as its program. */
export async function specOf(
  { engine, imageName, network }: Pick<Subject, 'engine' | 'imageName' | 'network'>,
  script: string,
): Promise<ContainerSpec> {
  const jobId = `h1-${shortId()}`;
  return {
    name: `flynn-conformance-${jobId}`,
    labels: { 'flynn.job': jobId, ...testLabels },
    imageRef: await engine.ensureImage({ name: imageName }),
    hostname: jobId,
    command: ['sh', '-c', script],
    env: { PATH: '/usr/bin:/bin' },
    network,
    volumes: [],
    tty: false,
    stdin: false,
    limits: { memoryBytes: 64 * 2 ** 20, cpuMillis: 100, pids: 50, files: 100 },
  };
}

export async function endOf(engine: Engine, id: string): Promise<Container> {
  return waitFor(
    async () => {
      const container = await engine.inspect(id);
      return container.state === 'exited' && container;
    },
    { what: 'the container to end', deadlineMs, intervalMs: 10 },
  );
}

async function firstRecord(engine: Engine, id: string): Promise<LogRecord> {
  return waitFor(async () => (await collect(engine.logs(id, { follow: false })))[0], {
    what: 'the first line',
    deadlineMs,
    intervalMs: 20,
  });
}

export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

/** The order of two streams is the engine's affair. */
function sortedMessages(records: readonly LogRecord[]): string[] {
  return records.map((record) => `${record.stream} ${record.message}`).sort();
}
