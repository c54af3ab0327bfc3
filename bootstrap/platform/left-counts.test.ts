import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createMemoryStore } from '@flynn/store/memory';
import { leftCountsPut, readLeftCounts, stillLeft, withLeft } from './left-counts.ts';
import type { SystemApp } from './manifest.ts';

const { signal } = new AbortController();
const app: SystemApp = {
  name: 'dashboard',
  image: 'i',
  env: {},
  processes: { web: {} },
  counts: { web: 1 },
  routes: [],
};

test('counts are kept until what they are of is back: one that is left out, or fails, may come later', () => {
  const left = { dashboard: { web: 0 } };
  for (const outcome of ['left out', 'failed'] as const) {
    assert.deepEqual(stillLeft(left, new Map([['dashboard', outcome]])), left);
  }
  assert.deepEqual(stillLeft(left, new Map([['router', 'created']])), left);
  assert.deepEqual(stillLeft(left, new Map([['dashboard', 'created']])), {});
});

test('a type that there is no more holds up nothing', () => {
  assert.deepEqual(withLeft(app, { dashboard: { web: 0, former: 2 }, other: { web: 3 } }).counts, { web: 0 });
});

test('what cannot be read is none, and told, and goes with the next that is written', async () => {
  await using store = createMemoryStore();
  const lines: string[] = [];
  const read = () => readLeftCounts(store, { signal, report: (line) => lines.push(line) });
  await store.transact({ then: [leftCountsPut({ dashboard: { web: 2 } })] });
  assert.deepEqual(await read(), { dashboard: { web: 2 } });
  assert.deepEqual(lines, []);
  const [entry] = (await store.list('/')).entries;
  await store.transact({ then: [{ put: entry?.key ?? '', value: '{"dashboard":' }] });
  assert.deepEqual(await read(), {});
  assert.match(lines.join(), /in its usual number, set it with flynn scale/);
  await store.transact({ then: [leftCountsPut({})] });
  assert.equal(await store.get(entry?.key ?? '', { signal }), undefined);
});
