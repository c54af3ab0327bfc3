import assert from 'node:assert/strict';
import { mkdtemp, mkdtempDisposable, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import { createLogger, silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import { ContainerTable } from '../containers/table.ts';
import type { Engine } from '../engine/engine.ts';
import { createMemoryEngine } from '../engine/memory.ts';
import { isSingletonContainer } from '../fencing/fence.ts';
import { Residents, residentSchema, residentSpec } from './resident.ts';
import { readVolumesHad, volumesFile } from './resident-volumes.ts';

const host = { cluster: 'test', hostId: 'h1', externalAddress: '127.0.0.1', gateway: '127.0.0.1', networkName: 'n' };

function specOf(name: string, env: Record<string, string> = {}): string {
  const template = {
    image: { name: 'base' },
    command: ['sh', '-c', 'exec sleep 10000'],
    hostNetwork: true,
    env,
    resources: { memoryBytes: 1_000_000, cpuMillis: 0 },
  };
  return JSON.stringify({ name, template, binds: [{ source: '/var/lib/etcd', path: '/data' }] });
}

test('resident jobs run from disk alone, come back after a power cut, and follow their files', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-resident-'));
  const engine = createMemoryEngine({ cluster: 'test' });
  const log = silentLogger();
  const open = (mayStart?: (name: string) => Promise<boolean>) => {
    const tasks = new TaskGroup();
    const containers = new ContainerTable({ engine, log });
    const asked = mayStart === undefined ? {} : { mayStart };
    const residents = new Residents({ dir, engine, containers, host, ...asked, log });
    tasks.run('containers', (signal) => containers.run(signal));
    tasks.run('residents', (signal) => residents.run(signal));
    return tasks;
  };
  const runningNames = async () => (await engine.list()).filter((c) => c.state === 'running').map((c) => c.name);
  const reach = (what: string, expected: string[]) =>
    waitFor(async () => (await runningNames()).sort().join() === expected.join(), { what, deadlineMs: 60_000 });

  await writeFile(join(dir, 'etcd.json'), specOf('etcd'));
  await writeFile(join(dir, 'broken.json'), '{');
  let tasks = open();
  await reach('etcd to run', ['flynn-test-resident-etcd']);
  const [first] = await engine.list();
  await tasks.stop();
  engine.losePower();
  await reach('the power to be off', []);

  const asked: string[] = [];
  let may = false;
  tasks = open(async (name) => asked.push(name) > 0 && may);
  await waitFor(() => asked.length > 0, { what: 'it to be asked for', deadlineMs: 60_000 });
  assert.deepEqual(await runningNames(), []);
  may = true;
  await reach('etcd to run again', ['flynn-test-resident-etcd']);
  assert.equal((await engine.list())[0]?.id, first?.id);
  // Once it has run it is started again whoever says what.
  may = false;
  const { length } = asked;
  engine.losePower();
  await reach('etcd to run once more', ['flynn-test-resident-etcd']);
  assert.equal(asked.length, length);
  await tasks.stop();

  await writeFile(join(dir, 'etcd.json'), specOf('etcd', { CHANGED: 'yes' }));
  tasks = open();
  await waitFor(async () => (await engine.list()).some((c) => c.id !== first?.id && c.state === 'running'), {
    what: 'the changed spec to run',
    deadlineMs: 60_000,
  });
  await rm(join(dir, 'etcd.json'));
  await reach('it to be gone with its file', []);
  assert.equal((await engine.list()).length, 0);
  await tasks.stop();
  await rm(dir, { recursive: true });
});

test('one that may not run any more is stopped, and is asked for again before it is started', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-resident-'));
  const engine = createMemoryEngine({ cluster: 'test' });
  const log = silentLogger();
  const { signal } = new AbortController();
  await writeFile(join(dir, 'etcd.json'), specOf('etcd'));
  const containers = new ContainerTable({ engine, log });
  await containers.refresh();
  const may = { start: true, run: true };
  const residents = new Residents({
    dir,
    engine,
    containers,
    host,
    mayStart: async () => may.start,
    mayRun: async () => may.run,
    log,
  });
  const states = async () => (await engine.list()).map(({ state }) => state);
  const converge = async () => {
    await residents.converge(signal);
    return states();
  };
  assert.deepEqual(await converge(), ['running']);
  may.start = false;
  assert.deepEqual(await converge(), ['running']);
  may.run = false;
  assert.deepEqual(await converge(), ['exited']);
  may.run = true;
  assert.deepEqual(await converge(), ['exited'], 'it was let start once');
  may.start = true;
  assert.deepEqual(await converge(), ['running']);
  engine.losePower();
  await rm(dir, { recursive: true });
});

test('none begins with nothing in the place of what it had: it waits for its volume, or to be another one', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-resident-'));
  const engine = createMemoryEngine({ cluster: 'test' });
  const withVolume = (volume: string) => {
    const resources = { memoryBytes: 1_000_000, cpuMillis: 0 };
    const volumes = [{ name: volume, path: '/data' }];
    const template = { image: { name: 'base' }, command: ['sh', '-c', 'exec sleep 10000'], volumes, resources };
    return writeFile(join(dir, 'etcd.json'), JSON.stringify({ name: 'etcd', template }));
  };
  const said = new PassThrough();
  const log = createLogger('residents', { destination: said });
  const signal = new AbortController().signal;
  const open = async () => {
    const containers = new ContainerTable({ engine, log });
    await containers.refresh();
    return { residents: new Residents({ dir, engine, containers, host, log }), containers };
  };
  const removeContainers = async () => {
    for (const { id } of await engine.list()) await engine.remove(id);
  };
  const volumes = async () => (await engine.listVolumes()).map(({ name }) => name);
  await withVolume('etcd');
  const first = await open();
  await first.residents.converge(signal);
  await first.residents.converge(signal);
  assert.deepEqual([await volumes(), first.residents.hasLostData('etcd')], [['flynn-test.etcd'], false]);

  await removeContainers();
  await engine.removeVolume('flynn-test.etcd');
  const second = await open();
  for (let round = 0; round < 2; round += 1) await second.residents.converge(signal);
  assert.deepEqual([await volumes(), await engine.list(), second.residents.hasLostData('etcd')], [[], [], true]);
  assert.match(String(said.read()), /has flynn-test\.etcd no more/);

  await engine.ensureVolume('flynn-test.etcd');
  await second.residents.converge(signal);
  assert.deepEqual([(await engine.list()).length, second.residents.hasLostData('etcd')], [1, false]);

  await removeContainers();
  await engine.removeVolume('flynn-test.etcd');
  await withVolume('etcd-77');
  const third = await open();
  await third.residents.converge(signal);
  assert.deepEqual([await volumes(), third.residents.hasLostData('etcd')], [['flynn-test.etcd-77'], false]);

  await third.residents.converge(signal);
  await writeFile(volumesFile(dir), '{');
  const fourth = await open();
  await fourth.residents.converge(signal);
  assert.deepEqual(await readVolumesHad(dir), { etcd: ['flynn-test.etcd-77'] }, 'a damaged note is made anew');
  await removeContainers();
  await rm(dir, { recursive: true });
});

test('one whose spec cannot be read runs on and is started again as it is; only one that is not there is taken away', async () => {
  const [cut, later] = [
    specOf('etcd').slice(0, 40),
    specOf('etcd').replace('{', '{"published":[{"hostPort":1,"port":1,"protocol":"sctp"}],'),
  ];
  for (const damaged of [cut, later]) {
    await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-resident-'));
    const file = join(folder.path, 'etcd.json');
    const engine = createMemoryEngine({ cluster: 'test' });
    const log = silentLogger();
    const { signal } = new AbortController();
    const may = { start: true, run: true };
    const open = () => {
      const containers = new ContainerTable({ engine, log });
      const admission = { mayStart: async () => may.start, mayRun: async () => may.run };
      const residents = new Residents({ dir: folder.path, engine, containers, host, ...admission, log });
      return async () => {
        await containers.refresh();
        await residents.converge(signal);
        return (await engine.list()).map(({ name, state }) => `${name.replace('flynn-test-resident-', '')} ${state}`);
      };
    };
    await writeFile(file, specOf('etcd'));
    await writeFile(join(folder.path, 'other.json'), specOf('other'));
    const converge = open();
    assert.deepEqual((await converge()).sort(), ['etcd running', 'other running']);
    const id = (await engine.list()).find(({ name }) => name.endsWith('etcd'))?.id ?? '';
    await writeFile(file, damaged);
    assert.deepEqual((await converge()).sort(), ['etcd running', 'other running']);
    await rm(join(folder.path, 'other.json'));
    assert.deepEqual(await converge(), ['etcd running'], 'others come and go');

    engine.losePower();
    may.start = false;
    const again = open();
    assert.deepEqual(await again(), ['etcd exited']);
    may.start = true;
    assert.deepEqual(await again(), ['etcd running'], 'after a power cut it is started by what is there of it');
    may.run = false;
    assert.deepEqual(await again(), ['etcd exited'], 'what may not run here is stopped, whatever its spec');
    may.run = true;
    // Another agent: this one gives what ended twice in a row a moment.
    const third = open();
    assert.deepEqual(await third(), ['etcd running']);
    assert.equal((await engine.inspect(id)).id, id);

    await engine.remove(id);
    assert.deepEqual(await third(), [], 'of one that is gone nothing says how to begin');
    await writeFile(file, specOf('etcd'));
    assert.deepEqual(await third(), ['etcd running']);
    await rm(file);
    assert.deepEqual(await third(), []);
  }
});

test('none begins while the disk does not say what it has had', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-resident-'));
  const engine = createMemoryEngine({ cluster: 'test' });
  const log = silentLogger();
  const { signal } = new AbortController();
  await writeFile(join(folder.path, 'etcd.json'), specOf('etcd'));
  // Of a process's memory nothing can be read at its beginning: EIO.
  await symlink('/proc/self/mem', volumesFile(folder.path));
  const containers = new ContainerTable({ engine, log });
  await containers.refresh();
  const residents = new Residents({ dir: folder.path, engine, containers, host, log });
  await assert.rejects(residents.converge(signal), { code: 'unavailable' });
  assert.deepEqual(await engine.list(), []);
  await rm(volumesFile(folder.path));
  await residents.converge(signal);
  assert.equal((await engine.list()).length, 1);
  engine.losePower();
});

test('a resident job whose container the engine is to remove, and never starts again, has another one', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-resident-'));
  const engine = createMemoryEngine({ cluster: 'test' });
  const log = silentLogger();
  await writeFile(join(dir, 'etcd.json'), specOf('etcd'));
  const open = async (one: Engine) => {
    const containers = new ContainerTable({ engine: one, log });
    await containers.refresh();
    return new Residents({ dir, engine: one, containers, host, log });
  };
  const { signal } = new AbortController();
  await (await open(engine)).converge(signal);
  const [{ id: dead } = { id: '' }] = await engine.list();
  await engine.stop(dead, { timeoutMs: 0 });
  const start: Engine['start'] = async (id, call) => {
    if (id === dead) throw new FlynnError('conflict', 'the container is marked for removal and cannot be started');
    return engine.start(id, call);
  };
  const residents = await open({ ...engine, start });
  await waitFor(() => residents.converge(signal), { what: 'a start', deadlineMs: 60_000 });
  assert.deepEqual(
    (await engine.list()).map(({ id, state }) => [id === dead, state]),
    [[false, 'running']],
  );
  engine.losePower();
  await rm(dir, { recursive: true });
});

test('one that hangs is not begun a second time while another one fails and is tried again, nor is it removed meanwhile', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-resident-'));
  const memory = createMemoryEngine({ cluster: 'test' });
  const log = silentLogger();
  const { signal } = new AbortController();
  const goOn = Promise.withResolvers<void>();
  const calls: string[] = [];
  const create: Engine['create'] = async (spec, call) => {
    calls.push(spec.name);
    if (spec.name.endsWith('other')) throw new FlynnError('unavailable', 'the engine is busy');
    const id = await memory.create(spec, call);
    await goOn.promise;
    return id;
  };
  const engine: Engine = { ...memory, create };
  const containers = new ContainerTable({ engine, log });
  await containers.refresh();
  const residents = new Residents({ dir: folder.path, engine, containers, host, log });
  for (const name of ['etcd', 'other']) await writeFile(join(folder.path, `${name}.json`), specOf(name));
  const ofEtcd = () => calls.filter((name) => name.endsWith('etcd')).length;
  for (let round = 0; round < 2; round += 1) await assert.rejects(residents.converge(signal), { code: 'unavailable' });
  await waitFor(() => ofEtcd() > 0, { what: 'the one that hangs to begin', deadlineMs: 60_000 });
  await assert.rejects(residents.converge(signal), { code: 'unavailable' });
  assert.equal(ofEtcd(), 1);
  await rm(join(folder.path, 'etcd.json'));
  await containers.refresh();
  await assert.rejects(residents.converge(signal), { code: 'unavailable' });
  assert.equal((await memory.list()).length, 1, 'whoever makes it is not through with it');
  goOn.resolve();
  await rm(join(folder.path, 'other.json'));
  const isGone = async () => {
    await residents.converge(signal);
    return (await memory.list()).length === 0;
  };
  await waitFor(isGone, { what: 'it to go once that has ended', deadlineMs: 60_000 });
});

test('one that hangs keeps no other from beginning, nor what is gone from being taken away, and says at last what became of it', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-resident-'));
  const memory = createMemoryEngine({ cluster: 'test' });
  const said = new PassThrough();
  const log = createLogger('residents', { destination: said });
  const stuck = Promise.withResolvers<never>();
  const start: Engine['start'] = async (id, call) => {
    const { name } = await memory.inspect(id);
    return name.endsWith('stuck') ? stuck.promise : memory.start(id, call);
  };
  const engine: Engine = { ...memory, start };
  const containers = new ContainerTable({ engine, log });
  const residents = new Residents({ dir: folder.path, engine, containers, host, stepPatienceMs: 100, log });
  const { signal } = new AbortController();
  const running = async () => {
    await containers.refresh();
    await residents.converge(signal);
    return (await memory.list()).filter(({ state }) => state === 'running').map(({ name }) => name);
  };
  const reach = (expected: string[]) =>
    waitFor(async () => (await running()).join() === expected.join(), { what: 'these to run', deadlineMs: 60_000 });
  await writeFile(join(folder.path, 'stuck.json'), specOf('stuck'));
  await reach([]);
  await writeFile(join(folder.path, 'other.json'), specOf('other'));
  await reach(['flynn-test-resident-other']);
  await rm(join(folder.path, 'other.json'));
  await reach([]);
  stuck.reject(new FlynnError('timeout', 'the engine took too long'));
  const isSaid = () => String(said.read() ?? '').includes('the engine took too long');
  await waitFor(isSaid, { what: 'it to be said', deadlineMs: 60_000 });
});

test('one that the engine does not let go keeps no other from beginning, and that is told each time', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-resident-'));
  const memory = createMemoryEngine({ cluster: 'test' });
  const remove: Engine['remove'] = () => Promise.reject(new FlynnError('internal', 'its files are busy'));
  const log = silentLogger();
  const engine: Engine = { ...memory, remove };
  const containers = new ContainerTable({ engine, log });
  const residents = new Residents({ dir: folder.path, engine, containers, host, log });
  const { signal } = new AbortController();
  await writeFile(join(folder.path, 'former.json'), specOf('former'));
  await residents.converge(signal);
  await rm(join(folder.path, 'former.json'));
  await writeFile(join(folder.path, 'etcd.json'), specOf('etcd'));
  await containers.refresh();
  await assert.rejects(residents.converge(signal), /its files are busy/);
  const running = (await memory.list()).filter(({ state }) => state === 'running').map(({ name }) => name);
  memory.losePower();
  assert.ok(running.includes('flynn-test-resident-etcd'), running.join());
});

test('a resident job with a volume is not stopped for the lease: no host has one before the store is back', () => {
  const resources = { memoryBytes: 1_000_000, cpuMillis: 0 };
  const template = { image: { name: 'base' }, volumes: [{ name: 'etcd', path: '/data' }], resources };
  const { labels } = residentSpec(residentSchema.parse({ name: 'etcd', template }), 'base', host);
  assert.equal(isSingletonContainer({ labels }), false);
  const { 'flynn.resident': _resident, ...ofAnyJob } = labels;
  assert.equal(isSingletonContainer({ labels: ofAnyJob }), true);
});
