import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Instance } from '@flynn/discovery/api';
import { FlynnError } from '@flynn/kit/errors';
import { newId } from '@flynn/kit/ids';
import { cellKeys } from '@flynn/scheduler/cell';
import { workloadChange } from '@flynn/scheduler/evaluations';
import { createMemoryStore } from '@flynn/store/memory';
import type { Store } from '@flynn/store/store';
import { ensureController, firstWorkloads } from './controller.ts';
import { controllerUrl } from './controller-client.ts';
import type { SystemApp } from './manifest.ts';

const app: SystemApp = {
  name: 'controller',
  image: 'flynn/controller:1',
  env: { FLYNN_ETCD_CERT: 'made anew' },
  processes: { web: { command: ['web'] }, worker: { command: ['worker'] } },
  counts: { web: 1, worker: 1 },
  routes: [],
};

const instance = (id: string, attributes: Record<string, string> = {}): Instance => ({
  id,
  service: 'controller',
  address: `100.100.0.${id.length}:3000`,
  attributes,
  createdRevision: 1,
});
const first = instance('first', { 'flynn.bootstrap': 'web' });

type Where = { where?: Record<string, string> };

/** Where these are announced, and the first one once it is wanted and its host has started it. */
function discoveryWith(store: Store, announced: readonly Instance[]) {
  const instances = async (_service: string, { where = {} }: Where = {}): Promise<Instance[]> => {
    const wanted = (await firstsIn(store)).includes(`${cellKeys.workloads}bootstrap-controller-web`);
    return [...announced, ...(wanted ? [first] : [])].filter(({ attributes }) =>
      Object.entries(where).every(([name, value]) => attributes[name] === value),
    );
  };
  return { instances, resolve: async () => announced[0] ?? first };
}

async function firstsIn(store: Store): Promise<string[]> {
  const { entries } = await store.list(`${cellKeys.workloads}bootstrap-`);
  return entries.map(({ key }) => key);
}

/** As an app there is one: its workloads are in the store. */
async function asApp(store: Store): Promise<void> {
  const [workload] = firstWorkloads(app);
  assert.ok(workload);
  await store.transact({ then: workloadChange({ ...workload, id: 'abcdefghijkl-web' }, { now: 0, newId }) });
}

const letIn = async (): Promise<void> => {};

test('a controller that serves is left alone, whatever else is the matter with one of them', async () => {
  await using store = createMemoryStore();
  await asApp(store);
  const discovery = discoveryWith(store, [instance('a'), instance('ab')]);
  const ask = async ({ id }: Instance): Promise<void> => {
    if (id === 'ab') throw new FlynnError('unavailable', 'it is being replaced');
  };
  assert.equal(await ensureController(store, app, { discovery, ask, report: () => {} }), 'running');
  assert.deepEqual(await firstsIn(store), []);
});

test('controllers whose certificate for the store is over do not count: another runs beside them, and is the one that is asked', async () => {
  await using store = createMemoryStore();
  await asApp(store);
  const old = [instance('a'), instance('ab')];
  const discovery = discoveryWith(store, old);
  const ask = async ({ id }: Instance): Promise<void> => {
    if (id !== 'first') throw new FlynnError('unauthenticated', 'etcd does not accept this client’s certificate');
  };
  const lines: string[] = [];
  const report = (line: string): void => void lines.push(line);
  assert.equal(await controllerUrl(discovery, undefined), `http://${old[0]?.address}`);
  assert.equal(await ensureController(store, app, { discovery, ask, report }), 'started');
  assert.equal((await firstsIn(store)).length, 2, 'what carries deployments out as well');
  assert.deepEqual(lines, [
    'the store does not let in the controller that runs: running another beside it, directly on the host',
  ]);
  assert.equal(await controllerUrl(discovery, undefined), `http://${first.address}`);
});

test('without any, the first one is run', async () => {
  await using store = createMemoryStore();
  const discovery = discoveryWith(store, []);
  assert.equal(await ensureController(store, app, { discovery, ask: letIn, report: () => {} }), 'started');
  assert.equal((await firstsIn(store)).length, 2);
});
