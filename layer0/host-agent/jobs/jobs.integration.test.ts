/** Jobs on a real engine: what the pretended one cannot show. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { createMemoryStore } from '@flynn/store/memory';
import { pack } from 'tar-stream';
import { collect, endOf } from '../engine/conformance.ts';
import { openDocker, testImage } from '../docker/fixture.ts';
import type { DockerFixture } from '../docker/fixture.ts';
import { AnnouncerProbe, jobOf, openHost } from '../host-fixture.ts';
import type { HostFixture } from '../host-fixture.ts';
import { label } from '../engine/labels.ts';
import { containerSpecOf } from '../containers/spec.ts';
import type { HostSettings } from '../containers/spec.ts';

const image = { name: testImage };
const script = (text: string) => ['sh', '-c', text];

function settingsOf(fixture: DockerFixture): HostSettings {
  return {
    cluster: fixture.cluster,
    hostId: 'h1',
    externalAddress: '127.0.0.1',
    gateway: fixture.network.gateway,
    networkName: fixture.network.name,
  };
}

function scenario(
  title: string,
  run: (world: { fixture: DockerFixture; agent: HostFixture; again: () => Promise<HostFixture> }) => Promise<void>,
): void {
  test(title, { timeout: 120_000 }, async () => {
    const fixture = await openDocker();
    const store = createMemoryStore();
    const open = () =>
      openHost({ engine: fixture.engine, store, settings: settingsOf(fixture), announcer: new AnnouncerProbe() });
    const agents = [await open()];
    try {
      const again = async () => {
        await agents.at(-1)?.stop();
        const next = await open();
        agents.push(next);
        return next;
      };
      await run({ fixture, agent: agents[0] ?? (await open()), again });
    } finally {
      for (const agent of agents) await agent.stop();
      await store.close();
      await fixture.close();
    }
  });
}

scenario('a job that takes more memory than its limit is told so', async ({ agent }) => {
  const job = jobOf('oom', { image, restart: 'never', command: script('tail /dev/zero') });
  await agent.assign([job]);
  const ended = await agent.reach(job, 'over', (s) => s.isFinal);
  assert.equal(ended.state, 'crashed');
  assert.equal(ended.error, 'killed: out of memory (limit 64 MiB)');
});

scenario('a restarted agent leaves the container running and goes on with it', async ({ fixture, agent, again }) => {
  const job = jobOf('web', {
    image,
    command: script(
      `exec perl -MIO::Socket -e 'my $s=IO::Socket::INET->new(LocalPort=>$ENV{PORT},Listen=>5,ReuseAddr=>1); while(my $c=$s->accept){close $c}'`,
    ),
    ports: [{ port: 8080, protocol: 'tcp', service: { name: 'web' } }],
  });
  await agent.assign([job]);
  const running = await agent.reach(job, 'running', (s) => s.state === 'running');
  assert.equal(agent.announcer.instances.get(`web/${job.id}`)?.address, `${running.address}:8080`);
  const [before] = await fixture.engine.list();
  const second = await again();
  await second.reach(job, 'announced again', () => second.announcer.instances.has(`web/${job.id}`));
  assert.deepEqual(await fixture.engine.list(), [before]);
  assert.equal((await second.statusOf(job))?.restarts, 0);
  await second.assign([{ ...job, desired: 'stop' }]);
  assert.equal((await second.reach(job, 'over', (s) => s.isFinal)).state, 'done');
});

scenario('a job whose network was made anew starts again as it was', async ({ fixture, agent, again }) => {
  const { engine, network, cluster } = fixture;
  const job = jobOf('web', { image, command: script('cat /kept; echo kept > /kept; echo done; exec sleep 1000') });
  await agent.assign([job]);
  await agent.reach(job, 'running', (s) => s.state === 'running');
  const [{ id } = { id: '' }] = await engine.list();
  const written = async () => (await collect(engine.logs(id, { follow: false }))).map((record) => record.message);
  await waitFor(async () => (await written()).includes('done'), { what: 'its first start', deadlineMs: 30_000 });
  await agent.stop();
  await engine.stop(id, { timeoutMs: 1_000 });
  await engine.removeNetwork(network.name);
  await engine.ensureNetwork({ ...network, bridge: `flt${cluster.slice(0, 10)}` });
  const second = await again();
  const { state, error } = await second.reach(job, 'over it', (s) => s.restarts > 0 && s.state !== 'starting');
  assert.deepEqual([state, error], ['running', undefined]);
  assert.equal((await engine.inspect(id)).state, 'running');
  await waitFor(async () => (await written()).includes('kept'), { what: 'what the first kept', deadlineMs: 30_000 });
});

scenario('a job that ignores TERM is killed after its timeout', async ({ fixture, agent }) => {
  const job = jobOf('deaf', {
    image,
    command: script("trap '' TERM; echo ready; sleep 1000 & wait; sleep 1000"),
    stopTimeoutMs: 1_000,
  });
  await agent.assign([job]);
  await agent.reach(job, 'running', (s) => s.state === 'running');
  const id = (await fixture.engine.list())[0]?.id ?? '';
  for await (const line of fixture.engine.logs(id, { follow: true })) if (line.message === 'ready') break;
  await agent.assign([{ ...job, desired: 'stop' }]);
  const ended = await agent.reach(job, 'over', (s) => s.isFinal);
  assert.equal(ended.exitCode, 137);
  assert.equal(ended.state, 'done');
});

scenario('a job sees its environment, its name and its limits', async ({ fixture, agent }) => {
  const job = jobOf('env', {
    image,
    restart: 'never',
    env: { GREETING: 'hello', FLYNN_HOST_ID: 'overridden' },
    ports: [{ port: 5000, protocol: 'tcp' }],
    command: script(
      'echo "$GREETING $PORT $PORT_0 $FLYNN_JOB_ID $FLYNN_HOST_ID $(hostname) $(ulimit -n)"; cat /etc/resolv.conf',
    ),
  });
  await agent.assign([job]);
  await agent.reach(job, 'over', (s) => s.isFinal);
  const id = (await fixture.engine.list())[0]?.id ?? '';
  const [first, ...rest] = (await collect(fixture.engine.logs(id, { follow: false }))).map((r) => r.message);
  assert.equal(first, `hello 5000 5000 ${job.id} overridden ${job.id} 10000`);
  assert.ok(rest.includes(`nameserver ${fixture.network.gateway}`) || rest.includes('nameserver 127.0.0.11'));
  assert.ok(!rest.some((line) => line.startsWith('search')));
});

async function layerOf(files: Record<string, string>): Promise<Buffer> {
  const tar = pack();
  for (const [name, text] of Object.entries(files)) tar.entry({ name }, text);
  tar.finalize();
  return Buffer.concat(await collect<Buffer>(Readable.from(tar)));
}

test('a stack is built once from zstd and gzip layers, the upper over the lower', { timeout: 120_000 }, async () => {
  const lower = zstdCompressSync(await layerOf({ 'app/a': 'lower', 'app/b': 'lower' }));
  const upper = gzipSync(await layerOf({ 'app/b': 'upper' }));
  const blobs = new Map(
    [lower, upper].map((blob) => [`sha256:${createHash('sha256').update(blob).digest('hex')}`, blob]),
  );
  const fetched: string[] = [];
  const fixture = await openDocker({
    fetchBlob: async (digest) => {
      fetched.push(digest);
      return Readable.from([blobs.get(digest) ?? Buffer.from('damaged')]);
    },
  });
  const { engine } = fixture;
  try {
    const layers = [...blobs].map(([digest, { length }]) => ({ digest, sizeBytes: length }));
    const stack = { base: testImage, layers };
    const refs = await Promise.all([engine.ensureImage(stack), engine.ensureImage(stack)]);
    assert.equal(refs[0], refs[1]);
    assert.equal(fetched.length, 2);
    const job = jobOf('s', { command: script('cat /app/a /app/b') });
    const id = await engine.create(containerSpecOf(job, refs[0], settingsOf(fixture)));
    await engine.start(id);
    assert.equal((await endOf(engine, id)).exitCode, 0);
    assert.equal((await collect(engine.logs(id, { follow: false })))[0]?.message, 'lowerupper');
    const images = await engine.listImages();
    // Itself, and the one below that it stands on.
    assert.equal(images.length, 2);
    const built = images.find((info) => info.refs.includes(refs[0]));
    assert.deepEqual(built?.refs, [refs[0]]);
    await assert.rejects(engine.removeImage(built?.id ?? ''), (error) => hasCode(error, 'conflict'));
    const damaged = { base: testImage, layers: [{ digest: `sha256:${'0'.repeat(64)}`, sizeBytes: 1 }] };
    await assert.rejects(
      engine.ensureImage(damaged),
      (error) => hasCode(error, 'invalid') && /damaged/.test(error.message),
    );
  } finally {
    await fixture.close();
  }
});

scenario(
  'what a job uses is told, and limited: memory, processes, network, files, capabilities',
  async ({ fixture, agent }) => {
    const { engine } = fixture;
    const write =
      'dd if=/dev/zero of=/tmp/big bs=1M count=8 2>/dev/null; grep -E "CapBnd|NoNewPrivs" /proc/self/status';
    const job = jobOf('user', {
      image,
      shmBytes: 2 ** 20,
      volumes: [{ name: 'data', path: '/data', isReadOnly: true }],
      command: script(
        `${write}; touch /data/x || echo read-only; df -k /dev/shm | tail -1; echo done; exec sleep 1000`,
      ),
    });
    await agent.assign([job]);
    await agent.reach(job, 'running', (s) => s.state === 'running');
    const id = agent.containers.ofJob(job.id)?.id ?? '';
    const lines = await waitFor(
      async () => {
        const told = (await collect(engine.logs(id, { follow: false }))).map(({ message }) => message);
        return told.includes('done') && told;
      },
      { what: 'its output', deadlineMs: 60_000 },
    );
    const bounding = BigInt(`0x${lines.find((line) => line.startsWith('CapBnd'))?.split('\t')[1] ?? '0'}`);
    // As numbered in capabilities(7): CHOWN, SETUID and NET_BIND_SERVICE stay, NET_RAW and MKNOD do not.
    const has = (bit: bigint) => ((bounding >> bit) & 1n) === 1n;
    assert.deepEqual([0n, 7n, 10n, 13n, 27n].map(has), [true, true, true, false, false]);
    assert.ok(lines.includes('NoNewPrivs:\t1'));
    assert.ok(lines.includes('read-only'));
    assert.ok(
      lines.some((line) => /\s1024\s.*\/dev\/shm/.test(line)),
      lines.join('\n'),
    );

    const usage = await engine.usage(id);
    assert.ok(usage.memoryBytes > 0 && usage.memoryBytes < 64 * 2 ** 20, String(usage.memoryBytes));
    assert.ok(usage.cpuNanoseconds > 0);
    assert.ok(usage.pids >= 1);
    assert.notEqual(usage.network, undefined);
    const { writableBytes } = await engine.diskUse(id);
    assert.ok(writableBytes >= 8 * 2 ** 20 && writableBytes < 10 * 2 ** 20, String(writableBytes));
    await agent.assign([{ ...job, desired: 'stop' }]);
    await agent.reach(job, 'ended', (s) => s.isFinal);
    assert.deepEqual(await engine.usage(id), { memoryBytes: 0, cpuNanoseconds: 0, pids: 0 });
  },
);

scenario(
  'a file of the host stands in for one of an image that says it is the same, and for no other',
  async ({ fixture }) => {
    const { engine } = fixture;
    const source = join(fixture.scratchDir, 'stand-in');
    await writeFile(source, "the host's\n");
    // One stream: the engine promises no order between two.
    const job = jobOf('a', { command: script('exec 2>&1; cat /etc/debian_version; echo x >/etc/debian_version') });
    const spec = containerSpecOf(job, await engine.ensureImage(image), settingsOf(fixture));
    const saidWith = async (value: string): Promise<string> => {
      const standIns = [{ label: label.image, value, source, path: '/etc/debian_version' }];
      const id = await engine.create({ ...spec, name: `${spec.name}-${value}`, standIns });
      await engine.start(id);
      await endOf(engine, id);
      assert.equal((await engine.inspect(id)).labels[label.image], '', 'the image says nothing of its containers');
      const records = await collect(engine.logs(id, { follow: false }));
      return records.map(({ message }) => message).join(' ');
    };
    // It cannot be written to from within.
    assert.match(await saidWith('1'), /^the host's .*Read-only file system/);
    assert.doesNotMatch(await saidWith('other'), /the host's|Read-only/);
  },
);
