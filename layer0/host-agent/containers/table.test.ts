import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { ContainerTable } from './table.ts';
import type { Container } from '../engine/engine.ts';
import { createMemoryEngine } from '../engine/memory.ts';

function containerOf(rest: Partial<Container>): Container {
  return {
    id: 'c',
    name: 'c',
    labels: {},
    state: 'running',
    imageId: 'i',
    tty: false,
    volumes: [],
    createdAtMs: 0,
    isOutOfMemory: false,
    ...rest,
  };
}

test('a look from before an end does not undo it', () => {
  const table = new ContainerTable({ engine: createMemoryEngine(), log: silentLogger() });
  table.put(containerOf({ state: 'exited', startedAtMs: 2_000, endedAtMs: 3_000 }));
  table.put(containerOf({ startedAtMs: 2_000 }));
  table.put(containerOf({ startedAtMs: 1_000 }));
  assert.equal(table.all()[0]?.state, 'exited');
});

test('a start counts although the clock was set back since the last one', () => {
  const table = new ContainerTable({ engine: createMemoryEngine(), log: silentLogger() });
  const now = Date.now();
  table.put(containerOf({ state: 'exited', startedAtMs: now + 3_600_000, endedAtMs: now + 3_601_000 }));
  table.put(containerOf({ startedAtMs: now }));
  assert.equal(table.all()[0]?.state, 'running');
});
