import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Command } from 'commander';
import { newId } from '@flynn/kit/ids';
import { silentLogger } from '@flynn/kit/log';
import { startLoopback } from '@flynn/kit/loopback';
import { waitFor } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import { cellKeys } from '@flynn/scheduler/cell';
import { workloadChange } from '@flynn/scheduler/evaluations';
import { hostOf, hostPut, stepHost, wellBehaved, workloadInputOf } from '@flynn/scheduler/testing';
import { createMemoryStore } from '@flynn/store/memory';
import { workloadRoutes } from './api.ts';
import type { WorkloadDetail } from './api.ts';
import { addWorkloadCommands } from '../cli/workloads.ts';
import { startOwnScheduler } from '../own-scheduler.ts';
import { workloadHandlers } from './server.ts';

const example = fileURLToPath(new URL('../../scheduler/examples/cheapest-host-first.ts', import.meta.url));
const mebibyte = 2 ** 20;

const file = (id: string, more: object = {}, template: object = {}) => ({
  id,
  template: { image: { name: 'base' }, resources: { memoryBytes: 100 * mebibyte, cpuMillis: 100 }, ...template },
  ...more,
});

/** Two hosts, `h1` dearer than `h2`, that run what they are assigned; an agent's API; the command on it. */
async function openPool(options: { schedulerPaths?: string[] } = {}) {
  const store = createMemoryStore();
  const tasks = new TaskGroup();
  const folder = await mkdtemp(join(tmpdir(), 'flynn-workloads-'));
  const hosts = ['h1', 'h2'].map((id) => hostOf(id, { attributes: { price: id === 'h1' ? '5' : '2' } }));
  await store.transact({ then: hosts.map(hostPut) });
  const { schedulerPaths = [] } = options;
  const started = await Promise.all(
    hosts.map(({ id }) =>
      startOwnScheduler({ store, id, schedulerPaths, takeoverMs: 200, log: silentLogger() }, tasks),
    ),
  );
  const loopback = await startLoopback(workloadHandlers(store));
  const { client } = loopback;

  return {
    store,
    client,
    fault: started[0]?.fault,
    folder,
    /** Runs the command in this process; answers what it printed. */
    async run(...argv: string[]): Promise<string> {
      let printed = '';
      const program = new Command('flynn-host').exitOverride();
      addWorkloadCommands({
        program,
        withAgent: (work) => work(client),
        print: (text) => (printed += text),
        installation: () => assert.fail('no command about workloads needs to know the installation'),
      });
      await program.parseAsync(argv, { from: 'user' });
      return printed;
    },
    async write(name: string, value: unknown): Promise<string> {
      const path = join(folder, name);
      await writeFile(path, JSON.stringify(value));
      return path;
    },
    reach: (id: string, isWanted: (detail: WorkloadDetail) => boolean): Promise<WorkloadDetail> =>
      waitFor(
        async () => {
          for (const { id: hostId } of hosts) await stepHost(store, hostId, wellBehaved, { now: Date.now(), newId });
          const detail = await client.call(workloadRoutes.get, { params: { workload: id } });
          return isWanted(detail) ? detail : undefined;
        },
        { what: `${id} to be as wanted`, deadlineMs: 60_000, intervalMs: 5 },
      ),
    async [Symbol.asyncDispose]() {
      await loopback[Symbol.asyncDispose]();
      await tasks.stop();
      await store.close();
      await rm(folder, { recursive: true });
    },
  };
}

test('a workload of a file runs on the pool, is changed by the file, told of, and removed', async () => {
  await using pool = await openPool();
  const path = await pool.write('web.json', file('web', { count: 3 }));
  assert.match(await pool.run('workload', 'apply', path), /^web added: service, 3 wanted, version [0-9a-f]{16}\n$/);
  const { list, workload } = await pool.reach('web', ({ jobs }) => jobs['running'] === 3);
  assert.deepEqual(new Set(list.map(({ hostId }) => hostId)), new Set(['h1', 'h2']));
  const table = await pool.run('workload', 'list');
  assert.match(table, new RegExp(`^ID +KIND +WANTED +RUNNING.*\\nweb +service +3 +3 +${workload.version} +- +-\\n$`));

  await pool.write('web.json', file('web', { count: 1 }, { env: { MODE: 'new' } }));
  assert.match(await pool.run('workload', 'apply', path), /^web changed: service, 1 wanted/);
  const changed = await pool.reach('web', ({ jobs, list: all, workload: now }) => {
    const isNew = all.some(({ state, version }) => state === 'running' && version === now.version);
    return jobs['running'] === 1 && isNew;
  });
  assert.equal(changed.template?.env['MODE'], 'new');
  const shown = await pool.run('workload', 'show', 'web');
  assert.match(shown, /^workload +web\n/);
  assert.match(shown, /\nEVALUATION +CAUSE +STATE/);
  assert.equal(JSON.parse(await pool.run('workload', 'show', 'web', '--json')).workload.count, 1);

  assert.equal(await pool.run('workload', 'remove', 'web'), 'web removed\n');
  await assert.rejects(pool.run('workload', 'show', 'web'), /no workload web: "flynn-host workload list"/);
  await assert.rejects(pool.run('workload', 'remove', 'web'), /no workload web/);
});

test('what does not fit says why', async () => {
  await using pool = await openPool();
  await pool.run('workload', 'apply', await pool.write('big.json', file('big', { count: 30 })));
  const { waiting } = await pool.reach('big', (detail) => detail.waiting !== undefined);
  assert.match(waiting ?? '', /^20 placed, 10 waiting: memory/);
  assert.match(await pool.run('workload', 'list'), /big +service +30 +\d+ .* 20 placed, 10 waiting: memory/);
});

test('jobs of a host that died are lost', async () => {
  await using pool = await openPool();
  await pool.run('workload', 'apply', await pool.write('web.json', file('web', { count: 2 })));
  const { list } = await pool.reach('web', ({ jobs }) => jobs['running'] === 2);
  const gone = list.find(({ hostId }) => hostId === 'h2');
  await pool.store.transact({ then: [{ delete: cellKeys.host('h2') }] });
  const after = await pool.reach('web', ({ jobs }) => jobs['lost'] === 1 && jobs['running'] === 2);
  assert.equal(after.list.find(({ id }) => id === gone?.id)?.error, 'its host h2 is away');
});

test('mistakes are refused before anything is changed', async () => {
  await using pool = await openPool();
  const good = await pool.write('good.json', file('good'));
  const bad = await pool.write('bad.json', file('bad', { coutn: 3 }));
  await assert.rejects(pool.run('workload', 'apply', good, bad), /bad\.json is no workload: it has no "coutn"/);
  await assert.rejects(pool.run('workload', 'apply', join(pool.folder, 'none.json')), /cannot read .*none\.json/);
  assert.deepEqual(await pool.client.call(workloadRoutes.list, {}), []);
  const put = (workload: string, body: unknown) => pool.client.call(workloadRoutes.put, { params: { workload }, body });
  await assert.rejects(put('other', file('web')), /the workload's id is web, not other/);
  await assert.rejects(put('web', { id: 'web' }), /workload web is no workload:\n.*\n.*at template/);

  await put('web', file('web', { version: 'v1' }));
  await put('web', file('web', { version: 'v1', count: 2 }));
  await assert.rejects(
    put('web', file('web', { version: 'v1' }, { env: { A: '1' } })),
    /version v1 of web has another template already: name another version, or none/,
  );
});

test('a workload of an app is the app’s to change', async () => {
  await using pool = await openPool();
  const meta = { 'flynn.app': 'a1', 'flynn.app_name': 'shop' };
  const input = workloadInputOf({ id: 'a1-r1-web', template: { meta } });
  await pool.store.transact({ then: workloadChange(input, { now: Date.now(), newId }) });
  await assert.rejects(pool.run('workload', 'remove', 'a1-r1-web'), /of the app shop: change it with "flynn -a shop"/);
  const path = await pool.write('web.json', file('a1-r1-web'));
  await assert.rejects(pool.run('workload', 'apply', path), /of the app shop/);
  assert.match(await pool.run('workload', 'list'), /a1-r1-web .* shop/);
});

test('a scheduler of one’s own, named by its path, places workloads of its kind', async () => {
  await using pool = await openPool({ schedulerPaths: [example] });
  assert.equal(pool.fault, undefined);
  await pool.run('workload', 'apply', await pool.write('night.json', file('night', { kind: 'cheapest', count: 8 })));
  const { list } = await pool.reach('night', ({ jobs }) => jobs['running'] === 8);
  assert.deepEqual(
    list.map(({ hostId }) => hostId),
    Array.from({ length: 8 }, () => 'h2'),
    'all on the cheaper host',
  );
});

test('a scheduler of one’s own that cannot be loaded is told, and the others go on', async () => {
  await using pool = await openPool({ schedulerPaths: ['/nowhere/own.ts'] });
  assert.match(pool.fault ?? '', /could not load the scheduler \/nowhere\/own\.ts/);
  await pool.run('workload', 'apply', await pool.write('web.json', file('web')));
  await pool.reach('web', ({ jobs }) => jobs['running'] === 1);
  await pool.run('workload', 'apply', await pool.write('night.json', file('night', { kind: 'cheapest' })));
  const { waiting } = await pool.reach('night', (detail) => detail.waiting !== undefined);
  assert.match(waiting ?? '', /no scheduler plans for the kind "cheapest", there are: service/);
});
