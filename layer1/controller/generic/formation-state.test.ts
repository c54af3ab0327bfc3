import assert from 'node:assert/strict';
import { test } from 'node:test';
import { jobStatusSchema } from '@flynn/scheduler/cell';
import type { SeenStatus } from '@flynn/scheduler/lost-jobs';
import { processSchema } from '../processes/process.ts';
import { formationState } from './formation-state.ts';
import type { FormationFacts } from './formation-state.ts';

const at = (minute: number) => new Date(Date.UTC(2026, 0, 1, 12, minute)).toISOString();
const ms = (minute: number) => Date.parse(at(minute));

function job(type: string, hostId: string, more: Partial<SeenStatus> = {}): SeenStatus {
  const status = jobStatusSchema.parse({
    id: `${hostId}-${type}`,
    workloadId: `a-r-${type}`,
    hostId,
    version: 'v',
    meta: { 'flynn.type': type },
    state: 'running',
    isFinal: false,
    createdAt: ms(0),
    startedAt: ms(1),
  });
  return { ...status, isUncertain: false, ...more };
}

function stateOf(counts: Record<string, number>, facts: Partial<FormationFacts>) {
  const { up, conditions } = formationState({
    formation: { spec: { appId: 'a', releaseId: 'r', processes: counts }, updatedAt: at(30) },
    processes: {},
    statuses: [],
    waiting: [],
    hostsFor: () => 1,
    ...facts,
  });
  const [healthy, placed] = conditions;
  assert.deepEqual([healthy?.type, placed?.type], ['Healthy', 'Placed']);
  return { up, healthy: [healthy?.status, healthy?.message, healthy?.since], placed: [placed?.status, placed?.since] };
}

test('of a type that each host runs one of as many are wanted as there are hosts for it, up to so many', () => {
  const router = processSchema.parse({ omni: true });
  const store = processSchema.parse({ omni: true, maxHosts: 2 });
  const statuses = [job('web', 'h1')];
  const of = (process: typeof router, hosts: number, count = 1) =>
    stateOf({ web: count }, { processes: { web: process }, statuses, hostsFor: () => hosts }).healthy.slice(0, 2);
  assert.deepEqual(of(router, 3), ['False', '1 of 3 web are up']);
  assert.deepEqual(of(store, 3), ['False', '1 of 2 web are up']);
  assert.deepEqual(of(router, 1), ['True', '']);
  assert.deepEqual(of(router, 3, 0), ['True', '']);
  assert.deepEqual(stateOf({ web: 1 }, { statuses, hostsFor: () => 3 }).healthy.slice(0, 2), ['True', '']);
});

test('a job whose host is away is not up', () => {
  const away = job('web', 'h2', { isUncertain: true });
  const { up, healthy } = stateOf({ web: 2 }, { statuses: [job('web', 'h1'), away] });
  assert.deepEqual(
    [up, healthy.slice(0, 2)],
    [{ web: 1 }, ['False', '1 of 2 web are up (and 1 on hosts that are away)']],
  );
});

test('it is so since the last job came up, or since one ended, not since it was scaled', () => {
  const late = job('web', 'h2', { createdAt: ms(4), startedAt: ms(5) });
  const early = job('web', 'h1');
  // Scaled down at 12:30: nothing came up by it.
  const ready = stateOf({ web: 2 }, { statuses: [early, late] });
  assert.deepEqual(
    [ready.healthy, ready.placed],
    [
      ['True', '', at(5)],
      ['True', at(4)],
    ],
  );
  const crashed = job('web', 'h2', { state: 'crashed', endedAt: ms(40) });
  const down = stateOf({ web: 2 }, { statuses: [early, crashed] });
  assert.deepEqual(down.healthy, ['False', '1 of 2 web are up', at(40)]);
  const more = stateOf({ web: 2 }, { statuses: [early], waiting: [{ error: 'no memory' }] });
  assert.deepEqual([more.healthy.at(-1), more.placed], [at(30), ['False', at(30)]]);
  assert.deepEqual(stateOf({ web: 0 }, {}).healthy, ['True', '', at(30)]);
});
