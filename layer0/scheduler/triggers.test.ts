/** What a change costs to look at, in a large cell: counts, so the same on every machine. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Versioned } from './cell-view.ts';
import type { Workload } from './cell.ts';
import { hostOf, placedOf, workloadOf } from './testing.ts';
import { ToyCell } from './toy-cell.ts';
import { Triggers } from './triggers.ts';

class CountingCell extends ToyCell {
  looks = 0;

  override workload(workloadId: string): Versioned<Workload> | undefined {
    this.looks += 1;
    return super.workload(workloadId);
  }

  override jobsOf(workloadId: string): ReturnType<ToyCell['jobsOf']> {
    this.looks += 1;
    return super.jobsOf(workloadId);
  }
}

test('a host that joins concerns the omni workloads, and the others are not even looked at', () => {
  const cell = new CountingCell();
  for (let n = 0; n < 1_000; n += 1) cell.put(workloadOf({ id: `w${n}` }));
  cell.put(workloadOf({ id: 'log', kind: 'omni' }));
  const host = hostOf('h1');
  cell.put(host);
  const triggers = new Triggers(cell).of({ kind: 'host', hostId: 'h1', before: undefined, after: host });
  assert.deepEqual(triggers, [{ workloadId: 'log', cause: 'host_joined' }]);
  assert.equal(cell.looks, 1);
});

test('the jobs of a workload that is looked at soon anyway are not looked at for each of their statuses', () => {
  const cell = new CountingCell();
  const [old, web] = ['v1', 'v2'].map((version) => workloadOf({ version }));
  assert.ok(old !== undefined && web !== undefined);
  cell.put(hostOf('h1'), web).assign(placedOf(old, 'a', { state: 'running' }));
  const triggers = new Triggers(cell);
  const after = { state: 'running', isFinal: false, createdAt: 0, version: 'v2' } as const;
  const change = { kind: 'status', hostId: 'h1', jobId: 'h1-b', workloadId: 'web', before: undefined, after } as const;
  assert.deepEqual(triggers.of(change), [{ workloadId: 'web', cause: 'health' }]);
  cell.looks = 0;
  assert.deepEqual(
    triggers.of(change, () => true),
    [],
  );
  assert.equal(cell.looks, 0);
});
